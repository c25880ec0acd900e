// Command lines, to be copied into a shell.
#pragma once

#include <string>
#include <vector>

namespace shoehorn {

// `word` as a shell reads it back: in quotes where it needs them.
std::string shell_word(const std::string& word);
// Words with spaces between them.
std::string shell_words(const std::vector<std::string>& words);
// The same command over several lines, a flag with its values on each, where a backslash ends all but the last one.
std::string shell_lines(const std::vector<std::string>& words);

}  // namespace shoehorn
