// Reads a command line flag by flag, over whichever rows of flags a caller knows: --name value, --name=value,
// --flag, --no_flag, --flag false, --some-name; lists as several words, with commas, or both. Used by
// argument_table.h and command_options.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_table.h"

namespace shoehorn {

// One flag as it was given: its row, how it was spelt, its value as text.
struct GivenFlag {
  const ArgumentSpec* spec;
  std::string source;
  std::string text;
};

class WordReader {
 public:
  // By name or alias, with '-' for '_'; null where there is none.
  using Find = std::function<const ArgumentSpec*(std::string_view name)>;
  // "; did you mean --x?" or "".
  using Suggest = std::function<std::string(std::string_view name)>;

  // `words` outlives the reader.
  WordReader(const std::vector<std::string>& words, Find find, Suggest suggest);

  bool at_end() const { return at_ == words_.size(); }
  // The next word is a flag that `find` knows.
  bool at_known_flag() const;
  // The next word as it stands.
  const std::string& take_word() { return words_[at_++]; }
  // One flag with its value. UserError: an unknown flag, one without its value, a word that is none (but a
  // lone file.json is the value of `config`, as transformers' HfArgumentParser takes it).
  GivenFlag read_flag();

 private:
  const ArgumentSpec* find_negated(std::string_view name) const;
  GivenFlag read_bare_file(const std::string& word) const;
  bool has_value_word() const;
  std::string read_value(const ArgumentSpec& spec, const std::string& source);

  const std::vector<std::string>& words_;
  Find find_;
  Suggest suggest_;
  size_t at_ = 0;
};

// Whether --help or -h is among the words.
bool asks_for_help(const std::vector<std::string>& words);

}  // namespace shoehorn
