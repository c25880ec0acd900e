// Finds flags by a word, for --help WORD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_help.h"

namespace shoehorn {

struct FoundFlags {
  // Of the command; first the flag of that name, then those with the word in a name, then in a value or text.
  std::vector<const ArgumentSpec*> rows;
  // With the word in a name; only where the command has none of that name.
  std::vector<const ArgumentSpec*> of_other_commands;
  // Where nothing is found: names of the command's flags that differ by a few letters.
  std::vector<std::string> near_names;
};

// Case does not count, and '-', ' ' and '_' are one.
FoundFlags search_flags(const CommandHelp& help, std::string_view word);

}  // namespace shoehorn
