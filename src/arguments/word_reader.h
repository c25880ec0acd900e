// Reads a command line flag by flag, for any list of known rows: --name value, --name=value, --flag,
// --no_flag, --flag false, --some-name; lists as several words, with commas, or both. argument_table.h and
// command_options.h use it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_table.h"

namespace shoehorn {

// A flag on the command line: its row, its spelling, and its value as text.
struct GivenFlag {
  const ArgumentSpec* spec;
  std::string source;
  std::string text;
};

class WordReader {
 public:
  // By name or alias; '-' counts as '_'. Null if there is none.
  using Find = std::function<const ArgumentSpec*(std::string_view name)>;
  // "; did you mean --x?" or "".
  using Suggest = std::function<std::string(std::string_view name)>;

  // `words` must outlive the reader.
  WordReader(const std::vector<std::string>& words, Find find, Suggest suggest);

  bool at_end() const { return at_ == words_.size(); }
  // True if the next word has the form of a flag.
  bool at_flag() const;
  // True if the next word is a flag that `find` knows, of the reader's or another list of rows.
  bool at_known_flag() const { return at_flag_of(find_); }
  bool at_flag_of(const Find& find) const;
  // Takes the next word unchanged.
  const std::string& take_word() { return words_[at_++]; }
  // Takes one flag with its value. UserError: an unknown flag, a missing value, or a word that is no flag
  // (except a lone file.json, which is the value of `config`, as in transformers' HfArgumentParser).
  GivenFlag read_flag();

 private:
  GivenFlag read_bare_file(const std::string& word) const;
  bool has_value_word() const;
  std::string read_value(const ArgumentSpec& spec, const std::string& source);

  const std::vector<std::string>& words_;
  Find find_;
  Suggest suggest_;
  size_t at_ = 0;
};

}  // namespace shoehorn
