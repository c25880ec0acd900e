// Regular expressions that come from outside: from a flag or a file. PCRE2 matches them within limits, so
// that no expression makes the program hang, run out of its stack or take much memory.
//
// Syntax: PCRE2's, which holds that of ECMAScript and of Python's `re` as far as names of parameters need it.
// Bytes are matched, not characters; `$` is the end of the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace shoehorn {

class Pattern {
 public:
  // `what` names the expression's source in errors ("--freeze"). UserError, "[what expression] …": no regular
  // expression, longer than 10,000 bytes, or parentheses deeper than 250.
  Pattern(std::string expression, std::string what);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Whether a part of `text` matches. UserError where that takes more than 100,000 steps or 16 MiB. For one
  // thread at a time.
  bool is_found_in(std::string_view text) const;

 private:
  struct Compiled;

  std::string expression_;
  std::string what_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace shoehorn
