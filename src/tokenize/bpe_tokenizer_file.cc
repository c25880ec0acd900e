#include "tokenize/bpe_tokenizer_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "tokenize/byte_level_chain.h"
#include "tokenize/tokenizer_json_sections.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kTokenizerName = "tokenizer.json";
constexpr const char* kConfigName = "tokenizer_config.json";
// What transformers and `tokenizers` read besides, or in their place.
constexpr std::array kOtherNames = {"added_tokens.json", "merges.txt", "special_tokens_map.json",
                                    "tokenizer.model",   "vocab.json", "vocab.txt"};

std::vector<AddedToken> special_tokens_of(const TrainedBpe& trained) {
  std::vector<AddedToken> tokens;
  for (const std::string& content : trained.special_tokens)
    tokens.push_back({.content = content, .id = static_cast<int32_t>(tokens.size()), .special = true});
  return tokens;
}

OrderedJson model_section(const TrainedBpe& trained) {
  std::vector<std::pair<std::string, int64_t>> tokens;
  tokens.reserve(trained.tokens.size());
  for (const std::string& token : trained.tokens) tokens.emplace_back(token, std::ssize(tokens));
  OrderedJson merges = OrderedJson::array();
  for (const auto& [left, right] : trained.merges)
    merges.push_back(OrderedJson::array(
        {trained.tokens[static_cast<size_t>(left)], trained.tokens[static_cast<size_t>(right)]}));
  return byte_pairs_section(std::move(tokens), std::move(merges), nullptr);
}

// `tokenizer_class`: transformers takes the parts of tokenizer.json as they are only for this class.
OrderedJson config_file(const TrainedBpe& trained, const TokenizerConfig& config) {
  OrderedJson file = {{"clean_up_tokenization_spaces", false},
                      {"tokenizer_class", "PreTrainedTokenizerFast"}};
  const auto set_token = [&](const char* role, const std::string& token) {
    if (token.empty()) return;
    if (std::ranges::find(trained.special_tokens, token) == trained.special_tokens.end())
      throw user_error("[{}] expected one of the special tokens {}, got '{}'", role,
                       fmt::join(trained.special_tokens, ", "), token);
    file[role] = token;
  };
  set_token("bos_token", config.bos_token);
  set_token("eos_token", config.eos_token);
  set_token("unk_token", config.unk_token);
  set_token("pad_token", config.pad_token);
  if (config.model_max_length) file["model_max_length"] = *config.model_max_length;
  return file;
}

}  // namespace

std::string tokenizer_json(const TrainedBpe& trained) {
  const OrderedJson file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_section(special_tokens_of(trained))},
      {"normalizer", trained.nfc ? OrderedJson({{"type", "NFC"}}) : OrderedJson()},
      {"pre_tokenizer", pre_tokenizer_section(find_byte_level_chain(trained.pre_tokenizer))},
      {"post_processor", byte_level_section(false)},
      {"decoder", byte_level_section(true)},
      {"model", model_section(trained)}};
  return format_json(file, {.sort_keys = false, .ensure_ascii = false, .final_newline = false});
}

void save_tokenizer(const fs::path& directory, const TrainedBpe& trained, const TokenizerConfig& config) {
  const std::string config_text = format_json(config_file(trained, config), {.ensure_ascii = false});
  make_directories(directory);
  AtomicFile tokenizer_file(directory / kTokenizerName);
  tokenizer_file.write(tokenizer_json(trained));
  tokenizer_file.seal();
  AtomicFile file(directory / kConfigName);
  file.write(config_text);
  file.commit();
  tokenizer_file.commit();
  for (const char* name : kOtherNames) remove_path(directory / name);
}

std::vector<std::string> tokenizer_files_in(const fs::path& directory) {
  std::vector<std::string> names = {kTokenizerName, kConfigName};
  names.insert(names.end(), kOtherNames.begin(), kOtherNames.end());
  std::erase_if(names, [&](const std::string& name) { return !path_exists(directory / name); });
  return names;
}

}  // namespace shoehorn
