#include "tokenize/tokenizer_file.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "tokenize/unicode.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// A JSON value with its place, so that each error names file and key.
class Node {
 public:
  Node(const Json& value, const fs::path& path, std::string key)
      : value_(value), path_(path), key_(std::move(key)) {}

  [[noreturn]] void fail(std::string_view expected, std::string_view hint = "") const {
    std::string got = value_.is_object() || value_.is_array()
                          ? value_.type_name()
                          : value_.dump(-1, ' ', true, Json::error_handler_t::replace);
    throw user_error("[{}] expected {} to be {}, got {}{}{}", path_.string(), key_, expected, got,
                     hint.empty() ? "" : "; ", hint);
  }
  bool has(const char* key) const { return value_.is_object() && value_.contains(key); }
  bool is_null() const { return value_.is_null(); }
  Node operator[](const char* key) const {
    if (!value_.is_object()) fail("an object");
    auto found = value_.find(key);
    if (found == value_.end())
      throw user_error("[{}] expected the key '{}' in {}, got none", path_.string(), key, key_);
    return Node(*found, path_, key_ == "the file" ? key : key_ + "." + key);
  }
  std::vector<Node> items() const {
    if (!value_.is_array()) fail("an array");
    std::vector<Node> nodes;
    for (size_t i = 0; i < value_.size(); ++i)
      nodes.emplace_back(value_[i], path_, fmt::format("{}[{}]", key_, i));
    return nodes;
  }
  const std::string& text() const {
    if (!value_.is_string()) fail("a string");
    return value_.get_ref<const std::string&>();
  }
  bool flag() const {
    if (!value_.is_boolean()) fail("true or false");
    return value_.get<bool>();
  }
  int64_t integer(int64_t lowest, int64_t highest) const {
    if (!value_.is_number_integer() || (value_.is_number_unsigned() && value_.get<uint64_t>() > INT64_MAX) ||
        value_.get<int64_t>() < lowest || value_.get<int64_t>() > highest)
      fail(fmt::format("an integer in {}..{}", lowest, highest));
    return value_.get<int64_t>();
  }
  // A special token is written as its text or as an object with its content.
  const std::string& token_text() const { return value_.is_object() ? (*this)["content"].text() : text(); }
  const Json& value() const { return value_; }

 private:
  const Json& value_;
  const fs::path& path_;
  std::string key_;
};

// Collects model.vocab while tokenizer.json is parsed, so that no tree of 30,000 nodes is ever built.
class VocabularyCollector {
 public:
  explicit VocabularyCollector(const fs::path& path) : path_(path) {}

  // Returns whether the parser keeps the element.
  bool operator()(int depth, JsonEvent event, const Json& element) {
    using Event = JsonEvent;
    if (!collecting_) {
      if (event == Event::kKey && depth == 1) in_model_ = element == "model";
      if (event == Event::kKey && depth == 2) in_vocabulary_ = in_model_ && element == "vocab";
      if (event == Event::kObjectStart && depth == 2 && in_vocabulary_) {
        if (found_) throw user_error("[{}] expected model.vocab once, got it twice", path_.string());
        collecting_ = found_ = true;
      }
      return true;
    }
    if (event == Event::kObjectEnd && depth == 2) {
      collecting_ = in_vocabulary_ = false;
    } else if (event == Event::kKey) {
      tokens_.push_back(element.get_ref<const std::string&>());
      return false;
    } else if (event == Event::kValue && element.is_number_unsigned()) {
      ids_.push_back(element.get<uint64_t>());
    } else {
      throw user_error("[{}] expected the id of '{}' in model.vocab to be a whole number, got {}",
                       path_.string(), tokens_[tokens_.size() - 1],
                       element.is_primitive() ? element.dump() : element.type_name());
    }
    return true;
  }

