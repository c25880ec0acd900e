#include "tokenize/vocab_merges_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json_file.h"
#include "tokenize/added_tokens.h"
#include "tokenize/byte_level.h"
#include "tokenize/byte_level_chain.h"
#include "tokenize/tokenizer_json_sections.h"
#include "tokenize/vocabulary.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

struct TokenizerClass {
  std::string_view name;
  std::string_view chain;
  bool nfc;
  bool is_roberta;
  NamedTokens names;
};

const std::array<TokenizerClass, 3>& classes() {
  static const std::string end = "<|endoftext|>";
  static const std::array<TokenizerClass, 3> known = {{
      {"GPT2Tokenizer", "gpt2", false, false, {.bos_token = end, .eos_token = end, .unk_token = end}},
      {"RobertaTokenizer", "gpt2", false, true, {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
      {"Qwen2Tokenizer", "qwen2", true, false, {.eos_token = end, .unk_token = end, .pad_token = end}},
  }};
  return known;
}

constexpr std::pair<std::string_view, std::string_view> kClassesOfModels[] = {
    {"gpt2", "GPT2Tokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"qwen2", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},
};

// In the order in which transformers adds them.
constexpr std::pair<const char*, std::string NamedTokens::*> kRoles[] = {
    {"bos_token", &NamedTokens::bos_token},  {"eos_token", &NamedTokens::eos_token},
    {"unk_token", &NamedTokens::unk_token},  {"sep_token", &NamedTokens::sep_token},
    {"pad_token", &NamedTokens::pad_token},  {"cls_token", &NamedTokens::cls_token},
    {"mask_token", &NamedTokens::mask_token}};

// What the directory says; empty if nothing.
std::string class_of(const TokenizerSideFiles& files) {
  const JsonNode config = files.tokenizer_config();
  const JsonNode model = files.model_config();
  std::string name;
  if (config.gives("tokenizer_class")) {
    name = config["tokenizer_class"].text();
  } else if (model.gives("tokenizer_class")) {
    name = model["tokenizer_class"].text();
  } else if (model.gives("model_type")) {
    const std::string& type = model["model_type"].text();
    const auto found =
        std::ranges::find(kClassesOfModels, type, &std::pair<std::string_view, std::string_view>::first);
    return found == std::end(kClassesOfModels) ? fmt::format("that of model_type {}", type)
                                               : std::string(found->second);
  }
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

const TokenizerClass* find_class(std::string_view name) {
  const auto found = std::ranges::find(classes(), name, &TokenizerClass::name);
  return found == classes().end() ? nullptr : &*found;
}

struct VocabularyOfFile {
  std::vector<std::pair<std::string, int64_t>> tokens;  // by id
  std::unordered_map<std::string, int64_t> ids;
};

// No tree of 100,000 nodes is built.
VocabularyOfFile read_vocab_json(const fs::path& path) {
  VocabularyOfFile vocabulary;
  std::string token;
  const auto collect = [&](int depth, JsonEvent event, const json& element) {
    if (depth == 0 && (event == JsonEvent::kObjectStart || event == JsonEvent::kObjectEnd)) return true;
    if (depth == 1 && event == JsonEvent::kKey) {
      token = element.get<std::string>();
      return false;
    }
    if (depth != 1)
      throw user_error("[{}] expected an object of tokens and ids, got another value", path.string());
    const std::optional<int64_t> id = event == JsonEvent::kValue ? whole_number(element) : std::nullopt;
    if (!id || *id < 0 || *id >= kMaxTokens)
      throw user_error("[{}] expected the id of '{}' to be in 0..{}, got {}", path.string(), token,
                       kMaxTokens - 1, event == JsonEvent::kValue ? element.dump() : "an array or object");
    if (!vocabulary.ids.emplace(token, *id).second)
      throw user_error("[{}] expected each token once, got '{}' twice", path.string(), token);
    vocabulary.tokens.emplace_back(token, *id);
    return false;
  };
  parse_json(read_text_file(path), path.string(), collect);
  std::ranges::sort(vocabulary.tokens, {},
                    [](const auto& entry) { return std::pair(entry.second, entry.first); });
  const auto same_id = [](const auto& a, const auto& b) { return a.second == b.second; };
  const auto twice = std::ranges::adjacent_find(vocabulary.tokens, same_id);
  if (twice != vocabulary.tokens.end())
    throw user_error("[{}] expected each id once, got {} for '{}' and '{}'", path.string(), twice->second,
                     twice->first, (twice + 1)->first);
  std::vector<std::string> absent;
  for (int byte = 0; byte < 256; ++byte) {
    if (!vocabulary.ids.contains(std::string(alphabet_character(static_cast<uint8_t>(byte)))))
      absent.push_back(fmt::format("0x{:02X}", byte));
  }
  if (!absent.empty())
    throw user_error(
        "[{}] expected a token for each of the 256 bytes, got none for {} of them ({}, …); texts would lose these",
        path.string(), absent.size(), absent[0]);
  return vocabulary;
}

OrderedJson read_merges(const fs::path& path, const VocabularyOfFile& vocabulary) {
  const std::string text = read_text_file(path);
  if (!is_valid_utf8(text)) throw user_error("[{}] expected UTF-8, got other bytes", path.string());
  OrderedJson merges = OrderedJson::array();
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
      throw user_error(
          "[{}:{}] expected two tokens with a space between them, got '{}'; is this file complete?",
          path.string(), number, line.substr(0, 80));
    const std::string left(line.substr(0, space));
    const std::string right(line.substr(space + 1));
    for (const std::string& token : {left, right, left + right}) {
      if (!vocabulary.ids.contains(token))
        throw user_error(
            "[{}:{}] expected a merge of tokens of vocab.json to one of them, got '{}', whose '{}' is none",
            path.string(), number, line.substr(0, 80), token);
    }
    merges.push_back(OrderedJson::array({left, right}));
  }
  return merges;
}

// A token as a string, or as an object with its properties. transformers knows one that has a role as special.
AddedToken read_token(const JsonNode& node, bool is_special) {
  AddedToken token;
  token.content = node.token_text();
  token.special = node.value().is_string() || is_special || node.flag_or("special", false);
  token.lstrip = node.flag_or("lstrip", false);
  token.rstrip = node.flag_or("rstrip", false);
  token.single_word = node.flag_or("single_word", false);
  token.normalized = node.flag_or("normalized", !token.special);
  return token;
}

// The tokens with a role or none that a directory adds to its vocabulary, in the order in which they get ids.
class AddedTokens {
 public:
  AddedTokens(const TokenizerSideFiles& files, const TokenizerClass& of_class) : names(of_class.names) {
    const JsonNode config = files.tokenizer_config();
    const JsonNode map = files.special_tokens_map();
    const JsonNode added = files.added_tokens();
    const bool has_list = config.gives("added_tokens_decoder");
    std::vector<AddedToken> special;  // with a role that a file gives
    const auto read_roles = [&](const JsonNode& node, bool is_special) {
      for (const auto& [role, name] : kRoles) {
        if (!node.has(role)) continue;
        names.*name = node.gives(role) ? node[role].token_text() : "";
        std::erase_if(special, [&](const AddedToken& token) { return token.content == names.*name; });
        if (node.gives(role)) special.push_back(read_token(node[role], is_special));
      }
    };
    read_roles(config, false);
    if (!has_list) read_roles(map, true);
    std::vector<AddedToken> extra = extra_tokens(config);
    if (!has_list) std::ranges::move(extra_tokens(map), std::back_inserter(extra));
    if (has_list)
      list(config["added_tokens_decoder"]);
    else
      list_legacy(added, special, extra);
    for (const auto& [role, name] : kRoles) {
      const std::string& content = names.*name;
      const auto given = std::ranges::find(special, content, &AddedToken::content);
      append(given != special.end() ? *given
                                    : AddedToken{.content = content, .normalized = false, .special = true});
    }
    for (const AddedToken& token : extra) append(token);
    for (AddedToken& token : tokens) token.special = token.special || has_role(token.content);
    check_other_roles(config);
  }

  NamedTokens names;
  std::vector<AddedToken> tokens;  // id -1: none is given

 private:
  bool has_role(std::string_view content) const {
    return std::ranges::any_of(kRoles, [&](const auto& role) { return names.*role.second == content; });
  }

  static bool is_role(std::string_view key) {
    return std::ranges::any_of(kRoles, [&](const auto& role) { return role.first == key; });
  }

  bool has(std::string_view content) const {
    return std::ranges::find(tokens, content, &AddedToken::content) != tokens.end();
  }

  void append(const AddedToken& token) {
    if (!token.content.empty() && !has(token.content)) tokens.push_back(token);
  }

  static std::vector<AddedToken> extra_tokens(const JsonNode& node) {
    std::vector<AddedToken> extra;
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
      if (!node.gives(key) || !extra.empty() || node[key].value().is_object()) continue;
      for (const JsonNode& token : node[key].items()) extra.push_back(read_token(token, true));
    }
    return extra;
  }

  // Keys are ids.
  void list(const JsonNode& decoder) {
    if (!decoder.value().is_object()) decoder.fail("an object of ids and tokens");
    for (const auto& [key, value] : decoder.value().items()) {
      AddedToken token = read_token(decoder[key.c_str()], false);
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token.id);
      if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || token.id < 0)
        decoder.fail("an object with ids as keys", fmt::format("'{}' is none", key));
      tokens.push_back(std::move(token));
    }
    std::ranges::sort(tokens, {}, &AddedToken::id);
  }

  // Keys are tokens. Those that a file names as special ones are not normalized.
  void list_legacy(const JsonNode& added, const std::vector<AddedToken>& special,
                   const std::vector<AddedToken>& extra) {
    for (const auto& [content, value] : added.value().items()) {
      const bool is_special = std::ranges::count(special, content, &AddedToken::content) +
                                  std::ranges::count(extra, content, &AddedToken::content) >
                              0;
      tokens.push_back({.content = content, .normalized = !is_special, .special = is_special});
      tokens.back().id = static_cast<int32_t>(added[content.c_str()].integer(0, INT32_MAX));
    }
    std::ranges::sort(tokens, {}, &AddedToken::id);
  }

  // transformers adds the tokens of other roles (image_token) in the order of the file, which JSON objects do not have.
  void check_other_roles(const JsonNode& config) const {
    const auto check = [&](const JsonNode& role) {
      if (role.value().is_string() && !has(role.text())) role.fail("a token that added_tokens_decoder lists");
    };
    for (const auto& [key, value] : config.value().items())
      if (key.ends_with("_token") && !is_role(key)) check(config[key.c_str()]);
    if (!config.gives("extra_special_tokens") || !config["extra_special_tokens"].value().is_object()) return;
    const JsonNode extra = config["extra_special_tokens"];
    for (const auto& [key, value] : extra.value().items()) check(extra[key.c_str()]);
  }
};

