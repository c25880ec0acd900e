// How often a test does what it does: as often as the user says, or a few times.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace shoehorn::test_support {

// The whole number in a variable of the environment, at least `least`; `usual` where it is not set.
inline int environment_count(const char* variable, int usual, int least = 1) {
  const char* given = std::getenv(variable);
  return given == nullptr ? usual : std::max(least, std::atoi(given));
}

}  // namespace shoehorn::test_support
