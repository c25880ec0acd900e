#include "tokenize/byte_level.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "tokenize/json_node.h"
#include "tokenize/split_scanner.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

// The alphabet ends before this code point: 256 and the 68 bytes that do not stand for themselves.
constexpr int32_t kAlphabetEnd = 256 + 68;

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<int, kAlphabetEnd> bytes;  // by code point; -1: none

  Alphabet() {
    bytes.fill(-1);
    int32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const int32_t code_point = printable ? byte : next++;
      append_utf8(code_point, characters[static_cast<size_t>(byte)]);
      bytes[static_cast<size_t>(code_point)] = byte;
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}

  void split(PieceText& text) const override {
    if (add_prefix_space_) add_prefix_spaces(text);
    if (use_regex_)
      text.cut_each([&](TextRange piece, std::vector<TextRange>& ranges) {
        scan_gpt2(text.text.bytes(), piece, ranges);
      });
    if (!leaves_bytes_) write_in_alphabet(text);
  }
  bool leave_bytes() override { return leaves_bytes_ = true; }

 private:
  static void add_prefix_spaces(PieceText& text) {
    const auto has_space = [&](TextRange piece) { return text.text.bytes()[piece.begin] == ' '; };
    if (std::ranges::all_of(text.pieces, has_space)) return;
    text.change_each([&](TextRange piece, AlignedText& changed) {
      if (!has_space(piece))
        changed.append(" ", text.text.is_aligned() ? text.text.origins()[piece.begin] : TextRange{});
      changed.append(text.text, piece);
    });
  }

  static void write_in_alphabet(PieceText& text) {
    text.change_each([&](TextRange piece, AlignedText& changed) {
      for (size_t i = piece.begin; i < piece.end; ++i)
        changed.append(alphabet_character(static_cast<uint8_t>(text.text.bytes()[i])),
                       text.text.is_aligned() ? text.text.origins()[i] : TextRange{});
    });
  }

  bool add_prefix_space_;
  bool use_regex_;
  bool leaves_bytes_ = false;
};

class ByteLevelDecoder final : public Decoder {
 public:
  // All bytes together: a token may end within a character.
  void decode(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_of_alphabet(token).value_or(token);
    tokens = {replace_invalid_utf8(bytes)};
  }
};

}  // namespace

std::string_view alphabet_character(uint8_t byte) {
  return alphabet().characters[byte];
}

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    const int32_t code_point = decode_utf8(text, position);
    const int byte = code_point < kAlphabetEnd ? alphabet().bytes[static_cast<size_t>(code_point)] : -1;
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::unique_ptr<PreTokenizer> read_byte_level_pre_tokenizer(const JsonNode& node) {
  return std::make_unique<ByteLevelPreTokenizer>(node["add_prefix_space"].flag(),
                                                 node.flag_or("use_regex", true));
}

std::unique_ptr<Decoder> read_byte_level_decoder(const JsonNode& /*node*/) {
  return std::make_unique<ByteLevelDecoder>();
}

}  // namespace shoehorn
