#include "arguments/fsdp_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "arguments/argument_table.h"
#include "arguments/config_value.h"
#include "arguments/setting_match.h"
#include "base/format.h"
#include "base/user_error_kinds.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;

struct Strategy {
  std::string_view name;
  int zero_stage;
  bool is_hybrid = false;
  bool operator==(const Strategy&) const = default;
};

constexpr std::array kStrategies = {Strategy{"full_shard", 3}, Strategy{"shard_grad_op", 2},
                                    Strategy{"no_shard", 0}, Strategy{"hybrid_shard", 3, true},
                                    Strategy{"hybrid_shard_zero2", 2, true}};

constexpr std::string_view kNoOffload = "states and weights stay in the rank's memory";

// Keys of fsdp_config that say how PyTorch does it.
constexpr std::array<std::string_view, 13> kWithoutEffect = {"version",
                                                             "min_num_params",
                                                             "transformer_layer_cls_to_wrap",
                                                             "auto_wrap_policy",
                                                             "state_dict_type",
                                                             "cpu_ram_efficient_loading",
                                                             "forward_prefetch",
                                                             "backward_prefetch",
                                                             "use_orig_params",
                                                             "sync_module_states",
                                                             "limit_all_gathers",
                                                             "mixed_precision_policy",
                                                             "ignored_modules"};
constexpr std::array<std::string_view, 4> kOfXla = {"xla", "xla_fsdp_v2", "xla_fsdp_settings",
                                                    "xla_fsdp_grad_ckpt"};
constexpr std::array<std::string_view, 4> kRead = {"reshard_after_forward", "sharding_strategy",
                                                   "cpu_offload", "activation_checkpointing"};

template <typename Names>
bool is_one_of(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ' || c == ',') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  std::erase(words, "");
  return words;
}

const Strategy* find_strategy(std::string_view name) {
  const auto found = std::find_if(kStrategies.begin(), kStrategies.end(),
                                  [&](const Strategy& one) { return one.name == name; });
  return found == kStrategies.end() ? nullptr : &*found;
}

bool boolean_of(const Json& value, const std::string& place) {
  if (value.is_boolean()) return value.get<bool>();
  const std::optional<bool> flag =
      value.is_string() ? parse_boolean(value.get<std::string>()) : std::optional<bool>();
  if (!flag) throw user_error("[{}] expected true or false, got {}", place, json_line(value));
  return *flag;
}

// What a word or a key of the file asks for.
struct AskedStrategy {
  Strategy strategy;
  std::string key;                  // "--fsdp", or the file's
  std::string place;                // of the error
  std::string value;                // as it is written
  bool leaves_groups_open = false;  // a boolean of FSDP 2, which says the stage alone
};

Strategy strategy_of_boolean(const Json& value, const std::string& place) {
  return boolean_of(value, place) ? kStrategies[0] : kStrategies[1];
}

// What FSDP 2 has as a boolean is a strategy's name in FSDP 1.
AskedStrategy strategy_of_reshard(const Json& value, const std::string& key, const std::string& place) {
  AskedStrategy asked = {.strategy = kStrategies[0], .key = key, .place = place, .value = json_line(value)};
  if (value.is_string()) {
    const std::vector<std::string> words = words_of(value.get<std::string>());
    const Strategy* named = words.size() == 1 ? find_strategy(words[0]) : nullptr;
    if (named != nullptr) {
      asked.strategy = *named;
      return asked;
    }
  }
  asked.strategy = strategy_of_boolean(value, place);
  asked.leaves_groups_open = true;
  return asked;
}