// Gives each token its id: that in the vocabulary, or the next one behind it.
void number_tokens(VocabularyOfFile& vocabulary, const fs::path& path, std::vector<AddedToken>& tokens) {
  int64_t next = vocabulary.tokens.back().second + 1;
  for (AddedToken& token : tokens) {
    const auto [place, is_new] = vocabulary.ids.emplace(token.content, next);
    next += is_new ? 1 : 0;
    if (token.id >= 0 && token.id != place->second)
      throw user_error(
          "[{}] expected the added token '{}' to have the id {}, got {}; ids must follow the vocabulary",
          path.string(), token.content, place->second, token.id);
    token.id = static_cast<int32_t>(place->second);
  }
  std::ranges::sort(tokens, {}, &AddedToken::id);
}

OrderedJson pre_tokenizer_of(const TokenizerClass& of_class, bool add_prefix_space) {
  OrderedJson section = pre_tokenizer_section(find_byte_level_chain(of_class.chain));
  OrderedJson& bytes = section.contains("pretokenizers") ? section["pretokenizers"].back() : section;
  bytes["add_prefix_space"] = add_prefix_space;
  return section;
}

OrderedJson template_section(const JsonNode& config, const NamedTokens& names,
                             const VocabularyOfFile& vocabulary) {
  OrderedJson special = OrderedJson::object();
  const auto around = [&](const char* sequence, int type_id) {
    OrderedJson pieces = OrderedJson::array();
    const auto add = [&](const char* key, const std::string& token) {
      if (!config.flag_or(key, false) || token.empty()) return;
      pieces.push_back({{"SpecialToken", {{"id", token}, {"type_id", type_id}}}});
      special[token] = {{"id", token}, {"ids", {vocabulary.ids.at(token)}}, {"tokens", {token}}};
    };
    add("add_bos_token", names.bos_token);
    pieces.push_back({{"Sequence", {{"id", sequence}, {"type_id", type_id}}}});
    add("add_eos_token", names.eos_token);
    return pieces;
  };
  const OrderedJson single = around("A", 0);
  OrderedJson pair = single;
  for (OrderedJson& piece : around("B", 1)) pair.push_back(std::move(piece));
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

OrderedJson roberta_section(const JsonNode& config, const NamedTokens& names,
                            const VocabularyOfFile& vocabulary) {
  if (names.sep_token.empty() || names.cls_token.empty())
    throw user_error(
        "[{}] expected a sep_token and a cls_token, which RobertaTokenizer puts around a text, got null",
        config.path().string());
  const auto with_id = [&](const std::string& token) {
    return OrderedJson::array({token, vocabulary.ids.at(token)});
  };
  return {{"type", "RobertaProcessing"},
          {"sep", with_id(names.sep_token)},
          {"cls", with_id(names.cls_token)},
          {"trim_offsets", config.flag_or("trim_offsets", true)},
          {"add_prefix_space", config.flag_or("add_prefix_space", false)}};
}

}  // namespace

