#include "tokenize/text_pattern.h"

#include "tokenize/json_node.h"

namespace shoehorn {

TextPattern::TextPattern(const JsonNode& node) {
  if (node.has("String")) {
    literal_ = node["String"].text();
    if (literal_.empty()) node["String"].fail("a text that is not empty");
  } else if (node.has("Regex")) {
    const std::string& expression = node["Regex"].text();
    scanner_ = find_split_scanner(expression);
    if (scanner_ == nullptr) expression_ = std::make_unique<OnigExpression>(expression, node.path().string());
  } else {
    node.fail("an object with String or Regex");
  }
}

TextPattern::TextPattern(std::string literal) : literal_(std::move(literal)) {}

void TextPattern::find(std::string_view text, TextRange whole, std::vector<TextRange>& matches) const {
  if (whole.size() == 0) return;
  if (scanner_ != nullptr) return scanner_(text, whole, matches);
  if (expression_) return expression_->find(text, whole, matches);
  const std::string_view searched = text.substr(0, whole.end);
  for (size_t at = whole.begin; (at = searched.find(literal_, at)) != std::string_view::npos;
       at += literal_.size())
    matches.push_back({at, at + literal_.size()});
}

}  // namespace shoehorn