  int64_t count() const { return static_cast<int64_t>(ids_.size()); }
  // The tokens in order of id; an id that none has is an empty one.
  TokenList take() {
    const size_t count = ids_.size();
    std::vector<uint32_t> position(count, UINT32_MAX);
    bool ordered = true;
    for (size_t i = 0; i < count; ++i) {
      const std::string_view token = tokens_[static_cast<int64_t>(i)];
      if (ids_[i] >= static_cast<uint64_t>(kMostTokens))
        throw user_error("[{}] expected ids of model.vocab to be 0..{}, got {} for '{}'", path_.string(),
                         kMostTokens - 1, ids_[i], token);
      if (ids_[i] >= position.size()) position.resize(ids_[i] + 1, UINT32_MAX);
      uint32_t& place = position[ids_[i]];
      if (place != UINT32_MAX)
        throw user_error(
            "[{}] expected each token and each id of model.vocab once, got id {} for '{}' and '{}'",
            path_.string(), ids_[i], tokens_[place], token);
      place = static_cast<uint32_t>(i);
      ordered = ordered && ids_[i] == i;
    }
    if (!ordered) {
      TokenList sorted;
      sorted.bytes.reserve(tokens_.bytes.size());
      sorted.ends.reserve(position.size());
      for (uint32_t place : position) sorted.push_back(place == UINT32_MAX ? "" : tokens_[place]);
      tokens_ = std::move(sorted);
    }
    tokens_.bytes.shrink_to_fit();
    tokens_.ends.shrink_to_fit();
    return std::move(tokens_);
  }

 private:
  const fs::path& path_;
  bool in_model_ = false;
  bool in_vocabulary_ = false;
  bool collecting_ = false;
  bool found_ = false;
  TokenList tokens_;
  std::vector<uint64_t> ids_;
};

void expect_type(const Node& node, std::string_view type) {
  if (node.is_null() || node["type"].text() != type)
    (node.is_null() ? node : node["type"]).fail(type, "only BERT's WordPiece tokenizers are read so far");
}

// `node` is absent where there is only vocab.txt. strip_accents follows lowercase where it is null.
NormalizerOptions read_normalizer(const std::optional<Node>& node, const Node& config) {
  if (node && node->is_null()) return {false, false, false, false};
  NormalizerOptions options;
  std::optional<bool> strip_accents;
  const auto read_strip_accents = [&](const Node& from) {
    if (from.has("strip_accents"))
      strip_accents =
          from["strip_accents"].is_null() ? std::nullopt : std::optional(from["strip_accents"].flag());
  };
  if (node) {
    expect_type(*node, "BertNormalizer");
    options.clean_text = (*node)["clean_text"].flag();
    options.handle_chinese_chars = (*node)["handle_chinese_chars"].flag();
    options.lowercase = (*node)["lowercase"].flag();
    read_strip_accents(*node);
  }
  const std::string tokenizer_class = config.has("tokenizer_class") && !config["tokenizer_class"].is_null()
                                          ? config["tokenizer_class"].text()
                                          : "BertTokenizer";
  if (tokenizer_class != "PreTrainedTokenizerFast" && tokenizer_class != "TokenizersBackend") {
    if (config.has("do_lower_case")) options.lowercase = config["do_lower_case"].flag();
    if (config.has("tokenize_chinese_chars"))
      options.handle_chinese_chars = config["tokenize_chinese_chars"].flag();
    read_strip_accents(config);
  }
  options.strip_accents = strip_accents.value_or(options.lowercase);
  return options;
}

std::vector<TemplatePiece> read_template(const Node& processor, const char* name) {
  using Kind = TemplatePiece::Kind;
  std::vector<TemplatePiece> pieces;
  for (const Node& item : processor[name].items()) {
    const bool special = item.has("SpecialToken");
    const Node piece = item[special ? "SpecialToken" : "Sequence"];
    const auto type_id = static_cast<int32_t>(piece["type_id"].integer(0, INT32_MAX));
    const std::string& id = piece["id"].text();
    if (special) {
      pieces.push_back({Kind::kSpecial, {}, id, type_id});
      for (const Node& token_id : processor["special_tokens"][id.c_str()]["ids"].items())
        pieces.back().ids.push_back(static_cast<int32_t>(token_id.integer(0, INT32_MAX)));
    } else if (id == "A" || (id == "B" && name == std::string_view("pair"))) {
      pieces.push_back({id == "A" ? Kind::kFirst : Kind::kSecond, {}, "", type_id});
    } else {
      piece["id"].fail("A, or B in the template for pairs");
    }
  }
  const auto uses = [&](Kind kind) {
    return std::ranges::find(pieces, kind, &TemplatePiece::kind) != pieces.end();
  };
  if (!uses(Kind::kFirst) || (name == std::string_view("pair") && !uses(Kind::kSecond)))
    processor[name].fail("a template that uses every sequence");
  return pieces;
}

