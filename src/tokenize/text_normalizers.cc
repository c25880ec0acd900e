#include "tokenize/text_normalizers.h"

#include "base/utf8.h"
#include "tokenize/json_node.h"
#include "tokenize/text_pattern.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  void normalize(AlignedText& text) const override {
    std::vector<CodePointChange> changes;
    size_t dropped_first = 0;
    size_t kept = 0;  // without the white space at the end
    for (size_t position = 0; position < text.bytes().size();) {
      const int32_t code_point = decode_utf8(text.bytes(), position);
      const bool is_space = is_whitespace(code_point);
      if (is_space && left_ && changes.empty()) {
        ++dropped_first;
        continue;
      }
      changes.push_back({code_point, 0});
      if (!is_space || !right_) kept = changes.size();
    }
    changes.resize(kept);
    text.transform(changes, dropped_first);
  }

 private:
  bool left_;
  bool right_;
};

class Replace final : public Normalizer {
 public:
  Replace(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void normalize(AlignedText& text) const override {
    std::vector<TextRange> matches;
    pattern_.find(text.bytes(), {0, text.bytes().size()}, matches);
    text.replace(matches, content_);
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  void normalize(AlignedText& text) const override { text.prepend(prefix_); }

 private:
  std::string prefix_;
};

}  // namespace

std::unique_ptr<Normalizer> read_strip(const JsonNode& node) {
  return std::make_unique<Strip>(node["strip_left"].flag(), node["strip_right"].flag());
}

std::unique_ptr<Normalizer> read_replace(const JsonNode& node) {
  return std::make_unique<Replace>(TextPattern(node["pattern"]), node["content"].text());
}

std::unique_ptr<Normalizer> read_prepend(const JsonNode& node) {
  return std::make_unique<Prepend>(node["prepend"].text());
}

}  // namespace shoehorn
