// A pattern of tokenizer.json: {"String": "…"} or {"Regex": "…"}. Well-known expressions are matched by a
// hand-written scanner (split_scanner.h), others by PCRE2 (onig_expression.h).
#pragma once

#include <memory>
#include <string>

#include "tokenize/onig_expression.h"
#include "tokenize/split_scanner.h"

namespace shoehorn {

class JsonNode;

// Immutable and thread-safe.
class TextPattern {
 public:
  // UserError: neither of the two, an empty string, or a refused expression.
  explicit TextPattern(const JsonNode& node);
  explicit TextPattern(std::string literal);

  // Appends the matches in text[whole], as OnigExpression::find does. An empty text has none.
  void find(std::string_view text, TextRange whole, std::vector<TextRange>& matches) const;
  // True if the matches always cover the whole text.
  bool covers_text() const { return scanner_ != nullptr; }

 private:
  std::string literal_;
  SplitScanner scanner_ = nullptr;
  std::unique_ptr<const OnigExpression> expression_;
};

}  // namespace shoehorn
