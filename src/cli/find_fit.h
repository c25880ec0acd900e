// The search behind `fit` and `train --fit`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "arguments/command_options.h"
#include "fit/fit_report.h"

namespace shoehorn {

// The flags of `fit` and of `train --fit`.
const std::vector<ArgumentSpec>& fit_option_rows();

// Best plans that run before a training takes one of them (--verify), where they can.
inline constexpr int64_t kVerifiedToTrain = 3;

// A report with what it refers to.
struct FoundFit {
  FitResult result;
  FitReport report{result};
  std::string text;  // for people: what was found in the files
  bool is_json = false;

  FoundFit() = default;
  FoundFit(const FoundFit&) = delete;
  FoundFit& operator=(const FoundFit&) = delete;
};

// Searches, and runs the best plans if --verify, or `verified` in its absence, says so. `options` were parsed from the
// command line and keep train's flags in `rest`. UserError for flags that do not go together.
// `machine`: another one's name or file (planned_machine.h), or empty.
void find_fit(const CommandOptions& options, int64_t verified, FoundFit& found,
              const std::string& machine = {});

// The flags of `fit` besides: they plan for another machine, look at one run, or write a page.
const std::vector<ArgumentSpec>& fit_look_rows();

// `options` of these are with both lists of rows. UserError as above.
// The curve of budgets (PlanSearch::sweep).
std::vector<PlannedCandidate> sweep_fit(const CommandOptions& options, FoundFit& found);
// The run as it is (PlanSearch::explain).
void explain_fit(const CommandOptions& options, FoundFit& found);
// What `plan --json` says of the run as it is.
nlohmann::json planned_bytes(const CommandOptions& options, FoundFit& found);

}  // namespace shoehorn
