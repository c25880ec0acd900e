#pragma once

#include <string_view>

namespace shoehorn {

// The part of `text` without the spaces, tabs and line ends on both sides; it lives as long as `text`.
std::string_view strip(std::string_view text);

}  // namespace shoehorn
