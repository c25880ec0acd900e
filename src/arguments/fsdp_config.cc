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

// What FSDP 2 has as a boolean is a strategy's name in FSDP 1.
Strategy strategy_of_reshard(const Json& value, const std::string& place) {
  if (value.is_string()) {
    const std::vector<std::string> words = words_of(value.get<std::string>());
    if (words.size() == 1) {
      if (const Strategy* strategy = find_strategy(words[0])) return *strategy;
    }
  }
  return boolean_of(value, place) ? kStrategies[0] : kStrategies[1];
}

void set_strategy(const Strategy& strategy, const std::string& key, FsdpConfig& config) {
  config.zero_stage = strategy.zero_stage;
  config.is_hybrid = strategy.is_hybrid;
  config.stage_key = key;
}

void read_words(const std::string& text, FsdpConfig& config) {
  const std::string place = "--fsdp";
  for (const std::string& word : words_of(text)) {
    if (parse_boolean(word).value_or(false) || word == "auto_wrap") continue;
    if (word == "offload")
      throw not_in_this_version("[{}] expected no offload, got '{}'; known, but not in this version yet: {}",
                                place, word, kNoOffload);
    if (const Strategy* strategy = find_strategy(word)) {
      set_strategy(*strategy, place, config);
      continue;
    }
    std::vector<std::string> known = {"true", "auto_wrap", "offload"};
    for (const Strategy& strategy : kStrategies) known.emplace_back(strategy.name);
    throw user_error("[{}] expected true or words of {}, got '{}'{}", place, fmt::join(known, ", "), word,
                     did_you_mean(nearest_name(word, known)));
  }
}

}  // namespace

FsdpConfig read_fsdp_config(const std::string& words, const Json& object, const std::string& source) {
  if (!object.is_object())
    throw user_error("[{}] expected a JSON object, got {}", source, object.type_name());
  FsdpConfig config;
  config.source = source;
  std::optional<Strategy> of_file;
  std::string key_in_file;
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
      if (value.is_null()) continue;
      of_file = strategy_of_reshard(value, place);
      key_in_file = name;
    } else {
      std::vector<std::string> known(kRead.begin(), kRead.end());
      known.insert(known.end(), kWithoutEffect.begin(), kWithoutEffect.end());
      throw user_error("[{}] expected a key of fsdp_config, got '{}'{}", place, name,
                       did_you_mean(nearest_name(key, known)));
    }
  }
  if (of_file) set_strategy(*of_file, key_in_file, config);
  // Words of FSDP 1 stand for a strategy that the file may say too.
  FsdpConfig of_words;
  of_words.zero_stage = -1;
  read_words(words, of_words);
  if (of_words.zero_stage < 0) return config;
  if (of_file && of_file->zero_stage != of_words.zero_stage) {
    throw user_error("[{}: {}] expected what --fsdp {} says, stage {}, got stage {}; give one of both",
                     source, key_in_file, words, of_words.zero_stage, of_file->zero_stage);
  }
  config.zero_stage = of_words.zero_stage;
  config.is_hybrid = config.is_hybrid || of_words.is_hybrid;
  config.stage_key = "--fsdp";
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
