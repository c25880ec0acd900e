// Lists of flags and their values, as a command line has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

// `words`, and `more` behind them.
std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more);

// Without the flag of a row of train's table (arguments/argument_table.h) and its value.
std::vector<std::string> without_row(const std::vector<std::string>& words, std::string_view row);

}  // namespace shoehorn
