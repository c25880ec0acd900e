// The results of `bench quality` as an HTML page.
#pragma once

#include <string>

#include "lab/quality.h"

namespace shoehorn {

// One file: plots of accuracy against memory and against time, the table, the flags.
std::string quality_page(const QualityResults& results);

}  // namespace shoehorn
