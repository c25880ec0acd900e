// Text that claims to be UTF-8. An ill-formed stretch counts once for each U+FFFD that a decoder puts in its
// place by the Unicode practice "substitution of maximal subparts" (The Unicode Standard 15, section 3.9), as
// Python does. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoehorn {

// How many ill-formed stretches there are; 0 for valid UTF-8.
int64_t count_invalid_utf8(std::string_view text);

// Puts U+FFFD in the place of each ill-formed stretch.
void replace_invalid_utf8(std::string& text);

}  // namespace shoehorn
