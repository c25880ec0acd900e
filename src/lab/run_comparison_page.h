// Compared runs as an HTML page.
#pragma once

#include <string>

#include "lab/run_comparison.h"

namespace shoehorn {

// One HTML file: losses and metrics over the steps, memory, time, and the tables.
std::string comparison_page(const RunComparison& comparison);

}  // namespace shoehorn
