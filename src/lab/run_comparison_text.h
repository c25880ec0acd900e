// Compared runs as tables, text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/run_comparison.h"
#include "lab/text_table.h"

namespace shoehorn {

// One column a run. Results: losses, metrics with their last and best values, time, memory. Arguments: those in which the
// runs differ, apart from where they write.
TextTable comparison_results(const RunComparison& comparison);
TextTable comparison_arguments(const RunComparison& comparison);
// Which files are missing, and what that leaves out.
std::vector<std::string> comparison_remarks(const RunComparison& comparison);

// What is said where no row of arguments is there; names the runs whose arguments are not known.
std::string no_difference_text(const RunComparison& comparison);

std::string format_comparison(const RunComparison& comparison);
nlohmann::ordered_json to_json(const RunComparison& comparison);

}  // namespace shoehorn
