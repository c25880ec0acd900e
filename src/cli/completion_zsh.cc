#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/completion.h"
#include "cli/completion_words.h"

namespace shoehorn {

namespace {

// Inside of '…[…]': brackets, colons and quotes end what stands there.
std::string zsh_escaped(const std::string& text) {
  std::string result;
  for (const char character : text) {
    if (character == '[' || character == ']' || character == ':' || character == '\\') result += '\\';
    result += character == '\'' ? std::string("'\\''") : std::string(1, character);
  }
  return result;
}

std::string zsh_value_action(const ArgumentSpec& row) {
  switch (value_place(row)) {
    case ValuePlace::kFile:
      return "_files";
    case ValuePlace::kDirectory:
      return "_files -/";
    case ValuePlace::kChoice: {
      const std::string choices = fmt::format("{}", fmt::join(supported_choices(row), " "));
      return row.kind == ArgumentKind::kList ? fmt::format("_values -s , {} {}", row.name, choices)
                                             : fmt::format("({})", choices);
    }
    default:
      return " ";
  }
}

std::string argument_lines(const CommandEntry& entry) {
  std::string text;
  for (const ArgumentSpec& row : offered_rows(entry)) {
    const std::string said = zsh_escaped(short_text(entry, row));
    if (value_place(row) == ValuePlace::kNone)
      text += fmt::format(" \\\n        '--{0}[{1}]' '--no_{0}[not\\: {1}]'", row.name, said);
    else
      text += fmt::format(" \\\n        '--{}=[{}]:{}:{}'", row.name, said, value_word(row),
                          zsh_value_action(row));
  }
  return text + " \\\n        '--help=[what the flags do]::word:(all)' '*:file:_files'";
}

}  // namespace

std::string zsh_completion() {
  std::string commands;
  std::string groups;
  std::string cases;
  for (const CommandEntry& entry : command_list()) {
    const std::string first(entry.name.substr(0, entry.name.find(' ')));
    if (first == entry.name)
      commands += fmt::format("    '{}:{}'\n", first, zsh_escaped(std::string(entry.summary)));
    std::vector<std::string> second = commands_in_group(first);
    for (const std::string_view word : entry.words) second.emplace_back(word);
    if (!second.empty() && groups.find("    " + first + ")") == std::string::npos) {
      if (first != entry.name) commands += fmt::format("    '{0}:{0} COMMAND, measurements'\n", first);
      groups += fmt::format(
          "    {0})\n      if (( CURRENT == 3 )); then\n        compadd {1}\n        return\n      fi\n"
          "      command=\"{0} $words[3]\"\n      shift words\n      (( CURRENT-- ))\n      ;;\n",
          first, fmt::join(second, " "));
    }
    cases += fmt::format("    '{}')\n      _arguments -S{}\n      ;;\n", entry.name, argument_lines(entry));
  }
  return fmt::format(
      "#compdef shoehorn\n# Completion of shoehorn's command lines in zsh. Made by `shoehorn completion zsh`.\n\n"
      "_shoehorn() {{\n  local -a commands=(\n{}    'help:what a command does'\n  )\n"
      "  if (( CURRENT == 2 )); then\n    _describe command commands\n    compadd -- --help --version\n    return\n  fi\n"
      "  local command=$words[2]\n  case $command in\n{}  esac\n  shift words\n  (( CURRENT-- ))\n"
      "  case $command in\n{}  esac\n}}\n\n_shoehorn \"$@\"\n",
      commands, groups, cases);
}

}  // namespace shoehorn