std::vector<AskedStrategy> strategies_in_words(const std::string& text) {
  const std::string place = "--fsdp";
  std::vector<AskedStrategy> asked;
  for (const std::string& word : words_of(text)) {
    if (parse_boolean(word).value_or(false) || word == "auto_wrap") continue;
    if (word == "offload")
      throw not_in_this_version("[{}] expected no offload, got '{}'; known, but not in this version yet: {}",
                                place, word, kNoOffload);
    if (const Strategy* strategy = find_strategy(word)) {
      asked.push_back({.strategy = *strategy, .key = place, .place = place, .value = word});
      continue;
    }
    std::vector<std::string> known = {"true", "auto_wrap", "offload"};
    for (const Strategy& strategy : kStrategies) known.emplace_back(strategy.name);
    throw user_error("[{}] expected true or words of {}, got '{}'{}", place, fmt::join(known, ", "), word,
                     did_you_mean(nearest_name(word, known)));
  }
  return asked;
}

// The one that all ask for; words of FSDP 1 stand for a strategy that the file may say too. UserError where two differ.
const AskedStrategy& common_strategy(const std::vector<AskedStrategy>& asked) {
  const auto named =
      std::ranges::find_if(asked, [](const AskedStrategy& one) { return !one.leaves_groups_open; });
  const AskedStrategy& common = named == asked.end() ? asked.front() : *named;
  for (const AskedStrategy& other : asked) {
    const bool is_same = other.leaves_groups_open ? other.strategy.zero_stage == common.strategy.zero_stage
                                                  : other.strategy == common.strategy;
    if (is_same) continue;
    throw user_error("[{}] expected what {} {} says, got {}; give one of both", other.place, common.key,
                     common.value, other.value);
  }
  return common;
}

}  // namespace

FsdpConfig read_fsdp_config(const std::string& words, const Json& object, const std::string& source) {
  if (!object.is_object())
    throw user_error("[{}] expected a JSON object, got {}", source, object.type_name());
  FsdpConfig config;
  config.source = source;
  std::vector<AskedStrategy> asked = strategies_in_words(words);
  for (const auto& [name, value] : object.items()) {
    const std::string key = name.starts_with("fsdp_") ? name.substr(5) : name;
    const std::string place = fmt::format("{}: {}", source, name);
    if (is_one_of(kWithoutEffect, key)) {
      if (!asks_for_nothing(value)) config.without_effect.push_back(name);
    } else if (is_one_of(kOfXla, key)) {
      if (asks_for_nothing(value)) continue;
      throw user_error("[{}] expected false, got {}; known, but refused: there is no XLA backend", place,
                       json_line(value));
    } else if (key == "cpu_offload") {
      if (asks_for_nothing(value) || !boolean_of(value, place)) continue;
      throw not_in_this_version("[{}] expected false, got {}; known, but not in this version yet: {}", place,
                                json_line(value), kNoOffload);
    } else if (key == "activation_checkpointing") {
      config.activation_checkpointing = !value.is_null() && boolean_of(value, place);
    } else if (is_one_of(kRead, key)) {
      if (!value.is_null()) asked.push_back(strategy_of_reshard(value, name, place));
    } else {
      std::vector<std::string> known(kRead.begin(), kRead.end());
      known.insert(known.end(), kWithoutEffect.begin(), kWithoutEffect.end());
      throw user_error("[{}] expected a key of fsdp_config, got '{}'{}", place, name,
                       did_you_mean(nearest_name(key, known)));
    }
  }
  if (asked.empty()) return config;
  const AskedStrategy& strategy = common_strategy(asked);
  config.zero_stage = strategy.strategy.zero_stage;
  config.is_hybrid = strategy.strategy.is_hybrid;
  config.stage_key = strategy.key;
  return config;
}

NeighbourSettings apply_fsdp_config(const FsdpConfig& config, TrainingArguments& args,
                                    const IsGiven& is_given) {
  NeighbourSettings settings;
  SettingMatch match(config.source, args, is_given);
  match.set(config.stage_key, "zero_stage", config.zero_stage);
  if (config.is_hybrid && !match.is_given("zero_group_size"))
    match.set(config.stage_key, "zero_group_size", 0);
  if (config.activation_checkpointing) match.set("activation_checkpointing", "gradient_checkpointing", true);
  settings.flags = match.finish();
  match.add_notice_of(config.without_effect, settings.notices);
  return settings;
}

}  // namespace shoehorn
