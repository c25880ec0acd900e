#include "tokenize/text_decoders.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "tokenize/json_node.h"
#include "tokenize/text_growth.h"
#include "tokenize/text_pattern.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(from, at), text.size());
    result += text.substr(at, end - at);
    if (end < text.size()) result += to;
    at = end + from.size();
  }
  return result;
}

class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0)
        tokens[i] = tokens[i].starts_with(prefix_) ? tokens[i].substr(prefix_.size()) : " " + tokens[i];
      if (cleanup_) clean_up(tokens[i]);
    }
  }

 private:
  // The order counts: each works on what those before it made.
  static void clean_up(std::string& token) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kReplacements = {{
        {" .", "."},
        {" ?", "?"},
        {" !", "!"},
        {" ,", ","},
        {" ' ", "'"},
        {" n't", "n't"},
        {" 'm", "'m"},
        {" do not", " don't"},
        {" 's", "'s"},
        {" 've", "'ve"},
        {" 're", "'re"},
    }};
    for (const auto& [from, to] : kReplacements)
      if (token.find(from) != std::string::npos) token = replaced(token, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

class BpeDecoder final : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  void decode(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

int hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The byte of a token "<0x61>"; -1 for another token.
int fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  // Rust's from_str_radix takes a sign.
  const int high = token[3] == '+' ? 0 : hexadecimal(token[3]);
  const int low = hexadecimal(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

class ByteFallbackDecoder final : public Decoder {
 public:
  // Bytes in a row are a text if together they are UTF-8, else each is a U+FFFD.
  void decode(std::vector<std::string>& tokens) const override {
    std::vector<std::string> decoded;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (is_valid_utf8(bytes))
        decoded.push_back(bytes);
      else
        decoded.insert(decoded.end(), bytes.size(), "\uFFFD");
      bytes.clear();
    };
    for (std::string& token : tokens) {
      const int byte = fallback_byte(token);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
        continue;
      }
      flush();
      decoded.push_back(std::move(token));
    }
    flush();
    tokens = std::move(decoded);
  }
};

class FuseDecoder final : public Decoder {
 public:
  void decode(std::vector<std::string>& tokens) const override {
    std::string fused;
    for (const std::string& token : tokens) fused += token;
    tokens = {std::move(fused)};
  }
};

class StripDecoder final : public Decoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}

  void decode(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;  // one character
  int64_t start_;
  int64_t stop_;
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void decode(std::vector<std::string>& tokens) const override {
    std::vector<TextRange> matches;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_.find(token, {0, token.size()}, matches);
      if (matches.empty()) continue;
      check_replaced_size(token.size(), token.size() + matches.size() * content_.size());
      std::string decoded;
      size_t last = 0;
      for (const TextRange& match : matches) {
        decoded.append(token, last, match.begin - last);
        decoded += content_;
        last = match.end;
      }
      decoded.append(token, last);
      token = std::move(decoded);
    }
  }

 private:
  TextPattern pattern_;
  std::string content_;
};

}  // namespace

std::unique_ptr<Decoder> make_word_piece_decoder(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}

std::unique_ptr<Decoder> read_word_piece_decoder(const JsonNode& node) {
  return make_word_piece_decoder(node.has("prefix") ? node["prefix"].text() : "##",
                                 node.flag_or("cleanup", true));
}

std::unique_ptr<Decoder> read_bpe_decoder(const JsonNode& node) {
  if (node["suffix"].text().empty()) node["suffix"].fail("a text that is not empty");
  return std::make_unique<BpeDecoder>(node["suffix"].text());
}

std::unique_ptr<Decoder> read_byte_fallback_decoder(const JsonNode& /*node*/) {
  return std::make_unique<ByteFallbackDecoder>();
}

std::unique_ptr<Decoder> read_fuse_decoder(const JsonNode& /*node*/) {
  return std::make_unique<FuseDecoder>();
}

std::unique_ptr<Decoder> read_strip_decoder(const JsonNode& node) {
  const std::string& content = node["content"].text();
  size_t position = 0;
  if (!content.empty()) decode_utf8(content, position);
  if (position == 0 || position != content.size()) node["content"].fail("one character");
  return std::make_unique<StripDecoder>(content, node["start"].integer(0, INT64_MAX),
                                        node["stop"].integer(0, INT64_MAX));
}

std::unique_ptr<Decoder> read_replace_decoder(const JsonNode& node) {
  return std::make_unique<ReplaceDecoder>(TextPattern(node["pattern"]), node["content"].text());
}

}  // namespace shoehorn
