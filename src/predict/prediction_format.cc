#include "predict/prediction_format.h"

#include "base/error.h"

namespace shoehorn {

namespace {

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace

bool is_standard_output(const std::filesystem::path& path) {
  return path == "-";
}

PredictionFormat prediction_format_of(const std::filesystem::path& path, const std::string& given) {
  const std::string named = !given.empty() ? "." + given : lower_case(path.extension().string());
  if (named == ".csv") return PredictionFormat::kCsv;
  if (named == ".tsv") return PredictionFormat::kTsv;
  if (named == ".jsonl" || named == ".json" || (given.empty() && is_standard_output(path)))
    return PredictionFormat::kJsonLines;
  throw user_error(
      "[--output_file] expected a name that ends in .jsonl, .json, .csv or .tsv, or - for standard output, got '{}'; "
      "rename it or give --output_file_format",
      path.string());
}

}  // namespace shoehorn
