// Shows as text what passes are worth.
#pragma once

#include <string>
#include <vector>

#include "analysis/pass_explanation.h"

namespace shoehorn {

// One line per pass that changes something: how much less (or more) the step has with it. Then the names of
// the other passes.
std::string format_passes(const std::vector<PassEffect>& effects);

}  // namespace shoehorn
