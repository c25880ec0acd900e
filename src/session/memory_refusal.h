// The text of a refusal.
#pragma once

#include <string>

#include "session/memory_alternatives.h"

namespace shoehorn {

// Of a plan that does not fit: by how much, which limit binds, what would fit or what was tried in vain, and
// who else holds memory where that is why it does not fit.
std::string format_refusal(const MemoryForecast& forecast, const Alternatives& alternatives);

}  // namespace shoehorn
