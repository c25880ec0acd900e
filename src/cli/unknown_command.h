// Words that name no command.
#pragma once

#include <string>
#include <vector>

namespace shoehorn {

// UserError that lists the commands there are, and names the nearest.
[[noreturn]] void throw_unknown_command(const std::vector<std::string>& words);

}  // namespace shoehorn
