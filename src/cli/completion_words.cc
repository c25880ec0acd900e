#include "cli/completion_words.h"

#include <algorithm>

namespace shoehorn {

ValuePlace value_place(const ArgumentSpec& row) {
  if (row.kind == ArgumentKind::kFlag) return ValuePlace::kNone;
  if (!supported_choices(row).empty()) return ValuePlace::kChoice;
  if (value_word(row) == "FILE") return ValuePlace::kFile;
  return value_word(row) == "DIR" ? ValuePlace::kDirectory : ValuePlace::kOther;
}

std::vector<std::string> supported_choices(const ArgumentSpec& row) {
  std::vector<std::string> choices;
  for (const ArgumentChoice& choice : row.choices) {
    if (choice.why.empty()) choices.emplace_back(choice.value);
  }
  return choices;
}

std::vector<ArgumentSpec> offered_rows(const CommandEntry& entry) {
  const CommandHelp help = entry.help();
  std::vector<ArgumentSpec> rows;
  for (const ArgumentSpec* row : rows_of(help)) {
    if (has_effect(help, *row)) rows.push_back(*row);
  }
  return rows;
}

std::string short_text(const CommandEntry& entry, const ArgumentSpec& row) {
  const std::string_view text = help_in(entry.help().table, row);
  return std::string(text.substr(0, text.find(';')));
}

std::vector<std::string> first_words() {
  std::vector<std::string> words;
  for (const CommandEntry& entry : command_list()) {
    std::string first(entry.name.substr(0, entry.name.find(' ')));
    if (std::find(words.begin(), words.end(), first) == words.end()) words.push_back(std::move(first));
  }
  words.insert(words.end(), {"help", "--help", "--version"});
  return words;
}

}  // namespace shoehorn
