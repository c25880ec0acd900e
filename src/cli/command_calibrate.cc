#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "base/stop_request.h"
#include "cli/calibrated_costs.h"
#include "cli/commands.h"
#include "cli/output_lines.h"
#include "cli/thread_option.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "lab/calibration.h"
#include "lab/calibration_file.h"

namespace shoehorn {

namespace {

using enum ArgumentKind;

const std::vector<ArgumentSpec>& calibrate_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      num_threads_row(),
      {.name = "quick",
       .kind = kFlag,
       .standard = false,
       .help =
           "a second or two: a few small shapes, and so less certain times; where a full calibration is kept, "
           "nothing is measured"},
      {.name = "replace",
       .kind = kFlag,
       .standard = false,
       .help = "with --quick: also in place of a full calibration"},
      {.name = "max_seconds",
       .kind = kNumber,
       .standard = 50.0,
       .help = "shapes are timed again and again until these are over; none is begun after them"},
  };
  return rows;
}

}  // namespace

CommandHelp help_of_calibrate() {
  return {
      .name = "calibrate",
      .introduction =
          "Measures what operations cost on this machine, and keeps it in the user's cache. From then on fit and\n"
          "plan say how long a step takes, not only what it takes at least. It holds for this processor, number of\n"
          "threads and program.\n\n"
          "  shoehorn calibrate [FLAGS]\n",
      .own_rows = calibrate_option_rows()};
}

int run_calibrate(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(calibrate_option_rows(), words);
  use_given_threads(options);
  const std::shared_ptr<const Backend> backend = make_backend();
  const nlohmann::json fingerprint = fingerprint_of_this_program(*backend);
  const std::filesystem::path path = calibration_path(fingerprint);
  const bool is_quick = options.flag("quick");
  if (is_quick && !options.flag("replace")) {
    const LoadedCalibration kept = load_calibration(path, fingerprint);
    if (kept.costs && !kept.is_quick) {
      fmt::print(
          "A full calibration of {} operations for {} is kept in {}, and fit and plan use it: nothing is measured. "
          "--quick --replace puts a quick one in its place\n",
          kept.costs->samples().size(), describe(thread_count()), path.string());
      return 0;
    }
  }
  fmt::print("Calibrating for {}\n", describe(thread_count()));
  const auto begin = std::chrono::steady_clock::now();
  const StopSignals signals;
  const OpCosts costs = with_kept_text("nothing of it is kept", [&] {
    return calibrate({.is_quick = is_quick,
                      .most_seconds = options.number_at_least("max_seconds", 0),
                      .on_line = [](const std::string& line) { print_flushed(stdout, line + "\n"); }},
                     backend);
  });
  save_calibration(path, fingerprint, costs, is_quick);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print("{} operations timed in {:.0f} s; fit and plan use {} calibration, kept in {}\n",
             costs.samples().size(), seconds.count(), is_quick ? "this quick" : "this", path.string());
  return 0;
}

}  // namespace shoehorn
