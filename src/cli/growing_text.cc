#include "cli/growing_text.h"

#include <utility>

namespace shoehorn {

GrowingText::GrowingText(std::function<std::string(std::span<const int32_t> tokens)> decode,
                         std::function<void(const std::string& piece)> show)
    : decode_(std::move(decode)), show_(std::move(show)) {}

void GrowingText::add(int32_t token) {
  tokens_.push_back(token);
  const std::string text = decode_(tokens_);
  const size_t end = text.find_last_of(" \n");
  if (end != std::string::npos && end > shown_.size() && text.starts_with(shown_))
    show(text.substr(shown_.size(), end - shown_.size()));
}

void GrowingText::finish() {
  const std::string text = decode_(tokens_);
  show(text.starts_with(shown_) ? text.substr(shown_.size()) : "\n" + text);
}

void GrowingText::show(const std::string& piece) {
  show_(piece);
  shown_ += piece;
}

}  // namespace shoehorn
