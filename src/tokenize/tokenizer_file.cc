#include "tokenize/tokenizer_file.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json_file.h"
#include "tokenize/character_pre_tokenizers.h"
#include "tokenize/text_decoders.h"
#include "tokenize/tokenizer_side_files.h"
#include "tokenize/unicode.h"
#include "tokenize/vocab_merges_files.h"
#include "tokenize/word_piece.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// Collects model.vocab and model.merges while tokenizer.json is parsed, so that no tree of 100,000 nodes is ever
// built.
class ListCollector {
 public:
  explicit ListCollector(const fs::path& path) : path_(path) {}

  // Returns whether the parser keeps the element.
  bool operator()(int depth, JsonEvent event, const Json& element) {
    if (list_ == List::kVocabulary) return collect_token(depth, event, element);
    if (list_ == List::kMerges) return collect_merge(depth, event, element);
    if (event == JsonEvent::kKey && depth == 1) in_model_ = element == "model";
    if (event == JsonEvent::kKey && depth == 2) key_ = in_model_ ? element.get<std::string>() : std::string();
    if (event == JsonEvent::kObjectStart && depth == 2 && key_ == "vocab")
      begin(List::kVocabulary, has_vocabulary_);
    if (event == JsonEvent::kArrayStart && depth == 2 && key_ == "merges") begin(List::kMerges, has_merges_);
    return true;
  }

  int64_t count() const { return static_cast<int64_t>(ids_.size()); }
  ModelLists take() { return {take_tokens(), std::move(merges_), has_merges_}; }

 private:
  enum class List { kNone, kVocabulary, kMerges };

  void begin(List list, bool& found) {
    if (found) throw user_error("[{}] expected model.{} once, got it twice", path_.string(), key_);
    list_ = list;
    found = true;
  }
  void end() {
    list_ = List::kNone;
    key_.clear();
  }

  bool collect_token(int depth, JsonEvent event, const Json& element) {
    if (event == JsonEvent::kObjectEnd && depth == 2) {
      end();
    } else if (event == JsonEvent::kKey) {
      tokens_.push_back(element.get_ref<const std::string&>());
      return false;
    } else if (event == JsonEvent::kValue && element.is_number_unsigned()) {
      ids_.push_back(element.get<uint64_t>());
    } else {
      throw user_error("[{}] expected the id of '{}' in model.vocab to be a whole number, got {}",
                       path_.string(), tokens_[tokens_.size() - 1],
                       element.is_primitive() ? element.dump() : element.type_name());
    }
    return true;
  }

