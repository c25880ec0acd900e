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

}  // namespace

std::unique_ptr<TokenModel> read_token_model(const JsonNode& node, ModelLists lists) {
  if (!node.has("type")) return read_word_piece(node, std::move(lists));
  return reader_of<decltype(read_token_model)>(kModels, node)(node, std::move(lists));
}

}  // namespace shoehorn