// [CLS] A [SEP], and for a pair [CLS] A [SEP] B [SEP] with the second half of type 1.
void set_bert_template(TokenizerFile& file, std::vector<int32_t> cls, std::vector<int32_t> sep) {
  using Kind = TemplatePiece::Kind;
  file.single = {{Kind::kSpecial, cls, file.cls_token, 0},
                 {Kind::kFirst, {}, "", 0},
                 {Kind::kSpecial, sep, file.sep_token, 0}};
  file.pair = file.single;
  file.pair.push_back({Kind::kSecond, {}, "", 1});
  file.pair.push_back({Kind::kSpecial, sep, file.sep_token, 1});
}

void read_post_processor(const Node& node, TokenizerFile& file) {
  using Kind = TemplatePiece::Kind;
  if (node.is_null()) {
    file.single = {{Kind::kFirst, {}, "", 0}};
    file.pair = {{Kind::kFirst, {}, "", 0}, {Kind::kSecond, {}, "", 1}};
  } else if (node["type"].text() == "BertProcessing") {
    const auto id = [&](const char* key) {
      const std::vector<Node> token = node[key].items();
      if (token.size() != 2) node[key].fail("a token and its id");
      return std::vector<int32_t>{static_cast<int32_t>(token[1].integer(0, INT32_MAX))};
    };
    set_bert_template(file, id("cls"), id("sep"));
  } else if (node["type"].text() == "TemplateProcessing") {
    file.single = read_template(node, "single");
    file.pair = read_template(node, "pair");
  } else {
    node["type"].fail("TemplateProcessing or BertProcessing",
                      "only BERT's WordPiece tokenizers are read so far");
  }
}

AddedToken read_added_token(const Node& node) {
  AddedToken token;
  token.content = node["content"].text();
  token.single_word = node["single_word"].flag();
  token.lstrip = node["lstrip"].flag();
  token.rstrip = node["rstrip"].flag();
  token.normalized = node["normalized"].flag();
  return token;
}

void read_tokenizer_json(const Node& config, TokenizerFile& file) {
  VocabularyCollector vocabulary(file.path);
  const Json json = parse_json(
      read_text_file(file.path), file.path.string(),
      [&](int depth, JsonEvent event, const Json& element) { return vocabulary(depth, event, element); });
  const Node root(json, file.path, "the file");
  if (root.has("version") && root["version"].text() != "1.0") root["version"].fail("1.0");
  const Node model = root["model"];
  if (model.has("type")) expect_type(model, "WordPiece");
  if (!model["vocab"].value().is_object()) model["vocab"].fail("an object of tokens and ids");
  file.model.unk_token = model["unk_token"].text();
  file.model.continuing_subword_prefix = model["continuing_subword_prefix"].text();
  file.model.max_input_chars_per_word = model["max_input_chars_per_word"].integer(0, INT64_MAX);
  file.normalizer = read_normalizer(root["normalizer"], config);
  expect_type(root["pre_tokenizer"], "BertPreTokenizer");
  read_post_processor(root["post_processor"], file);
  if (root.has("added_tokens")) {
    for (const Node& node : root["added_tokens"].items()) {
      file.added_tokens.push_back(read_added_token(node));
      file.added_tokens.back().id = static_cast<int32_t>(node["id"].integer(0, INT32_MAX));
    }
  }
  file.tokens = vocabulary.take();
  file.has_gaps = file.tokens.size() > vocabulary.count();
}

void read_vocab_txt(TokenizerFile& file) {
  const std::string text = read_text_file(file.path);
  if (!is_valid_utf8(text)) throw user_error("[{}] expected UTF-8, got other bytes", file.path.string());
  file.tokens.bytes.reserve(text.size());
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t newline = std::min(text.find('\n', begin), text.size());
    // Hugging Face drops all white space at the end of a line.
    size_t end = newline;
    while (end > begin) {
      size_t last = end - 1;
      while (last > begin && (static_cast<uint8_t>(text[last]) & 0xC0) == 0x80) --last;
      size_t position = last;
      if (!is_whitespace(decode_utf8(text, position))) break;
      end = last;
    }
    file.tokens.push_back(std::string_view(text).substr(begin, end - begin));
    begin = newline + 1;
  }
  file.tokens.ends.shrink_to_fit();
}

