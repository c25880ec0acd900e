#include "tokenize/metaspace.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenize/json_node.h"
#include "tokenize/split_behavior.h"
#include "tokenize/text_pattern.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

// Where a replacement is put before a text that does not begin with one.
enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceOptions {
  std::string replacement;  // one character
  PrependScheme prepend_scheme = PrependScheme::kAlways;
  bool split = true;
};

MetaspaceOptions read_options(const JsonNode& node) {
  MetaspaceOptions options;
  options.replacement = node["replacement"].text();
  size_t position = 0;
  if (!options.replacement.empty()) decode_utf8(options.replacement, position);
  if (position == 0 || position != options.replacement.size()) node["replacement"].fail("one character");
  if (node.has("prepend_scheme")) {
    const JsonNode scheme = node["prepend_scheme"];
    if (scheme.text() == "first")
      options.prepend_scheme = PrependScheme::kFirst;
    else if (scheme.text() == "never")
      options.prepend_scheme = PrependScheme::kNever;
    else if (scheme.text() != "always")
      scheme.fail("one of always, first, never");
  }
  // The older name of the option.
  if (!node.flag_or("add_prefix_space", true) && options.prepend_scheme != PrependScheme::kNever)
    node["add_prefix_space"].fail("true, or absent", "prepend_scheme does not say never");
  options.split = node.flag_or("split", true);
  return options;
}

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(MetaspaceOptions options)
      : options_(std::move(options)), pattern_(options_.replacement) {}

  void split(PieceText& text) const override {
    text.change_each([&](TextRange piece, AlignedText& changed) { append_changed(text, piece, changed); });
    if (!options_.split) return;
    std::vector<TextRange> matches;
    text.cut_each([&](TextRange piece, std::vector<TextRange>& ranges) {
      matches.clear();
      pattern_.find(text.text.bytes(), piece, matches);
      append_split(matches, piece, SplitBehavior::kMergedWithNext, false, ranges);
    });
  }
  bool needs_alignment() const override { return options_.prepend_scheme == PrependScheme::kFirst; }

 private:
  void append_changed(const PieceText& text, TextRange piece, AlignedText& changed) const {
    const std::string_view bytes = text.view(piece);
    const auto origin = [&](size_t i) {
      return text.text.is_aligned() ? text.text.origins()[piece.begin + i] : TextRange{};
    };
    const bool has_one = bytes.starts_with(' ') || bytes.starts_with(options_.replacement);
    if (!has_one && is_prepended(text, piece)) changed.append(options_.replacement, origin(0));
    for (size_t i = 0; i < bytes.size();) {
      const size_t end = std::min(bytes.find(' ', i), bytes.size());
      changed.append(text.text, {piece.begin + i, piece.begin + end});
      if (end < bytes.size()) changed.append(options_.replacement, origin(end));
      i = end + 1;
    }
  }

  bool is_prepended(const PieceText& text, TextRange piece) const {
    if (options_.prepend_scheme != PrependScheme::kFirst)
      return options_.prepend_scheme == PrependScheme::kAlways;
    return text.text.origins()[piece.begin].begin == 0;
  }

  MetaspaceOptions options_;
  TextPattern pattern_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceOptions options) : options_(std::move(options)) {}

  // The first token loses what was put before the text.
  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool is_dropped = i == 0 && options_.prepend_scheme != PrependScheme::kNever;
      std::string decoded;
      for (size_t at = 0; at < tokens[i].size();) {
        const size_t end = std::min(tokens[i].find(options_.replacement, at), tokens[i].size());
        decoded.append(tokens[i], at, end - at);
        if (end < tokens[i].size() && !is_dropped) decoded += ' ';
        at = end + options_.replacement.size();
      }
      tokens[i] = std::move(decoded);
    }
  }

 private:
  MetaspaceOptions options_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_metaspace_pre_tokenizer(const JsonNode& node) {
  return std::make_unique<MetaspacePreTokenizer>(read_options(node));
}

std::unique_ptr<Decoder> read_metaspace_decoder(const JsonNode& node) {
  return std::make_unique<MetaspaceDecoder>(read_options(node));
}

}  // namespace shoehorn
