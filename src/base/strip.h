#pragma once

#include <string_view>

namespace shoehorn {

// Without the spaces, tabs and line ends on both sides.
std::string_view strip(std::string_view text);

}  // namespace shoehorn
