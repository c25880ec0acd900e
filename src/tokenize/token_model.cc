#include "tokenize/token_model.h"

#include "tokenize/byte_pairs.h"
#include "tokenize/part_list.h"
#include "tokenize/word_level.h"
#include "tokenize/word_piece.h"

namespace shoehorn {
namespace {

constexpr NamedPart<decltype(read_token_model)> kModels[] = {
    {"BPE", read_byte_pairs},
    {"WordLevel", read_word_level},
    {"WordPiece", read_word_piece},
};

// Files of before models said their type, as GPT-2's own: by what they have, as `tokenizers` tries one model after the other.
decltype(read_token_model)& reader_of_untyped(const JsonNode& node) {
  if (node.has("merges")) return read_byte_pairs;
  if (node.has("continuing_subword_prefix") || node.has("max_input_chars_per_word")) return read_word_piece;
  if (node.has("vocab") && node["vocab"].value().is_object()) return read_word_level;
  node.fail("to have a type, or what tells it: merges of BPE, or a vocab with ids");
}

}  // namespace

std::unique_ptr<TokenModel> read_token_model(const JsonNode& node, ModelLists lists) {
  if (!node.has("type")) return reader_of_untyped(node)(node, std::move(lists));
  return reader_of<decltype(read_token_model)>(kModels, node)(node, std::move(lists));
}

}  // namespace shoehorn
