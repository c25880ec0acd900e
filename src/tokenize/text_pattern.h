// What tokenizer.json calls a pattern: {"String": "…"} or {"Regex": "…"}. A well-known expression is matched by its
// scanner (split_scanner.h), another by PCRE2 (onig_expression.h).
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
  // UserError: neither of the two, an empty string, an expression that is refused.
  explicit TextPattern(const JsonNode& node);
  explicit TextPattern(std::string literal);

  // Appends the matches in text[whole], as OnigExpression::find; none in an empty text.
  void find(std::string_view text, TextRange whole, std::vector<TextRange>& matches) const;
  // Whether the matches always cover the whole text.
  bool covers_text() const { return scanner_ != nullptr; }

 private:
  std::string literal_;
  SplitScanner scanner_ = nullptr;
  std::unique_ptr<const OnigExpression> expression_;
};

}  // namespace shoehorn
