// The manual page shoehorn(1), made from the list of commands and the rows of their flags.
#pragma once

#include <string>

namespace shoehorn {

// In the language of man(7).
std::string man_page();

}  // namespace shoehorn
