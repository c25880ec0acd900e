#include "arguments/shell_word.h"

namespace shoehorn {

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char character : word)
    quoted += character == '\'' ? std::string("'\\''") : std::string(1, character);
  return quoted + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line.append(line.empty() ? "" : " ").append(shell_word(word));
  return line;
}

std::string shell_lines(const std::vector<std::string>& words) {
  std::string lines;
  for (const std::string& word : words) {
    const bool is_flag = word.starts_with("--");
    lines.append(lines.empty() ? "" : is_flag ? " \\\n  " : " ").append(shell_word(word));
  }
  return lines;
}

}  // namespace shoehorn
