// Help from the rows of a command: the table's (argument_table.h) and its own (command_options.h), in layers.
//
//   --help        the flags that people use; all that have an effect where they are few
//   --help all    every flag; then the names of those that the command accepts without effect, or refuses
//   --help WORD   the flags whose name, values or text have WORD in them; what is unknown gets near names
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_table.h"

namespace shoehorn {

// What a command's help is made of.
struct CommandHelp {
  std::string name;          // "bench ladder"
  std::string introduction;  // paragraphs, each line at most 120 columns wide, with a newline at the end
  std::vector<ArgumentSpec> own_rows = {};
  std::optional<Command> table = {};            // the table's flags that it takes
  std::string remarks = {};                     // behind its own rows, as the introduction
  std::vector<std::string> set_by_itself = {};  // the table's flags that it refuses, since it sets them
};

struct HelpStyle {
  int64_t columns = 100;  // lines are wrapped there
  bool bold = false;      // headings, by ANSI escapes
};

// The word behind --help or -h (or --help=WORD), without dashes; "" if there is none. nullopt: no help is asked for.
std::optional<std::string> help_word_of(const std::vector<std::string>& words);

// The layer that `word` names: "", "all", or a word to search.
std::string format_help(const CommandHelp& help, std::string_view word, const HelpStyle& style = {});

// The rows in the order of help: the command's own, then the table's by group, without what its own rows replace.
std::vector<const ArgumentSpec*> rows_of(const CommandHelp& help);

// True if the row has an effect in the command; false for what is accepted and says so, and for what is not supported.
bool has_effect(const CommandHelp& help, const ArgumentSpec& row);

// What the value is called: "N", "FILE"; empty for a boolean.
std::string_view value_word(const ArgumentSpec& row);
// What the flag does in the command, with its choices, default and aliases.
std::string flag_text(const ArgumentSpec& row, std::optional<Command> command);

}  // namespace shoehorn
