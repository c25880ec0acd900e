#include "cli/bench_step_options.h"

#include <utility>

namespace shoehorn {

const std::vector<ArgumentSpec>& bench_step_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "on_texts",
       .kind = ArgumentKind::kFlag,
       .standard = false,
       .help =
           "on the texts of --train_file in the order of training, read by the flags of train, and not on random tokens"},
      {.name = "limits",
       .kind = ArgumentKind::kFlag,
       .standard = true,
       .help = "measure this machine's limits too, and say what share of them the step reaches"},
      {.name = "median_error",
       .kind = ArgumentKind::kNumber,
       .standard = 0.02,
       .help =
           "without --max_steps: steps are repeated until half of the 90 % interval of their median is at most "
           "this share of it"},
      {.name = "max_seconds",
       .kind = ArgumentKind::kNumber,
       .standard = 60.0,
       .help = "without --max_steps: or until they have taken this long"}};
  return rows;
}

BenchStepArguments parse_bench_step(const std::vector<std::string>& words, int64_t ranks) {
  CommandOptions options = parse_options(bench_step_option_rows(), words, OtherWords::kTableFlags);
  ParsedArguments run = parse_arguments(Command::kBenchStep, options.rest, ranks);
  return {.options = std::move(options), .run = std::move(run)};
}

}  // namespace shoehorn
