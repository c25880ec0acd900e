#include "arguments/deepspeed_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "arguments/config_value.h"
#include "arguments/setting_match.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/user_error_kinds.h"

namespace shoehorn {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kParams = "optimizer.params.";
constexpr std::string_view kScheduleParams = "scheduler.params.";

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// One of DeepSpeed's optimizers or schedules, in lower case: names there are of any case.
struct TypeRow {
  std::string_view type;
  const char* value;                          // of the argument that says the same; null: not here
  std::vector<std::string_view> params = {};  // of an optimizer, beside lr and weight_decay
};

const std::vector<TypeRow>& optimizer_rows() {
  static const std::vector<TypeRow> rows = {
      {"adamw", "adamw_torch_fused", {"betas", "eps", "adam_w_mode"}},
      {"adam", "adamw_torch_fused", {"betas", "eps", "adam_w_mode"}},
      {"lion", "lion_32bit", {"betas"}},
      {"sgd", "sgd", {"momentum", "nesterov"}},
      {"adagrad", "adagrad", {"eps", "lr_decay"}},
      {"rmsprop", "rmsprop", {"eps", "alpha", "momentum", "centered"}},
      {"lamb", nullptr},
      {"onebitadam", nullptr},
      {"zerooneadam", nullptr},
      {"onebitlamb", nullptr},
      {"muadam", nullptr},
      {"muadamw", nullptr},
      {"musgd", nullptr},
      {"muon", nullptr},
  };
  return rows;
}

const std::vector<TypeRow>& schedule_rows() {
  static const std::vector<TypeRow> rows = {{"warmuplr", "constant_with_warmup"},
                                            {"warmupdecaylr", "linear"},
                                            {"warmupcosinelr", "cosine_with_min_lr"},
                                            {"lrrangetest", nullptr},
                                            {"onecycle", nullptr}};
  return rows;
}

// DeepSpeed's cosine ends at this share of the largest rate.
constexpr double kStandardCosMinRatio = 1e-4;

// The row of a type. UserError for a name that is unknown or not here.
const TypeRow& row_of(const std::vector<TypeRow>& rows, std::string_view key, std::string_view type,
                      const char* instead) {
  std::vector<std::string> here;
  for (const TypeRow& row : rows) {
    if (row.value != nullptr) here.emplace_back(row.type);
  }
  const std::string name = lower(std::string(type));
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const TypeRow& row) { return row.type == name; });
  if (found == rows.end()) {
    throw user_error("[{}] expected one of {}, got '{}'{}; {}", key, fmt::join(here, ", "), type,
                     did_you_mean(nearest_name(name, here)), instead);
  }
  if (found->value == nullptr) {
    throw not_in_this_version("[{}] expected one of {}, got '{}'; known, but not in this version yet; {}",
                              key, fmt::join(here, ", "), type, instead);
  }
  return *found;
}

const TypeRow& optimizer_row(std::string_view key, std::string_view type) {
  return row_of(optimizer_rows(), key, type, "leave the optimizer out of the file for one of --optim");
}

const TypeRow& schedule_row(std::string_view key, std::string_view type) {
  return row_of(schedule_rows(), key, type,
                "leave the scheduler out of the file for one of --lr_scheduler_type");
}

// A type that is not here is refused for itself, and not for params that no type here has.
void check_types(const Json& object, const std::string& source) {
  for (const auto& [section, row] : {std::pair{"optimizer", &optimizer_row}, {"scheduler", &schedule_row}}) {
    const Json::json_pointer type(fmt::format("/{}/type", section));
    if (object.contains(type) && object[type].is_string() && object[type] != "auto")
      row(fmt::format("{}: {}.type", source, section), object[type].get<std::string>());
  }
}

class Applier {
 public:
  Applier(const DeepspeedConfig& config, TrainingArguments& args, const IsGiven& is_given)
      : config_(config), args_(args), match_(config.source, args, is_given) {}

  NeighbourSettings apply() {
    set_batch();
    set_precision();
    set_from("gradient_clipping", "max_grad_norm");
    set_from("dataloader_drop_last", "dataloader_drop_last");
    set_optimizer();
    set_schedule();
    set_zero();
    settings_.flags = match_.finish();
    match_.add_notice_of(config_.keys.without_effect, settings_.notices);
    return std::move(settings_);
  }

