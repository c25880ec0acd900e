#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "base/error.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/result_file.h"
#include "io/file.h"
#include "lab/run_comparison.h"

namespace shoehorn {

namespace {

const std::vector<ArgumentSpec>& option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "output_file",
       .kind = ArgumentKind::kText,
       .standard = std::string(),
       .help = "write the comparison with plots as one HTML file"},
      result_json_row(),
  };
  return rows;
}

std::vector<std::string> directories_of(const CommandOptions& options) {
  for (const std::string& word : options.rest) {
    if (!word.starts_with("--")) continue;
    const std::string nearest = nearest_name(word.substr(2, word.find('=') - 2), {"output_file", "json"});
    throw user_error("[{}] expected a flag of compare or the output directory of a run{}", word,
                     nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest));
  }
  return options.rest;
}

}  // namespace

int run_compare(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(option_rows(), words, UnknownFlags::kKeep);
  if (options.help) {
    fmt::print(
        "shoehorn compare RUN RUN … [flags]\n\n"
        "Runs beside each other, each the output directory of a training: losses, metrics, memory, time, and the\n"
        "arguments in which they differ. Of a run that goes on the newest checkpoint counts.\n\n{}",
        options_help(option_rows()));
    return 0;
  }
  const RunComparison comparison = read_runs(directories_of(options));
  prepare_result_file(options.text("json"));
  prepare_result_file(options.text("output_file"));
  if (!options.text("output_file").empty())
    write_text_atomic(options.text("output_file"), comparison_page(comparison));
  write_result(options.text("json"), to_json(comparison), format_comparison(comparison));
  return 0;
}

}  // namespace shoehorn
