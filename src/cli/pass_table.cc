#include "cli/pass_table.h"

#include <fmt/format.h>

#include <cmath>

#include "base/format.h"
#include "lab/text_table.h"

namespace shoehorn {

namespace {

// "-1.50 GiB", "+12", "0": what a pass changes.
std::string change_of_bytes(double bytes) {
  const auto rounded = static_cast<int64_t>(std::llround(bytes));
  if (rounded == 0) return "0";
  return fmt::format("{}{}", rounded < 0 ? '-' : '+', format_bytes(std::abs(rounded)));
}

std::string change_of(double number, double unit, const char* unit_name, int decimals) {
  const double least_shown = 0.5 * std::pow(10, -decimals);
  if (std::abs(number / unit) < least_shown) return "0";
  return fmt::format("{:+.{}f}{}", number / unit, decimals, unit_name);
}

std::vector<std::string> row_of(const PassEffect& effect) {
  const StepWork& with = effect.with;
  const StepWork& without = effect.without;
  return {effect.name,
          change_of(with.nodes - without.nodes, 1, "", 0),
          change_of(with.flops - without.flops, 1e9, " G", 1),
          change_of_bytes(with.bytes - without.bytes),
          change_of(with.seconds - without.seconds, 1e-3, " ms", 1),
          change_of_bytes(static_cast<double>(with.arena_bytes - without.arena_bytes)),
          std::string(exactness_name(effect.exactness))};
}

std::string line_of(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("  {}: {}\n", what, fmt::join(names, ", "));
}

}  // namespace

std::string format_passes(const std::vector<PassEffect>& effects) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> idle, skipped;
  for (const PassEffect& effect : effects) {
    if (effect.is_skipped)
      skipped.push_back(effect.name);
    else if (effect.does_something())
      rows.push_back(row_of(effect));
    else
      idle.push_back(effect.name);
  }
  return "What each pass changes in a step, against the step without it (--skip_pass NAME)\n" +
         format_table({{"pass"},
                       {"nodes", true},
                       {"flops", true},
                       {"bytes moved", true},
                       {"time, at least", true},
                       {"arenas", true},
                       {"results"}},
                      rows) +
         line_of("nothing to do here", idle) + line_of("skipped", skipped);
}

}  // namespace shoehorn