  // A merge is ["a", "b"], or "a b" in older files, whose first line may be "#version: 0.2".
  bool collect_merge(int depth, JsonEvent event, const Json& element) {
    if (event == JsonEvent::kArrayEnd && depth == 2) {
      end();
      return true;
    }
    if (event == JsonEvent::kArrayStart && depth == 3) {
      pair_begin_ = merges_.size();
      return true;
    }
    bool is_merge = event == JsonEvent::kArrayEnd && depth == 3 && merges_.size() == pair_begin_ + 2;
    if (event == JsonEvent::kValue && element.is_string()) {
      const std::string_view text = element.get_ref<const std::string&>();
      is_merge = depth == 4 ? append(text) : text.starts_with("#version") || append_line(text);
    }
    if (!is_merge)
      throw user_error("[{}] expected model.merges[{}] to be two tokens, got {}", path_.string(),
                       merges_.size() / 2, element.is_string() ? element.dump() : element.type_name());
    return false;
  }
  bool append(std::string_view token) {
    merges_.push_back(token);
    return true;
  }
  bool append_line(std::string_view line) {
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) return false;
    return append(line.substr(0, space)) && append(line.substr(space + 1));
  }

  // The tokens in order of id; an id that none has is an empty one.
  TokenList take_tokens() {
    const size_t count = ids_.size();
    std::vector<uint32_t> position(count, UINT32_MAX);
    bool ordered = true;
    for (size_t i = 0; i < count; ++i) {
      const std::string_view token = tokens_[static_cast<int64_t>(i)];
      if (ids_[i] >= static_cast<uint64_t>(kMaxTokens))
        throw user_error("[{}] expected ids of model.vocab to be 0..{}, got {} for '{}'", path_.string(),
                         kMaxTokens - 1, ids_[i], token);
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

  const fs::path& path_;
  bool in_model_ = false;
  std::string key_;  // of the model's section
  List list_ = List::kNone;
  bool has_vocabulary_ = false;
  bool has_merges_ = false;
  TokenList tokens_;
  std::vector<uint64_t> ids_;
  TokenList merges_;
  int64_t pair_begin_ = 0;
};

// What tokenizer_config.json says of BERT's normalizer goes into its section.
void override_bert_normalizer(Json& normalizer, const JsonNode& config) {
  const std::string tokenizer_class =
      config.gives("tokenizer_class") ? config["tokenizer_class"].text() : "BertTokenizer";
  if (tokenizer_class == "PreTrainedTokenizerFast" || tokenizer_class == "TokenizersBackend") return;
  if (config.has("do_lower_case")) normalizer["lowercase"] = config["do_lower_case"].flag();
  if (config.has("tokenize_chinese_chars"))
    normalizer["handle_chinese_chars"] = config["tokenize_chinese_chars"].flag();
  if (config.has("strip_accents"))
    normalizer["strip_accents"] =
        config.gives("strip_accents") ? Json(config["strip_accents"].flag()) : Json();
}

bool is_left(const JsonNode& side) {
  if (side.text() == "left" || side.text() == "Left") return true;
  if (side.text() != "right" && side.text() != "Right") side.fail("right or left");
  return false;
}

std::unique_ptr<Normalizer> read_normalizer_section(const JsonNode& node, const JsonNode& config) {
  if (node.is_null()) return nullptr;
  if (!node.has("type") || node["type"].value() != "BertNormalizer") return read_normalizer(node);
  Json section = node.value();
  override_bert_normalizer(section, config);
  return read_normalizer(JsonNode(section, node.path(), "normalizer"));
}

AddedToken read_added_token(const JsonNode& node) {
  AddedToken token;
  token.content = node["content"].text();
  token.single_word = node["single_word"].flag();
  token.lstrip = node["lstrip"].flag();
  token.rstrip = node["rstrip"].flag();
  token.normalized = node["normalized"].flag();
  token.special = node.flag_or("special", false);
  return token;
}

void read_tokenizer_json(const std::string& text, const JsonNode& config, TokenizerFile& file) {
  ListCollector lists(file.path);
  const Json json = parse_json(
      text, file.path.string(),
      [&](int depth, JsonEvent event, const Json& element) { return lists(depth, event, element); });
  const JsonNode root(json, file.path, "the file");
  if (root.has("version") && root["version"].text() != "1.0") root["version"].fail("1.0");
  const JsonNode model = root["model"];
  if (!model["vocab"].value().is_object() && !(model.has("type") && model["type"].value() == "Unigram"))
    model["vocab"].fail("an object of tokens and ids");
  file.normalizer = read_normalizer_section(root["normalizer"], config);
  if (!root["pre_tokenizer"].is_null()) file.pre_tokenizer = read_pre_tokenizer(root["pre_tokenizer"]);
  file.post_processor = read_post_processor(root["post_processor"]);
  if (root.gives("decoder")) file.decoder = read_decoder(root["decoder"]);
  if (root.has("added_tokens")) {
    for (const JsonNode& node : root["added_tokens"].items()) {
      file.added_tokens.push_back(read_added_token(node));
      file.added_tokens.back().id = static_cast<int32_t>(node["id"].integer(0, INT32_MAX));
    }
  }
  if (root.gives("truncation") && root["truncation"].gives("direction"))
    file.truncates_left = is_left(root["truncation"]["direction"]);
  file.model = read_token_model(model, lists.take());
  file.has_gaps = file.model->vocabulary().size() > lists.count();
}

TokenList read_vocab_txt(const fs::path& path) {
  const std::string text = read_text_file(path);
  if (!is_valid_utf8(text)) throw user_error("[{}] expected UTF-8, got other bytes", path.string());
  if (const size_t nul = text.find('\0'); nul != std::string::npos) {
    throw user_error("[{}:{}] expected a token a line, got a NUL byte; is this file complete?", path.string(),
                     std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(nul), '\n') + 1);
  }
  TokenList tokens;
  tokens.bytes.reserve(text.size());
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t newline = std::min(text.find('\n', begin), text.size());
    // Hugging Face drops all white space at the end of a line.
    size_t end = newline;
    while (end > begin) {
      const size_t last = begin_of_last_code_point(text, end);
      size_t position = last;
      if (!is_whitespace(decode_utf8(text, position))) break;
      end = last;
    }
    tokens.push_back(std::string_view(text).substr(begin, end - begin));
    begin = newline + 1;
  }
  tokens.ends.shrink_to_fit();
  return tokens;
}

