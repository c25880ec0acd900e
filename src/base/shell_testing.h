// Programs that a test starts if the machine has them.
#pragma once

#include <cstdlib>
#include <string>

namespace shoehorn::test_support {

// Whether a shell finds a program of this name.
inline bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " > /dev/null 2>&1").c_str()) == 0;
}

}  // namespace shoehorn::test_support
