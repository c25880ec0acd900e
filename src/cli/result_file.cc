#include "cli/result_file.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

constexpr JsonFormat kFormat = {.sort_keys = false, .ensure_ascii = false};

}  // namespace

ArgumentSpec result_json_row() {
  return {.name = "json",
          .kind = ArgumentKind::kFlag,
          .standard = false,
          .help = "write the result as JSON to standard output"};
}

ArgumentSpec result_json_file_row() {
  return {.name = "json_file",
          .kind = ArgumentKind::kText,
          .standard = std::string(),
          .value = "FILE",
          .help = "write the result as JSON to this file, beside the table"};
}

ArgumentSpec result_report_row() {
  return {.name = "report",
          .kind = ArgumentKind::kText,
          .standard = std::string(),
          .value = "FILE",
          .help = "write the table with plots as one HTML file"};
}

CommandOptions parse_result_options(const std::vector<ArgumentSpec>& rows,
                                    const std::vector<std::string>& words, UnknownFlags unknown) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& next = words[i + 1];
    if (words[i] == "--json" && !next.starts_with("--") && !parse_boolean(next))
      throw user_error("[--json] expected nothing behind it, got '{0}'; --json_file {0} writes a file", next);
  }
  CommandOptions options = parse_options(rows, words, unknown);
  if (options.flag("json") && options.is_given("json_file")) {
    throw user_error(
        "[--json_file] expected no --json with it, got both; the file has what --json prints in place of the "
        "table");
  }
  return options;
}

std::string json_file_of(const CommandOptions& options) {
  return options.flag("json") ? "-" : options.text("json_file");
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