// The tokens that transformers adds if there is only vocab.txt: those that tokenizer_config.json lists by id,
// then the special tokens.
void add_special_tokens(const JsonNode& config, const std::string& unk_token, TokenizerFile& file) {
  if (config.has("added_tokens_decoder")) {
    const JsonNode decoder = config["added_tokens_decoder"];
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
  std::vector<std::string> special = {unk_token, file.sep_token, file.pad_token, file.cls_token,
                                      file.mask_token};
  if (config.has("additional_special_tokens") && !config["additional_special_tokens"].is_null())
    for (const JsonNode& token : config["additional_special_tokens"].items())
      special.push_back(token.token_text());
  std::set<std::string> listed;
  for (const AddedToken& token : file.added_tokens) listed.insert(token.content);
  for (const std::string& content : special)
    if (listed.insert(content).second) file.added_tokens.push_back({.content = content, .special = true});
}

// `unk_token` is null for tokenizer.json, which names its own.
void read_names(const JsonNode& node, TokenizerFile& file, std::string* unk_token) {
  const auto read = [&](const char* key, std::string& name) {
    if (node.gives(key)) name = node[key].token_text();
  };
  read("pad_token", file.pad_token);
  read("cls_token", file.cls_token);
  read("sep_token", file.sep_token);
  read("mask_token", file.mask_token);
  read("eos_token", file.eos_token);
  if (unk_token != nullptr) read("unk_token", *unk_token);
}

// Where there is no limit, transformers writes int(1e30).
int64_t read_model_max_length(const JsonNode& config) {
  if (!config.has("model_max_length") || config["model_max_length"].is_null()) return INT64_MAX;
  const JsonNode node = config["model_max_length"];
  if (!node.value().is_number() || !(node.value().get<double>() >= 1)) node.fail("a number from 1 on");
  return node.value().get<double>() < 0x1p62 ? node.value().get<int64_t>() : INT64_MAX;
}

// In place of a tokenizer: files of which transformers makes one.
std::string what_there_is(const fs::path& model_dir) {
  for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}) {
    if (!path_exists(model_dir / name)) continue;
    return fmt::format(
        "only {}; transformers makes a tokenizer.json of it: python -c \"from transformers import AutoTokenizer; "
        "AutoTokenizer.from_pretrained('{}').save_pretrained('{}')\"",
        name, model_dir.string(), model_dir.string());
  }
  return "neither";
}

// The same document as tokenizer.json's, which names the tokens and has all that tokenizer_config.json adds.
void read_vocab_json(const TokenizerSideFiles& files, TokenizerFile& file) {
  const VocabMergesTokenizer tokenizer = read_vocab_and_merges(files);
  file.pad_token = tokenizer.names.pad_token;
  file.cls_token = tokenizer.names.cls_token;
  file.sep_token = tokenizer.names.sep_token;
  file.mask_token = tokenizer.names.mask_token;
  file.eos_token = tokenizer.names.eos_token;
  read_tokenizer_json(tokenizer.tokenizer_json, files.tokenizer_config(), file);
}

// The file that has the vocabulary.
fs::path vocabulary_file(const TokenizerSideFiles& files) {
  const fs::path& model_dir = files.directory();
  if (has_vocab_and_merges(files)) return model_dir / "vocab.json";
  for (const char* name : {"tokenizer.json", "vocab.txt", "vocab.json"})
    if (path_exists(model_dir / name)) return model_dir / name;
  throw user_error(
      "[{}] expected tokenizer.json, vocab.txt, or vocab.json and merges.txt in the model's directory, got {}",
      model_dir.string(), what_there_is(model_dir));
}

// The chain of transformers' BertTokenizer.
void read_bert_files(const JsonNode& config, std::string unk_token, TokenizerFile& file) {
  using Kind = TemplatePiece::Kind;
  const Json normalizer = {{"type", "BertNormalizer"},
                           {"clean_text", true},
                           {"handle_chinese_chars", true},
                           {"strip_accents", nullptr},
                           {"lowercase", true}};
  TokenList tokens = read_vocab_txt(file.path);
  file.normalizer = read_normalizer_section(JsonNode(normalizer, file.path, "normalizer"), config);
  file.pre_tokenizer = std::make_unique<BertPreTokenizer>();
  file.model = std::make_unique<WordPiece>(std::move(tokens), WordPieceOptions{.unk_token = unk_token},
                                           file.path.string());
  file.post_processor =
      bert_post_processor({Kind::kSpecial, {}, file.cls_token, 0}, {Kind::kSpecial, {}, file.sep_token, 0});
  file.decoder = make_word_piece_decoder("##", true);
  add_special_tokens(config, unk_token, file);
}

}  // namespace

TokenizerFile read_tokenizer_file(const fs::path& model_dir) {
  const TokenizerSideFiles files(model_dir);
  TokenizerFile file;
  file.path = vocabulary_file(files);
  const bool vocab_txt = file.path.filename() == "vocab.txt";
  const JsonNode map = files.special_tokens_map();
  const JsonNode config = files.tokenizer_config();
  std::string unk_token = "[UNK]";
  read_names(map, file, vocab_txt ? &unk_token : nullptr);
  read_names(config, file, vocab_txt ? &unk_token : nullptr);
  file.model_max_length = read_model_max_length(config);
  if (vocab_txt) {
    read_bert_files(config, std::move(unk_token), file);
  } else if (file.path.filename() == "vocab.json") {
    read_vocab_json(files, file);
  } else {
    read_tokenizer_json(read_text_file(file.path), config, file);
  }
  if (config.gives("truncation_side")) file.truncates_left = is_left(config["truncation_side"]);
  return file;
}

}  // namespace shoehorn
