#include "cli/program_help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/error.h"
#include "base/format.h"
#include "cli/command_list.h"
#include "cli/unknown_command.h"
#include "train/progress.h"

namespace shoehorn {

std::string program_usage() {
  return fmt::format(
      "shoehorn: fit a bigger model, train it faster\n\n{}\n"
      "shoehorn COMMAND --help shows the flags of a command that people use, --help all every flag, and --help WORD\n"
      "those with the word in a name or text. shoehorn --version says which version this is, shoehorn completion SHELL\n"
      "what completes command lines in bash, zsh and fish.\n",
      format_command_list(""));
}

std::string group_usage(std::string_view group) {
  return fmt::format("{}\nshoehorn {} COMMAND --help shows the flags of a command.\n",
                     format_command_list(group), group);
}

HelpStyle help_style() {
  constexpr int64_t kNarrowest = 40;
  constexpr int64_t kWidest = 160;  // longer lines are hard to read
  HelpStyle style;
  const ProgressOptions terminal = detect_terminal(stdout, std::cout);
  if (!terminal.terminal) return style;
  return {.columns = std::clamp(terminal.columns(), kNarrowest, kWidest), .bold = terminal.color};
}

std::string format_help_command(const std::vector<std::string>& words) {
  if (words.empty()) return program_usage();
  const auto [entry, rest] = find_command(words);
  if (entry != nullptr) return format_help(entry->help(), rest.empty() ? "" : rest[0], help_style());
  if (!commands_in_group(words[0]).empty() && words.size() == 1) return group_usage(words[0]);
  throw_unknown_command(words);
}

}  // namespace shoehorn