 private:
  std::string place(std::string_view key) const { return fmt::format("{}: {}", config_.source, key); }

  const Json* find(std::string_view key) const {
    const auto found = config_.keys.values.find(std::string(key));
    return found == config_.keys.values.end() ? nullptr : &found->second;
  }

  UserError wrong(std::string_view key, std::string_view expected) const {
    return user_error("[{}] expected {}, got {}", place(key), expected, json_line(*find(key)));
  }

  std::optional<double> number(std::string_view key, double least = 0) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const std::string expected = fmt::format("a number of {} or more, or \"auto\"", least);
    if (!value->is_number()) throw wrong(key, expected);
    const auto found = value->get<double>();
    if (!std::isfinite(found) || found < least) throw wrong(key, expected);
    return found;
  }

  // Of numbers as 5e8 too.
  std::optional<int64_t> whole(std::string_view key, int64_t least) const {
    const std::optional<double> value = number(key);
    if (!value) return std::nullopt;
    constexpr double kMost = 0x1p53;  // integers of a double are exact up to there
    if (*value < static_cast<double>(least) || *value > kMost || *value != std::floor(*value))
      throw wrong(key, fmt::format("an integer of {} or more, or \"auto\"", least));
    return static_cast<int64_t>(*value);
  }

  std::optional<bool> flag(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) throw wrong(key, "true, false or \"auto\"");
    return value->get<bool>();
  }

  std::optional<std::string> text(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) throw wrong(key, "a text");
    return value->get<std::string>();
  }

  bool has_section(std::string_view prefix) const {
    return std::any_of(config_.keys.values.begin(), config_.keys.values.end(),
                       [&](const auto& entry) { return entry.first.starts_with(prefix); });
  }

  void set_from(const std::string& key, const char* argument) {
    if (const Json* value = find(key)) match_.set(key, argument, *value);
  }

  // The micro-batch and the number of them, as given or as they follow from train_batch_size.
  void set_batch() {
    const auto micro = whole("train_micro_batch_size_per_gpu", 1);
    const auto steps = whole("gradient_accumulation_steps", 1);
    const auto all = whole("train_batch_size", 1);
    const bool finds = args_.auto_find_batch_size;
    if (micro && !finds) match_.set("train_micro_batch_size_per_gpu", "per_device_train_batch_size", *micro);
    if (steps) match_.set("gradient_accumulation_steps", "gradient_accumulation_steps", *steps);
    if (!all || finds) return;
    const bool has_micro = micro || match_.is_given("per_device_train_batch_size");
    const bool has_steps = steps || match_.is_given("gradient_accumulation_steps");
    if (!has_steps && has_micro) {
      derive(*all, args_.per_device_train_batch_size, "gradient_accumulation_steps");
    } else if (!has_micro) {
      derive(*all, args_.gradient_accumulation_steps, "per_device_train_batch_size");
    }
    const int64_t product = effective_batch_size(args_);
    if (product == *all) return;
    std::string line =
        fmt::format("train_batch_size is {}, but {} {} x gradient_accumulation_steps {} x {} is {}", *all,
                    micro ? "train_micro_batch_size_per_gpu" : "per_device_train_batch_size",
                    args_.per_device_train_batch_size, args_.gradient_accumulation_steps,
                    plural(args_.world_size, "rank"), product);
    const bool is_with_flag = (!micro && match_.is_given("per_device_train_batch_size")) ||
                              (!steps && match_.is_given("gradient_accumulation_steps"));
    if (is_with_flag) {
      match_.add_mismatch_with_flag(std::move(line));
    } else {
      match_.add_contradiction(std::move(line));
    }
  }

  // What `argument` has to be for a batch of `all` samples. What does not divide is a mismatch, which set_batch() names.
  void derive(int64_t all, int64_t other, const char* argument) {
    const int64_t rest = other * args_.world_size;
    if (all % rest == 0) match_.set("train_batch_size", argument, all / rest);
  }

  void set_precision() {
    for (const char* key : {"bf16.enabled", "bfloat16.enabled"}) {
      if (const auto enabled = flag(key)) match_.set(key, "bf16", *enabled);
    }
    if (const auto enabled = flag("fp16.enabled")) match_.set("fp16.enabled", "fp16", *enabled);
    if (!args_.fp16 || !has_section("fp16.")) return;
    struct Scale {
      const char* name;
      double standard;
    };
    for (const auto& [name, standard] :
         {Scale{"loss_scale", 0}, Scale{"initial_scale_power", 16}, Scale{"loss_scale_window", 1000},
          Scale{"hysteresis", 2}, Scale{"min_loss_scale", 1}}) {
      const std::string key = fmt::format("fp16.{}", name);
      const auto value = number(key);
      if (!value && match_.is_given(name)) continue;
      const double meant = value.value_or(standard);
      match_.set(
          key, name,
          meant == std::floor(meant) && meant < 1e15 ? Json(static_cast<int64_t>(meant)) : Json(meant));
    }
  }

  void set_optimizer() {
    const std::optional<std::string> type = text("optimizer.type");
    if (!type) {
      if (has_section("optimizer."))
        throw user_error("[{}] expected the optimizer that the params are of, got nothing",
                         place("optimizer.type"));
      return;
    }
    const TypeRow& row = optimizer_row(place("optimizer.type"), *type);
    for (const auto& [key, value] : config_.keys.values) {
      if (!key.starts_with(kParams)) continue;
      const std::string param = key.substr(kParams.size());
      if (param == "lr" || param == "weight_decay" ||
          std::find(row.params.begin(), row.params.end(), param) != row.params.end())
        continue;
      throw user_error("[{}] expected lr, weight_decay, {} for {}, got '{}'", place(key),
                       fmt::join(row.params, ", "), *type, param);
    }
    match_.set("optimizer.type", "optim", row.value);
    set_from("optimizer.params.lr", "learning_rate");
    set_from("optimizer.params.weight_decay", "weight_decay");
    set_betas();
    if (!flag("optimizer.params.adam_w_mode").value_or(true) && args_.weight_decay != 0) {
      throw user_error(
          "[{}] expected true, got false with weight_decay {}; known, but refused: decay is AdamW's, apart from the "
          "gradient",
          place("optimizer.params.adam_w_mode"), args_.weight_decay);
    }
    if (optimizer_name(args_) == "adamw") {
      set_from("optimizer.params.eps", "adam_epsilon");
      return;
    }
    Json kwargs = Json::object();
    for (const char* param : {"momentum", "nesterov", "eps", "lr_decay", "alpha", "centered"}) {
      if (const Json* value = find(fmt::format("{}{}", kParams, param))) kwargs[param] = *value;
    }
    if (!kwargs.empty()) match_.set("optimizer.params", "optim_args", kwargs);
  }

  void set_betas() {
    constexpr std::string_view kBetas = "optimizer.params.betas";
    const Json* betas = find(kBetas);
    if (betas == nullptr) return;
    if (!betas->is_array() || betas->size() != 2 || !(*betas)[0].is_number() || !(*betas)[1].is_number())
      throw wrong(kBetas, "two numbers, or \"auto\"");
    match_.set(std::string(kBetas), "adam_beta1", (*betas)[0]);
    match_.set(std::string(kBetas), "adam_beta2", (*betas)[1]);
  }

  void set_schedule() {
    const std::optional<std::string> type = text("scheduler.type");
    if (!type) {
      if (has_section("scheduler."))
        throw user_error("[{}] expected the schedule that the params are of, got nothing",
                         place("scheduler.type"));
      return;
    }
    const TypeRow& row = schedule_row(place("scheduler.type"), *type);
    const bool is_cosine = row.type == "warmupcosinelr";
    const auto only_of = [&](std::string_view param, bool belongs) {
      const std::string key = fmt::format("{}{}", kScheduleParams, param);
      if (find(key) != nullptr && !belongs)
        throw user_error("[{}] expected a key of {}, got '{}'", place(key), *type, param);
    };
    only_of("cos_min_ratio", is_cosine);
    only_of("total_num_steps", row.type != "warmuplr");
    match_.set("scheduler.type", "lr_scheduler_type", row.value);
    set_from("scheduler.params.warmup_max_lr", "learning_rate");
    set_warmup_steps();
    set_total_steps();
    const std::string shape = text("scheduler.params.warmup_type").value_or("log");
    if (shape != "log" && shape != "linear") throw wrong("scheduler.params.warmup_type", "log or linear");
    Json kwargs = Json::object();
    if (shape == "log") kwargs["warmup_type"] = shape;
    if (is_cosine)
      kwargs["min_lr_rate"] = number("scheduler.params.cos_min_ratio").value_or(kStandardCosMinRatio);
    if (!kwargs.empty()) match_.set("scheduler.params", "lr_scheduler_kwargs", kwargs);
  }

  void set_warmup_steps() {
    const std::string key = "scheduler.params.warmup_num_steps";
    if (find(key) != nullptr && match_.is_given("warmup_ratio")) {
      match_.add_mismatch_with_flag(fmt::format("{} is {}, but --warmup_ratio is {}", key,
                                                whole(key, 0).value_or(0), args_.warmup_ratio));
      return;
    }
    set_from(key, "warmup_steps");
  }

  // The schedule ends where the training does.
  void set_total_steps() {
    const std::string key = "scheduler.params.total_num_steps";
    const auto steps = whole(key, 1);
    if (!steps) return;
    if (match_.is_given("num_train_epochs") && !match_.is_given("max_steps")) {
      match_.add_mismatch_with_flag(fmt::format(
          "{} is {}, but --num_train_epochs says how long it trains; \"auto\" is what follows from it", key,
          *steps));
      return;
    }
    match_.set(key, "max_steps", *steps);
  }

  void set_zero() {
    if (const auto is_on = flag("zero_optimization")) {
      match_.set("zero_optimization", "zero_stage", *is_on ? 1 : 0);
      return;
    }
    if (const auto stage = whole("zero_optimization.stage", 0)) {
      if (*stage > 3) throw wrong("zero_optimization.stage", "0, 1, 2 or 3");
      match_.set("zero_optimization.stage", "zero_stage", *stage);
    }
    const std::string threshold = "zero_optimization.stage3_param_persistence_threshold";
    if (const auto elements = whole(threshold, 0))
      match_.set(threshold, "zero_persistence_threshold", *elements);
    set_group();
    set_bucket();
  }

  void set_group() {
    const std::string key = "zero_optimization.mics_shard_size";
    const std::optional<double> ranks = number(key, -1);
    if (!ranks || *ranks == -1) return;
    if (*ranks < 1) throw wrong(key, "as many ranks as share, or -1: all do");
    match_.set(key, "zero_group_size", *whole(key, 1));
  }

  // DeepSpeed counts elements, which are fp32 in a sum.
  void set_bucket() {
    const std::string key = "zero_optimization.reduce_bucket_size";
    const auto elements = whole(key, 0);
    if (!elements || match_.is_given("ddp_bucket_cap_mb")) return;
    constexpr int64_t kElementsInMebibyte = int64_t{1} << 18;
    constexpr int64_t kMostMebibytes = 1024;
    const int64_t mebibytes = std::clamp<int64_t>(*elements / kElementsInMebibyte, 1, kMostMebibytes);
    match_.set(key, "ddp_bucket_cap_mb", mebibytes);
    settings_.notices.push_back(fmt::format("{}: {} {} elements is --ddp_bucket_cap_mb {}", config_.source,
                                            key, format_count(*elements), mebibytes));
  }

  const DeepspeedConfig& config_;
  TrainingArguments& args_;
  SettingMatch match_;
  NeighbourSettings settings_;
};

}  // namespace

DeepspeedConfig read_deepspeed_config(const Json& object, const std::string& source) {
  check_types(object, source);
  return {source, sort_deepspeed_keys(object, source)};
}

NeighbourSettings apply_deepspeed_config(const DeepspeedConfig& config, TrainingArguments& args,
                                         const IsGiven& is_given) {
  return Applier(config, args, is_given).apply();
}

}  // namespace shoehorn
