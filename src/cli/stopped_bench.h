// What a benchmark of many settings shows when a stop ends it.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/stop_request.h"
#include "cli/output_lines.h"

namespace shoehorn {

// "the result is of the settings so far, 3 of 17".
template <typename Result>
std::string rungs_so_far(const Result& result) {
  return fmt::format("the result is of the settings so far, {} of {}", result.rungs.size(),
                     result.options.rungs.size());
}

// Prints and returns the result of walk(on_result), where the walk calls on_result(result) with what is measured so far,
// which write(result) puts into files. If a stop ends it, print(result) shows the last of these, and Stopped says
// so_far_text(result).
template <typename Result, typename Walk, typename Write, typename Print>
Result walk_until_stopped(const Walk& walk, const Write& write, const Print& print,
                          std::string (*so_far_text)(const Result&)) {
  std::optional<Result> so_far;
  try {
    so_far = walk([&](const Result& result) {
      so_far = result;
      write(result);
    });
  } catch (const Stopped& stop) {
    leave_closed_output();
    if (!so_far) throw Stopped(stop.signal(), "no setting is measured");
    print(*so_far);
    throw Stopped(stop.signal(), so_far_text(*so_far));
  }
  print(*so_far);
  return std::move(*so_far);
}

}  // namespace shoehorn
