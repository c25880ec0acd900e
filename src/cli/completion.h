// Completion of command lines in shells, made from the list of commands and the rows of their flags.
#pragma once

#include <string>

namespace shoehorn {

// A script for each shell. It completes commands, flags, the values that a flag may have, files and directories.
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace shoehorn
