// What the program says of itself and of its commands.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_help.h"

namespace shoehorn {

// The commands, and how to see more.
std::string program_usage();
// The commands whose first word is `group`: `shoehorn bench`.
std::string group_usage(std::string_view group);

// For standard output: as wide as the terminal, in bold where it takes colours (NO_COLOR, TERM=dumb); 100 columns
// elsewhere.
HelpStyle help_style();

// `shoehorn help`: words may name a command, and then a layer or a word to search. UserError for an unknown command.
std::string format_help_command(const std::vector<std::string>& words);

}  // namespace shoehorn
