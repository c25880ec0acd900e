#include "tokenize/split_pre_tokenizer.h"

#include "tokenize/json_node.h"
#include "tokenize/split_behavior.h"
#include "tokenize/text_pattern.h"

namespace shoehorn {
namespace {

class Split final : public PreTokenizer {
 public:
  Split(TextPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void split(PieceText& text) const override {
    // Matches without a gap, each a piece of its own, need no more.
    if (pattern_.covers_text() && behavior_ == SplitBehavior::kIsolated)
      return text.cut_each([&](TextRange piece, std::vector<TextRange>& ranges) {
        pattern_.find(text.text.bytes(), piece, ranges);
      });
    std::vector<TextRange> matches;
    text.cut_each([&](TextRange piece, std::vector<TextRange>& ranges) {
      matches.clear();
      pattern_.find(text.text.bytes(), piece, matches);
      append_split(matches, piece, behavior_, invert_, ranges);
    });
  }

 private:
  TextPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_split(const JsonNode& node) {
  return std::make_unique<Split>(TextPattern(node["pattern"]), read_split_behavior(node["behavior"]),
                                 node["invert"].flag());
}

}  // namespace shoehorn
