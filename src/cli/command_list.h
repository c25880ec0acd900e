// The list of commands. The program is led by it, and so are its help, its completion in shells and its man page.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments/argument_help.h"

namespace shoehorn {

struct CommandEntry {
  std::string_view name;     // one word, or two: "bench step"
  std::string_view summary;  // one line
  int (*run)(const std::vector<std::string>& words);
  CommandHelp (*help)();
  std::vector<std::string_view> words = {};  // what may stand behind the name, besides flags and files
};

// In the order in which help lists them.
const std::vector<CommandEntry>& command_list();

// The entry that the first one or two words name, and the words behind its name; null if there is none.
std::pair<const CommandEntry*, std::vector<std::string>> find_command(const std::vector<std::string>& words);

// The second words of commands whose first word is `group`, sorted; empty if there are none.
std::vector<std::string> commands_in_group(std::string_view group);

// "  shoehorn NAME  summary" a line, of the commands whose first word is `group`, or of all for "".
std::string format_command_list(std::string_view group);

}  // namespace shoehorn
