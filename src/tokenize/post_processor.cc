#include "tokenize/post_processor.h"

#include <algorithm>

#include "tokenize/part_list.h"

namespace shoehorn {
namespace {

using Kind = TemplatePiece::Kind;

TemplatePiece sequence(Kind kind, int32_t type_id) {
  return {kind, {}, "", type_id};
}

TemplatePiece with_type(TemplatePiece piece, int32_t type_id) {
  piece.type_id = type_id;
  return piece;
}

// ["[SEP]", 102]
TemplatePiece read_special(const JsonNode& node) {
  const std::vector<JsonNode> token = node.items();
  if (token.size() != 2) node.fail("a token and its id");
  return {Kind::kSpecial, {static_cast<int32_t>(token[1].integer(0, INT32_MAX))}, token[0].text(), 0};
}

std::vector<TemplatePiece> read_template(const JsonNode& processor, const char* name) {
  std::vector<TemplatePiece> pieces;
  for (const JsonNode& item : processor[name].items()) {
    const bool special = item.has("SpecialToken");
    const JsonNode piece = item[special ? "SpecialToken" : "Sequence"];
    const auto type_id = static_cast<int32_t>(piece["type_id"].integer(0, INT32_MAX));
    const std::string& id = piece["id"].text();
    if (special) {
      pieces.push_back({Kind::kSpecial, {}, id, type_id});
      for (const JsonNode& token_id : processor["special_tokens"][id.c_str()]["ids"].items())
        pieces.back().ids.push_back(static_cast<int32_t>(token_id.integer(0, INT32_MAX)));
    } else if (id == "A" || (id == "B" && name == std::string_view("pair"))) {
      pieces.push_back(sequence(id == "A" ? Kind::kFirst : Kind::kSecond, type_id));
    } else {
      piece["id"].fail("A, or B in the template for pairs");
    }
  }
  // One that stands there twice would make a text longer than it is cut to.
  const auto uses_once = [&](Kind kind) {
    return std::ranges::count(pieces, kind, &TemplatePiece::kind) == 1;
  };
  if (!uses_once(Kind::kFirst) || (name == std::string_view("pair") && !uses_once(Kind::kSecond)))
    processor[name].fail("a template that uses every sequence once");
  return pieces;
}

PostProcessor read_template_processing(const JsonNode& node) {
  return {read_template(node, "single"), read_template(node, "pair"), {}};
}

PostProcessor read_bert_processing(const JsonNode& node) {
  return bert_post_processor(read_special(node["cls"]), read_special(node["sep"]));
}

// Every token is of type 0, and a pair has two separators between its sequences.
PostProcessor read_roberta_processing(const JsonNode& node) {
  const TemplatePiece cls = read_special(node["cls"]);
  const TemplatePiece sep = read_special(node["sep"]);
  PostProcessor processor;
  processor.single = {cls, sequence(Kind::kFirst, 0), sep};
  processor.pair = {cls, sequence(Kind::kFirst, 0), sep, sep, sequence(Kind::kSecond, 0), sep};
  if (node["trim_offsets"].flag()) processor.trims.push_back({node["add_prefix_space"].flag()});
  return processor;
}

PostProcessor read_byte_level_processing(const JsonNode& node) {
  PostProcessor processor = plain_post_processor();
  if (node["trim_offsets"].flag()) processor.trims.push_back({node["add_prefix_space"].flag()});
  return processor;
}

PostProcessor read_processor_sequence(const JsonNode& node) {
  PostProcessor result = plain_post_processor();
  bool has_template = false;
  for (const JsonNode& part : node["processors"].items()) {
    PostProcessor processor = read_post_processor(part);
    result.trims.insert(result.trims.end(), processor.trims.begin(), processor.trims.end());
    if (part["type"].text() == "ByteLevel") continue;
    if (has_template) part["type"].fail("ByteLevel", "a Sequence may have one other part");
    has_template = true;
    result.single = std::move(processor.single);
    result.pair = std::move(processor.pair);
  }
  return result;
}

constexpr NamedPart<decltype(read_post_processor)> kPostProcessors[] = {
    {"BertProcessing", read_bert_processing},         {"ByteLevel", read_byte_level_processing},
    {"RobertaProcessing", read_roberta_processing},   {"Sequence", read_processor_sequence},
    {"TemplateProcessing", read_template_processing},
};

}  // namespace

PostProcessor plain_post_processor() {
  return {{sequence(Kind::kFirst, 0)}, {sequence(Kind::kFirst, 0), sequence(Kind::kSecond, 1)}, {}};
}

PostProcessor bert_post_processor(const TemplatePiece& cls, const TemplatePiece& sep) {
  PostProcessor processor;
  processor.single = {with_type(cls, 0), sequence(Kind::kFirst, 0), with_type(sep, 0)};
  processor.pair = processor.single;
  processor.pair.push_back(sequence(Kind::kSecond, 1));
  processor.pair.push_back(with_type(sep, 1));
  return processor;
}

PostProcessor read_post_processor(const JsonNode& node) {
  if (node.is_null()) return plain_post_processor();
  return reader_of<decltype(read_post_processor)>(kPostProcessors, node)(node);
}

}  // namespace shoehorn
