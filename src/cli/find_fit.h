// The search behind `fit` and `train --fit`.
#pragma once

#include <string>
#include <vector>

#include "arguments/command_options.h"
#include "fit/fit_report.h"

namespace shoehorn {

// The flags of `fit` alone.
const std::vector<ArgumentSpec>& fit_option_rows();

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
void find_fit(const CommandOptions& options, int64_t verified, FoundFit& found);

}  // namespace shoehorn
