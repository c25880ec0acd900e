#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments/command_options.h"
#include "base/error.h"
#include "base/stop_request.h"
#include "base/user_error_kinds.h"
#include "cli/commands.h"
#include "cli/find_fit.h"
#include "cli/result_file.h"
#include "fit/fit_page.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

const std::vector<ArgumentSpec>& fit_rows() {
  static const std::vector<ArgumentSpec> rows = [] {
    std::vector<ArgumentSpec> all = fit_option_rows();
    all.insert(all.end(), fit_look_rows().begin(), fit_look_rows().end());
    all.push_back(result_json_file_row());
    return all;
  }();
  return rows;
}

// At most one of the flags that ask for something else than a search under one budget.
void check_looks(const CommandOptions& options) {
  std::string asked;
  for (const char* name : {"budget_sweep", "why", "fit_print"}) {
    if (!options.flag(name)) continue;
    if (!asked.empty())
      throw user_error("[--{}] expected without --{}, got both; ask one after the other", name, asked);
    asked = name;
  }
  for (const char* file : {"report", "json_file"}) {
    if (!asked.empty() && !options.text(file).empty())
      throw user_error("[--{}] expected without --{}, got both; the file has what a search found", file,
                       asked);
  }
  if (!asked.empty() && options.integer("verify") != 0)
    throw user_error("[--verify] expected without --{}, got both; only a search runs its best plans", asked);
  options.number_at_least("price_per_hour", 0);
}

void print_sweep(const CommandOptions& options, FoundFit& found) {
  const std::vector<PlannedCandidate> curve = sweep_fit(options, found);
  fmt::print(found.is_json ? stderr : stdout, "{}", found.text);
  if (found.is_json) {
    fmt::print("{}", format_json(nlohmann::json{{"sweep", to_json(found.report, curve)}}));
  } else {
    fmt::print("{}", format_sweep(curve));
  }
}

void print_why(const CommandOptions& options, FoundFit& found) {
  explain_fit(options, found);
  fmt::print(found.is_json ? stderr : stdout, "{}", found.text);
  fmt::print("{}", found.is_json ? format_json(to_json(found.report)) : format_why(found.report));
}

void print_bytes(const CommandOptions& options, FoundFit& found) {
  const nlohmann::json plan = planned_bytes(options, found);
  if (found.is_json) {
    fmt::print("{}", format_json(plan));
    return;
  }
  const auto row = [](const std::string& name, const nlohmann::json& bytes) {
    fmt::print("  {:<30}{:>16}\n", name, bytes.get<int64_t>());
  };
  fmt::print("Bytes of this run\n");
  for (const auto& [role, bytes] : plan["by_role"].items()) row(role, bytes);
  row("arenas", plan["arena_bytes"]);
  row("process besides the arenas", plan["process_overhead_bytes"]);
  row("peak of the whole process", plan["process_peak_bytes"]);
}

int print_found(const CommandOptions& options, FoundFit& found) {
  find_fit(options, 0, found, options.text("machine_profile"));
  fmt::print(found.is_json ? stderr : stdout, "{}", found.text);
  write_report(options, [&] { return fit_page(found.report); });
  const nlohmann::ordered_json result = to_json(found.report);
  write_result_file(options, result);
  if (found.is_json) fmt::print("{}", format_json(result));
  if (!found.report.chosen) throw DoesNotFit(format_no_fit(found.report));
  if (found.is_json) return 0;
  fmt::print("{}", format_fit(found.report));
  say_result_files(options);
  return 0;
}

}  // namespace

CommandHelp help_of_fit() {
  return {
      .name = "fit",
      .introduction =
          "The fastest settings of a training run that fit the memory, and the flags that train with them.\n"
          "What is given stays; docs/fit.md tells more.\n\n"
          "  shoehorn fit --model_name_or_path DIR --sequence_length 512 --memory_budget 6GiB\n",
      .own_rows = fit_rows(),
      .table = Command::kPlan};
}

int run_fit(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(fit_rows(), words, OtherWords::kTableFlags);
  check_looks(options);
  prepare_result_files(options);
  const StopSignals signals;
  FoundFit found;
  found.report.price_per_hour = options.number("price_per_hour");
  if (options.flag("budget_sweep")) {
    print_sweep(options, found);
  } else if (options.flag("why")) {
    print_why(options, found);
  } else if (options.flag("fit_print")) {
    print_bytes(options, found);
  } else {
    return print_found(options, found);
  }
  return 0;
}

}  // namespace shoehorn
