// The message that refuses a run whose plan does not fit.
#pragma once

#include <string>

#include "fit/memory_alternatives.h"
#include "session/memory_forecast.h"

namespace shoehorn {

// Says by how much it does not fit, which limit binds, what would fit or what was tried in vain, and, if
// other processes are the reason, which ones hold memory.
std::string format_refusal(const MemoryForecast& forecast, const Alternatives& alternatives);

}  // namespace shoehorn
