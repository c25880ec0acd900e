#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/result_file.h"
#include "io/file.h"
#include "lab/run_comparison.h"
#include "lab/run_comparison_page.h"
#include "lab/run_comparison_text.h"

namespace shoehorn {

namespace {

const std::vector<ArgumentSpec>& compare_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      result_report_row(),
      result_json_row(),
      result_json_file_row(),
  };
  return rows;
}

std::vector<std::string> directories_of(const CommandOptions& options) {
  for (const std::string& word : options.rest) {
    if (!word.starts_with("--")) continue;
    const std::string nearest =
        nearest_name(word.substr(2, word.find('=') - 2), {"report", "json", "json_file"});
    throw user_error("[{}] expected a flag of compare or the output directory of a run{}", word,
                     nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest));
  }
  return options.rest;
}

}  // namespace

CommandHelp help_of_compare() {
  return {
      .name = "compare",
      .introduction =
          "Runs beside each other, each the output directory of a training: losses, metrics, memory, time, and the\n"
          "arguments in which they differ. Of a run that goes on the newest checkpoint counts.\n\n"
          "  shoehorn compare RUN RUN …\n",
      .own_rows = compare_option_rows()};
}

int run_compare(const std::vector<std::string>& words) {
  const CommandOptions options = parse_result_options(compare_option_rows(), words, UnknownFlags::kKeep);
  const RunComparison comparison = read_runs(directories_of(options));
  prepare_result_files(options);
  write_report(options, [&] { return comparison_page(comparison); });
  write_result(options, to_json(comparison), format_comparison(comparison));
  return 0;
}

}  // namespace shoehorn
