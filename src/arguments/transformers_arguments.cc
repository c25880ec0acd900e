#include "arguments/transformers_arguments.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "arguments/argument_table.h"
#include "arguments/config_value.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;

// Defaults of nested options and of fields that older versions had.
bool is_known_default(std::string_view key, const Json& value) {
  struct Default {
    std::string_view key;
    Json value;
  };
  static const std::array kDefaults = {Default{"logging_nan_inf_filter", true},
                                       Default{"even_batches", true},
                                       Default{"use_seedable_sampler", true},
                                       Default{"past_index", -1},
                                       Default{"local_rank", 0},  // of a run without ranks, once it began
                                       Default{"ray_scope", "last"},
                                       Default{"_n_gpu", 1}};
  return std::any_of(kDefaults.begin(), kDefaults.end(),
                     [&](const Default& one) { return one.key == key && one.value == value; });
}

bool is_masked(const Json& value) {
  return value.is_string() && value.get<std::string>().starts_with("<");
}

// Fields that are off by default there; here false is a request.
bool is_no_request_if_false(std::string_view key) {
  static constexpr std::array<std::string_view, 5> kKeys = {
      "do_train", "do_eval", "do_predict", "enable_jit_checkpoint", "average_tokens_across_devices"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end();
}

void drop_nested_defaults(Json& value) {
  for (auto item = value.begin(); item != value.end();) {
    const bool is_default = asks_for_nothing(item.value()) || is_known_default(item.key(), item.value());
    item = is_default ? value.erase(item) : std::next(item);
  }
}

}  // namespace

bool is_transformers_arguments(const Json& object) {
  static constexpr std::array kOnlyThere = {"hub_token", "push_to_hub", "logging_nan_inf_filter"};
  return object.is_object() && std::all_of(kOnlyThere.begin(), kOnlyThere.end(),
                                           [&](const char* key) { return object.contains(key); });
}

Json without_transformers_defaults(Json object) {
  for (auto item = object.begin(); item != object.end();) {
    Json& value = item.value();
    if (value.is_object() && (item.key() == "accelerator_config" || item.key() == "fsdp_config"))
      drop_nested_defaults(value);
    const bool is_nothing = value.is_null() || (value.is_object() && value.empty()) || is_masked(value) ||
                            is_known_default(item.key(), value) ||
                            (value == false && is_no_request_if_false(item.key())) ||
                            (find_argument(item.key()) == nullptr && asks_for_nothing(value));
    item = is_nothing ? object.erase(item) : std::next(item);
  }
  return object;
}

}  // namespace shoehorn