// The tokens that transformers adds where there is only vocab.txt: those that tokenizer_config.json lists by
// id, then the special tokens.
void add_special_tokens(const Node& config, TokenizerFile& file) {
  if (config.has("added_tokens_decoder")) {
    const Node decoder = config["added_tokens_decoder"];
    if (!decoder.value().is_object()) decoder.fail("an object of ids and tokens");
    for (const auto& [id, value] : decoder.value().items()) {
      file.added_tokens.push_back(read_added_token(decoder[id.c_str()]));
      int32_t& number = file.added_tokens.back().id;
      const auto parsed = std::from_chars(id.data(), id.data() + id.size(), number);
      if (parsed.ec != std::errc() || parsed.ptr != id.data() + id.size() || number < 0)
        decoder.fail("an object with ids as keys", fmt::format("'{}' is none", id));
    }
    std::ranges::sort(file.added_tokens, {}, &AddedToken::id);
  }
  std::vector<std::string> special = {file.model.unk_token, file.sep_token, file.pad_token, file.cls_token,
                                      file.mask_token};
  if (config.has("additional_special_tokens") && !config["additional_special_tokens"].is_null())
    for (const Node& token : config["additional_special_tokens"].items())
      special.push_back(token.token_text());
  std::set<std::string> listed;
  for (const AddedToken& token : file.added_tokens) listed.insert(token.content);
  for (const std::string& content : special)
    if (listed.insert(content).second) file.added_tokens.push_back({.content = content});
}

void read_names(const Node& node, TokenizerFile& file, bool vocab_txt) {
  const auto read = [&](const char* key, std::string& name) {
    if (node.has(key) && !node[key].is_null()) name = node[key].token_text();
  };
  read("pad_token", file.pad_token);
  read("cls_token", file.cls_token);
  read("sep_token", file.sep_token);
  read("mask_token", file.mask_token);
  // tokenizer.json names its own.
  if (vocab_txt) read("unk_token", file.model.unk_token);
}

// Where there is no limit, transformers writes int(1e30).
int64_t read_model_max_length(const Node& config) {
  if (!config.has("model_max_length") || config["model_max_length"].is_null()) return INT64_MAX;
  const Node node = config["model_max_length"];
  if (!node.value().is_number() || !(node.value().get<double>() >= 1)) node.fail("a number from 1 on");
  return node.value().get<double>() < 0x1p62 ? node.value().get<int64_t>() : INT64_MAX;
}

}  // namespace

TokenizerFile read_tokenizer_file(const fs::path& model_dir) {
  TokenizerFile file;
  file.path = model_dir / "tokenizer.json";
  const bool vocab_txt = !path_exists(file.path);
  if (vocab_txt) file.path = model_dir / "vocab.txt";
  if (!path_exists(file.path))
    throw user_error("[{}] expected tokenizer.json or vocab.txt in the model's directory, got neither",
                     model_dir.string());
  const fs::path map_path = model_dir / "special_tokens_map.json";
  const fs::path config_path = model_dir / "tokenizer_config.json";
  const Json map = path_exists(map_path) ? read_json(map_path) : Json::object();
  const Json config = path_exists(config_path) ? read_json(config_path) : Json::object();
  const Node map_node(map, map_path, "the file");
  const Node config_node(config, config_path, "the file");
  if (!map.is_object()) map_node.fail("an object");
  if (!config.is_object()) config_node.fail("an object");
  read_names(map_node, file, vocab_txt);
  read_names(config_node, file, vocab_txt);
  file.model_max_length = read_model_max_length(config_node);
  if (vocab_txt) {
    read_vocab_txt(file);
    file.normalizer = read_normalizer(std::nullopt, config_node);
    set_bert_template(file, {}, {});
    add_special_tokens(config_node, file);
  } else {
    read_tokenizer_json(config_node, file);
  }
  return file;
}

}  // namespace shoehorn
