// What the completions of all shells are made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_help.h"
#include "cli/command_list.h"

namespace shoehorn {

// What stands behind a flag.
enum class ValuePlace : uint8_t { kNone, kChoice, kFile, kDirectory, kOther };

ValuePlace value_place(const ArgumentSpec& row);

// The values that the row supports.
std::vector<std::string> supported_choices(const ArgumentSpec& row);

// The rows that the command offers: those that have an effect.
std::vector<ArgumentSpec> offered_rows(const CommandEntry& entry);

// The first sentence of what a flag does in the command.
std::string short_text(const CommandEntry& entry, const ArgumentSpec& row);

// First words of the program's command line: commands, groups, --help and --version.
std::vector<std::string> first_words();

}  // namespace shoehorn
