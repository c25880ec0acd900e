// What `fit` found, as an HTML page.
#pragma once

#include <string>

#include "fit/fit_report.h"

namespace shoehorn {

// One file: the chosen plan; the frontier of time against memory as a picture and a table; what binds; what each
// technique buys alone; the least budgets; the flags to train with. Also where nothing fits.
std::string fit_page(const FitReport& report);

}  // namespace shoehorn
