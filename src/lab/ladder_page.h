// The ladder's results as an HTML page.
#pragma once

#include <string>

#include "lab/ladder.h"

namespace shoehorn {

// One file: the best rung for each purpose; plots of samples per second and memory by rung, with a line for
// the first rung; the table; the stages of memory; the flags; and why rungs were not measured.
std::string ladder_page(const LadderResult& result);

}  // namespace shoehorn
