#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "base/user_error_kinds.h"
#include "cli/commands.h"
#include "cli/find_fit.h"
#include "io/json_file.h"

namespace shoehorn {

CommandHelp help_of_fit() {
  return {
      .name = "fit",
      .introduction =
          "The fastest settings of a training run that fit the memory, and the flags that train with them. "
          "What is given stays; docs/fit.md tells more.\n\n"
          "  shoehorn fit --model bert-large --sequence_length 512 --memory_budget 6GiB\n",
      .own_rows = fit_option_rows(),
      .table = Command::kPlan};
}

int run_fit(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(fit_option_rows(), words, UnknownFlags::kKeep);
  FoundFit found;
  find_fit(options, 0, found);
  fmt::print(found.is_json ? stderr : stdout, "{}", found.text);
  if (found.is_json) fmt::print("{}", format_json(to_json(found.report)));
  if (!found.report.chosen) throw DoesNotFit(format_no_fit(found.report));
  if (!found.is_json) fmt::print("{}", format_fit(found.report));
  return 0;
}

}  // namespace shoehorn
