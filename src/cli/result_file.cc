#include "cli/result_file.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

constexpr JsonFormat kFormat = {.sort_keys = false, .ensure_ascii = false};

}  // namespace

ArgumentSpec result_json_row() {
  return {.name = "json",
          .kind = ArgumentKind::kText,
          .standard = std::string(),
          .help = "FILE, or - for standard output in place of the table: the result as JSON",
          .true_text = "-",
          .false_text = ""};
}

ArgumentSpec result_report_row() {
  return {.name = "report",
          .kind = ArgumentKind::kText,
          .standard = std::string(),
          .help = "write the table with plots as one HTML file"};
}

void prepare_result_file(const std::string& file) {
  if (file.empty() || file == "-") return;
  const std::filesystem::path directory = std::filesystem::path(file).parent_path();
  ensure_writable_directory(directory.empty() ? "." : directory);
  AtomicFile probe(file);  // hours before it is written
}

void write_result_file(const std::string& json_file, const nlohmann::ordered_json& json) {
  if (!json_file.empty() && json_file != "-") write_json_atomic(json_file, json, kFormat);
}

void write_result(const std::string& json_file, const nlohmann::ordered_json& json,
                  const std::string& table) {
  fmt::print("{}", json_file == "-" ? format_json(json, kFormat) : table);
  std::fflush(stdout);
  write_result_file(json_file, json);
}

}  // namespace shoehorn
