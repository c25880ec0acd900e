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
constexpr const char* kJsonFile = "json_file";
constexpr const char* kReport = "report";

// Empty: not given.
std::string file_of(const CommandOptions& options, const char* flag) {
  return options.is_given(flag) ? options.text(flag) : std::string();
}

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
                                    const std::vector<std::string>& words, OtherWords kept) {
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& next = words[i + 1];
    if (words[i] == "--json" && !next.starts_with("--") && !parse_boolean(next))
      throw user_error("[--json] expected nothing behind it, got '{0}'; --json_file {0} writes a file", next);
  }
  CommandOptions options = parse_options(rows, words, kept);
  if (options.flag("json") && options.is_given("json_file")) {
    throw user_error(
        "[--json_file] expected no --json with it, got both; the file has what --json prints in place of the "
        "table");
  }
  return options;
}

void prepare_result_files(const CommandOptions& options) {
  for (const char* flag : {kJsonFile, kReport}) {
    const std::string file = file_of(options, flag);
    if (file.empty()) continue;
    const std::filesystem::path directory = std::filesystem::path(file).parent_path();
    ensure_writable_directory(directory.empty() ? "." : directory);
    AtomicFile probe(file);  // hours before it is written
  }
}

void write_result_file(const CommandOptions& options, const nlohmann::ordered_json& json) {
  const std::string file = file_of(options, kJsonFile);
  if (!file.empty()) write_json_atomic(file, json, kFormat);
}

void write_report(const CommandOptions& options, const std::function<std::string()>& page) {
  const std::string file = file_of(options, kReport);
  if (!file.empty()) write_text_atomic(file, page());
}

void write_result(const CommandOptions& options, const nlohmann::ordered_json& json,
                  const std::string& table) {
  fmt::print("{}", options.flag("json") ? format_json(json, kFormat) : table);
  std::fflush(stdout);
  write_result_file(options, json);
  say_result_files(options);
}

void say_result_files(const CommandOptions& options) {
  if (options.is_given("json") && options.flag("json")) return;
  for (const auto& [flag, what] : {std::pair(kJsonFile, "Results"), std::pair(kReport, "Report")}) {
    const std::string file = file_of(options, flag);
    if (!file.empty()) fmt::print("{} in {}\n", what, file);
  }
}

}  // namespace shoehorn
