// `shoehorn env --dtypes`: the properties of every float type, and what this machine does with it.
#pragma once

#include <string>

namespace shoehorn {

// A table with one row per type, or a JSON array of objects.
std::string format_dtype_table();
std::string dtype_table_json();

}  // namespace shoehorn
