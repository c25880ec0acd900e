// The clock by which work is timed.
#pragma once

#include <chrono>

namespace shoehorn {

// Seconds of the steady clock.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace shoehorn
