#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion.h"
#include "cli/completion_words.h"

namespace shoehorn {

namespace {

// In single quotes.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char character : text) {
    if (character == '\'' || character == '\\') result += '\\';
    result += character;
  }
  return result + "'";
}

std::string fish_value_action(const ArgumentSpec& row) {
  switch (value_place(row)) {
    case ValuePlace::kNone:
      return "";
    case ValuePlace::kFile:
      return " -r -F";
    case ValuePlace::kDirectory:
      return " -x -a '(__fish_complete_directories)'";
    case ValuePlace::kChoice:
      return fmt::format(" -x -a {}", in_quotes(fmt::format("{}", fmt::join(supported_choices(row), " "))));
    case ValuePlace::kOther:
      break;
  }
  return " -x";
}

}  // namespace

std::string fish_completion() {
  std::string text =
      "# Completion of shoehorn's command lines in fish. Made by `shoehorn completion fish`.\n\n"
      "# Whether the words of the command line so far name the command.\n"
      "function __shoehorn_command\n  set -l words (commandline -opc)\n  set -l last (math (count $argv) + 1)\n"
      "  test (count $words) -ge $last; and test \"$words[2..$last]\" = \"$argv\"\nend\n\n"
      "# Whether they are these and no more.\n"
      "function __shoehorn_only\n  set -l words (commandline -opc)\n  test \"$words[2..-1]\" = \"$argv\"\nend\n\n"
      "complete -c shoehorn -n '__shoehorn_only' -f\n"
      "complete -c shoehorn -n '__shoehorn_only' -l help -d 'the commands'\n"
      "complete -c shoehorn -n '__shoehorn_only' -l version -d 'which version this is'\n"
      "complete -c shoehorn -n '__shoehorn_only' -f -a help -d 'what a command does'\n";
  for (const CommandEntry& entry : command_list()) {
    const size_t space = entry.name.find(' ');
    const std::string_view first = entry.name.substr(0, space);
    const std::string_view last = space == std::string_view::npos ? first : entry.name.substr(space + 1);
    text += fmt::format("\ncomplete -c shoehorn -n '__shoehorn_only{}' -f -a {} -d {}\n",
                        space == std::string_view::npos ? "" : fmt::format(" {}", first), last,
                        in_quotes(entry.summary));
    if (space != std::string_view::npos && text.find(fmt::format("-f -a {} -d", first)) == std::string::npos)
      text += fmt::format("complete -c shoehorn -n '__shoehorn_only' -f -a {0} -d '{0} COMMAND'\n", first);
    for (const std::string_view word : entry.words)
      text += fmt::format("complete -c shoehorn -n '__shoehorn_only {}' -f -a {}\n", entry.name, word);
    for (const ArgumentSpec& row : offered_rows(entry)) {
      text += fmt::format("complete -c shoehorn -n '__shoehorn_command {}' -l {}{} -d {}\n", entry.name,
                          row.name, fish_value_action(row), in_quotes(short_text(entry, row)));
    }
    text += fmt::format("complete -c shoehorn -n '__shoehorn_command {}' -l help -d 'what the flags do'\n",
                        entry.name);
  }
  return text;
}

}  // namespace shoehorn
