// A regular expression that a user wrote, in a flag or a file. PCRE2 matches it within limits, so that no
// expression makes the program hang, overflow its stack or take much memory.
//
// The syntax is PCRE2's, which includes what ECMAScript's and Python's `re` offer for matching parameter
// names. Matching is by bytes, not characters. `$` matches at the end of the text only.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace shoehorn {

class Pattern {
 public:
  // `what` names the expression's source in errors ("--freeze"). UserError "[what expression] …" if it is not
  // a regular expression, is longer than 10,000 bytes, or nests parentheses deeper than 250.
  Pattern(std::string expression, std::string what);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // True if some part of `text` matches. UserError if matching takes more than 100,000 steps or 16 MiB. Not
  // thread-safe.
  bool is_found_in(std::string_view text) const;

 private:
  struct Compiled;

  std::string expression_;
  std::string what_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace shoehorn
