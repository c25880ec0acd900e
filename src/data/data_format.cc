#include "data/data_format.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "io/file.h"
#include "io/input_stream.h"

namespace shoehorn {
namespace {

std::string lower_case_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return extension;
}

struct OtherFormat {
  std::string_view extensions;
  std::string_view name;
  std::string_view pandas = {};   // its function that reads the format, or
  std::string_view command = {};  // {0}: the file; {1}: its name without the extension
};

constexpr std::array<OtherFormat, 8> kOtherFormats = {
    {{".parquet", "a Parquet file", "read_parquet"},
     {".feather", "a Feather file", "read_feather"},
     {".xlsx .xls .ods", "a spreadsheet", "read_excel"},
     {".pkl .pickle", "a pickle", "read_pickle"},
     {".arrow", "an Arrow file", "",
      "python3 -c \"import datasets; datasets.Dataset.from_file('{0}').to_json('{1}.jsonl')\""},
     {".xz", "an xz archive", "", "xz -dc '{0}' | gzip > '{1}.gz'"},
     {".bz2", "a bzip2 archive", "", "bzip2 -dc '{0}' | gzip > '{1}.gz'"},
     {".zip", "a zip archive", "", "unzip '{0}'"}}};

bool has_word(std::string_view words, std::string_view word) {
  for (size_t end = 0; !words.empty(); words.remove_prefix(std::min(end + 1, words.size()))) {
    end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
  }
  return false;
}

std::string conversion_command(const OtherFormat& format, const std::filesystem::path& path) {
  const std::string stem = std::filesystem::path(path).replace_extension().string();
  if (!format.command.empty()) return fmt::format(fmt::runtime(format.command), path.string(), stem);
  return fmt::format(
      "python3 -c \"import pandas; pandas.{}('{}').to_json('{}.jsonl', orient='records', lines=True)\"",
      format.pandas, path.string(), stem);
}

[[noreturn]] void throw_other_format(const std::filesystem::path& path) {
  if (!path_exists(path)) open_input(path);  // which says what is wrong
  const std::string extension = lower_case_extension(without_compression(path));
  for (const OtherFormat& format : kOtherFormats) {
    if (!has_word(format.extensions, extension)) continue;
    throw user_error("[{}] expected csv, tsv, txt or JSON lines, got {}; convert it: {}", path.string(),
                     format.name, conversion_command(format, path));
  }
  throw user_error(
      "[{}] expected a file named .csv, .tsv, .txt, .json or .jsonl (.gz or .zst behind it), got '{}'; rename or "
      "convert it",
      path.string(), extension);
}

std::optional<DataFormat> format_of_name(const std::filesystem::path& path) {
  const std::string extension = lower_case_extension(without_compression(path));
  if (extension == ".csv") return DataFormat::kCommas;
  if (extension == ".tsv") return DataFormat::kTabs;
  if (extension == ".txt") return DataFormat::kText;
  if (extension == ".json" || extension == ".jsonl") return DataFormat::kObjects;
  return std::nullopt;
}

}  // namespace

DataFormat data_format_of(const std::filesystem::path& path) {
  const std::optional<DataFormat> format = format_of_name(path);
  if (!format) throw_other_format(path);
  return *format;
}

bool is_named_as_table(const std::filesystem::path& path) {
  const std::optional<DataFormat> format = format_of_name(path);
  return format && *format != DataFormat::kText;
}

DataFormat table_format_of_bytes(std::string_view beginning) {
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (beginning[first] == '{' || beginning[first] == '['))
    return DataFormat::kObjects;
  const std::string_view line = beginning.substr(0, beginning.find('\n'));
  return std::ranges::count(line, '\t') > std::ranges::count(line, ',') ? DataFormat::kTabs
                                                                        : DataFormat::kCommas;
}

}  // namespace shoehorn
