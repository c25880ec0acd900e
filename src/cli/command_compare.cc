#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
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

}  // namespace

CommandHelp help_of_compare() {
  return {
      .name = "compare",
      .introduction =
          "Runs beside each other, each the output directory of a training: losses, metrics, memory, time, and the\n"
          "arguments in which they differ. Of a run that goes on the newest checkpoint counts.\n\n"
          "  shoehorn compare RUN RUN … [FLAGS]\n",
      .own_rows = compare_option_rows()};
}

int run_compare(const std::vector<std::string>& words) {
  const CommandOptions options = parse_result_options(compare_option_rows(), words, OtherWords::kWords);
  const RunComparison comparison = read_runs(options.rest);
  prepare_result_files(options);
  write_report(options, [&] { return comparison_page(comparison); });
  write_result(options, to_json(comparison), format_comparison(comparison));
  return 0;
}

}  // namespace shoehorn
