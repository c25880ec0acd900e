// Finds and repairs ill-formed UTF-8. Each ill-formed stretch counts as one U+FFFD by "substitution of
// maximal subparts" (The Unicode Standard 15, section 3.9), as in Python. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoehorn {

// How many ill-formed stretches there are; 0 for valid UTF-8.
int64_t count_invalid_utf8(std::string_view text);

// Replaces each ill-formed stretch by U+FFFD.
void replace_invalid_utf8(std::string& text);

}  // namespace shoehorn
