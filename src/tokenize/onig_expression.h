// The regular expressions of tokenizer.json. `tokenizers` matches them with Oniguruma (Ruby's syntax, UTF-8).
// Here PCRE2 matches them, after a translation of what the two read differently:
//
//   \s \S, \p{L} \p{N} (and \P, \p{^L} outside a class)   to the characters of Unicode 16
//   ^ $                                                   each line's, as in Ruby
//   \v \h                                                 refused, and so is every other construct whose meaning
//                                                         differs: \w \d \b, other properties, POSIX brackets, &&,
//                                                         a negated class in a class, back references, named groups,
//                                                         (?i) but at the start, (?m), {n,m}+
//
// The same in both: literals, alternatives, groups (?: ) (?i: ) (?> ), look around (?= ) (?! ) (?<= ) (?<! ), greedy,
// lazy and possessive * + ?, {n,m}, classes with ranges, escapes of single characters, \xHH, \x{H}, \uHHHH.
// The two may differ in (?i: ) for characters whose case has several (ss and U+00DF).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenize/text_range.h"

namespace shoehorn {

// Immutable and thread-safe.
class OnigExpression {
 public:
  // `what` names the expression's place in errors. UserError if it is malformed or refused (see above).
  OnigExpression(std::string expression, std::string what);
  ~OnigExpression();
  OnigExpression(const OnigExpression&) = delete;
  OnigExpression& operator=(const OnigExpression&) = delete;

  // Appends the matches in text[whole], as if there were no text around it: leftmost first, without overlap.
  // A match may be empty, but not at the end of the match before it. UserError if that takes more than
  // 200,000 steps per match, or 64 MiB.
  void find(std::string_view text, TextRange whole, std::vector<TextRange>& matches) const;

 private:
  struct Compiled;

  std::string expression_;
  std::string what_;
  std::unique_ptr<const Compiled> compiled_;
};

// The expression in PCRE2's syntax. UserError as above.
std::string translate_onig(std::string_view expression, std::string_view what);

}  // namespace shoehorn
