#include "cli/resume_command.h"

#include "arguments/shell_word.h"

#include <algorithm>
#include <string_view>

#include "arguments/argument_table.h"

namespace shoehorn {

namespace {

// The flag that a word gives, as the table has it; empty for a value.
std::string flag_of(const std::string& word) {
  if (!word.starts_with("--")) return {};
  std::string name = word.substr(2, word.find('=') - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// The words without a flag and its value.
std::vector<std::string> without_flag(const std::vector<std::string>& words, const std::string& flag,
                                      bool (*is_value_of_it)(const std::string& word)) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    if (flag_of(words[i]) != flag) {
      kept.push_back(words[i]);
    } else if (words[i].find('=') == std::string::npos && i + 1 < words.size() &&
               is_value_of_it(words[i + 1])) {
      ++i;
    }
  }
  return kept;
}

}  // namespace

std::string resume_command(const std::string& program, const std::vector<std::string>& words) {
  std::vector<std::string> kept = without_flag(words, "resume_from_checkpoint",
                                               [](const std::string& word) { return flag_of(word).empty(); });
  kept = without_flag(kept, "overwrite_output_dir",
                      [](const std::string& word) { return parse_boolean(word).has_value(); });
  kept.insert(kept.begin(), program);
  return shell_words(kept) + " --resume_from_checkpoint";
}

}  // namespace shoehorn