bool has_vocab_and_merges(const TokenizerSideFiles& files) {
  const fs::path& directory = files.directory();
  if (path_exists(directory / "tokenizer.json") || !path_exists(directory / "vocab.json") ||
      !path_exists(directory / "merges.txt"))
    return false;
  return find_class(class_of(files)) != nullptr;
}

VocabMergesTokenizer read_vocab_and_merges(const TokenizerSideFiles& files) {
  const fs::path& directory = files.directory();
  const JsonNode config = files.tokenizer_config();
  const std::string name = class_of(files);
  const TokenizerClass* of_class = find_class(name);
  if (of_class == nullptr) {
    std::vector<std::string_view> known;
    for (const TokenizerClass& other : classes()) known.push_back(other.name);
    throw user_error(
        "[{}] expected vocab.json of one of the tokenizers {}, as tokenizer_class of tokenizer_config.json or "
        "model_type of config.json says, got {}; transformers makes a tokenizer.json of others: python -c \"from transformers import "
        "AutoTokenizer; AutoTokenizer.from_pretrained('{}').save_pretrained('{}')\"",
        directory.string(), fmt::join(known, ", "), name.empty() ? "neither" : name, directory.string(),
        directory.string());
  }
  const fs::path vocab_path = directory / "vocab.json";
  VocabularyOfFile vocabulary = read_vocab_json(vocab_path);
  OrderedJson merges = read_merges(directory / "merges.txt", vocabulary);
  AddedTokens added(files, *of_class);
  number_tokens(vocabulary, vocab_path, added.tokens);
  const OrderedJson document = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_section(added.tokens)},
      {"normalizer", of_class->nfc ? OrderedJson({{"type", "NFC"}}) : OrderedJson()},
      {"pre_tokenizer", pre_tokenizer_of(*of_class, config.flag_or("add_prefix_space", false))},
      {"post_processor", of_class->is_roberta ? roberta_section(config, added.names, vocabulary)
                                              : template_section(config, added.names, vocabulary)},
      {"decoder", byte_level_section(true)},
      {"model", byte_pairs_section(std::move(vocabulary.tokens), std::move(merges), "")}};
  return {format_json(document, {.sort_keys = false, .ensure_ascii = false, .final_newline = false}),
          added.names};
}

}  // namespace shoehorn
