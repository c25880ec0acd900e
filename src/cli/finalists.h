// The best plans of a search: which of them fit to the byte, and which is the fastest when they are run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/exact_plans.h"
#include "cli/planned_task.h"
#include "fit/fit_report.h"

namespace shoehorn {

// Fills in `best`, `chosen`, `measured` and `not_measured` of the report. `result.fitting` is best first; of it those whose
// processes fit report.budget_bytes, `verified` of them (at least one). If `verified` is above 0 these run two steps each, twice, and
// the fastest is chosen; else the first. `launch`: as measure_step takes it.
void choose_plan(const FitResult& result, ExactPlans& exact_plans, size_t verified, const PlannedTask& task,
                 const std::vector<std::string>& launch, FitReport& report);

}  // namespace shoehorn
