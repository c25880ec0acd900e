// What passes are worth, as text.
#pragma once

#include <string>
#include <vector>

#include "analysis/pass_explanation.h"

namespace shoehorn {

// A line a pass that changes something, by how much the step has less (or more) with it; then the names of
// the others.
std::string format_passes(const std::vector<PassEffect>& effects);

}  // namespace shoehorn
