#include "arguments/flag_words.h"

#include "arguments/argument_table.h"

namespace shoehorn {

std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::vector<std::string> without_row(const std::vector<std::string>& words, std::string_view row) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equal = words[i].find('=');
    const std::string name = words[i].starts_with("--") ? words[i].substr(2, equal - 2) : "";
    const ArgumentSpec* spec = name.empty() ? nullptr : find_argument(name);
    if (spec == nullptr || spec->name != row) {
      kept.push_back(words[i]);
    } else if (equal == std::string::npos) {
      ++i;
    }
  }
  return kept;
}

}  // namespace shoehorn
