// The ladder as a page of HTML.
#pragma once

#include <string>

#include "lab/ladder.h"

namespace shoehorn {

// One file: what is best at what, samples a second and memory by rung as plots with the first rung as a line,
// the table, the stages of memory, the flags, and why a rung was not measured.
std::string ladder_page(const LadderResult& result);

}  // namespace shoehorn
