// `shoehorn env --dtypes`: every float type by its numbers, and what this machine does with it.
#pragma once

#include <string>

namespace shoehorn {

// A table with a row a type, or a JSON array of objects.
std::string format_dtype_table();
std::string dtype_table_json();

}  // namespace shoehorn
