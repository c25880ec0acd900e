#include "state/resume_changes.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "state/adapter_config.h"
#include "state/checkpoint_record.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using enum ResumeRole;

std::string join(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Names of one thing are one value.
ArgumentValue compared_value(const ArgumentSpec& spec, const TrainingArguments& args) {
  if (spec.name == "optim") return std::string(optimizer_name(args));
  return argument_value(spec, args);
}

// The same samples in each step, in micro-batches of another size, or on another number of ranks: only the rounding of sums
// differs. If incomplete micro-batches are dropped, their size determines which samples are left out.
bool cuts_steps_alike(const TrainingArguments& before, const TrainingArguments& now) {
  const bool drops = before.dataloader_drop_last || now.dataloader_drop_last;
  return effective_batch_size(before) == effective_batch_size(now) &&
         (!drops || before.per_device_train_batch_size == now.per_device_train_batch_size);
}

ResumeRole role_of(const ArgumentSpec& spec, const TrainingArguments& before, const TrainingArguments& now,
                   bool has_same_tokens) {
  constexpr std::array<std::string_view, 4> kCuts = {
      "per_device_train_batch_size", "gradient_accumulation_steps", "effective_batch_size", "world_size"};
  const bool is_cut = std::ranges::find(kCuts, spec.name) != kCuts.end();
  // Each rank has an optimizer of its own.
  if (spec.name == "world_size" && before.local_sgd_steps > 0 && now.local_sgd_steps > 0) return kState;
  if (is_cut && cuts_steps_alike(before, now)) return kFree;
  if (spec.resume == kTokens) return has_same_tokens ? kFree : kSamples;
  return spec.resume;
}

void compare_arguments(const json& recorded, const std::string& source, const TrainingArguments& now,
                       bool has_same_tokens, ResumeChanges& changes) {
  if (!recorded.is_object())
    throw user_error("[{}] expected a JSON object of flags, got {}", source, recorded.type_name());
  TrainingArguments before;
  std::vector<const ArgumentSpec*> compared;
  for (const ArgumentSpec& spec : argument_table()) {
    if (spec.resume == kUnclassed || spec.resume == kIrrelevant) continue;
    const auto found = recorded.find(std::string(spec.name));
    if (found == recorded.end()) {
      changes.unrecorded.push_back(fmt::format("--{}", spec.name));
      continue;
    }
    set_argument(spec, argument_from_json(spec, *found, fmt::format("{}: {}", source, spec.name)), before);
    compared.push_back(&spec);
  }
  for (const ArgumentSpec* spec : compared) {
    const ArgumentValue was = compared_value(*spec, before);
    const ArgumentValue is = compared_value(*spec, now);
    if (was == is) continue;
    changes.list.push_back({fmt::format("--{}", spec->name), argument_to_text(was), argument_to_text(is),
                            role_of(*spec, before, now, has_same_tokens)});
  }
  if (before.world_size != now.world_size && effective_batch_size(before) != effective_batch_size(now))
    changes.batch_before = effective_batch_size(before);
  // A run that had no metric for its best model has no best one.
  changes.forgets_best =
      !before.metric_for_best_model.empty() && (before.metric_for_best_model != now.metric_for_best_model ||
                                                before.greater_is_better != now.greater_is_better);
}

// What a config.json says of the file itself and not of the model; label2id mirrors id2label.
constexpr std::array<std::string_view, 5> kBookkeepingKeys = {"dtype", "torch_dtype", "transformers_version",
                                                              "_name_or_path", "label2id"};

void compare_model(const fs::path& checkpoint, const Model& model, ResumeChanges& changes) {
  const std::string text = model.config_json();
  fs::path file = checkpoint / kAdapterModelConfigName;
  if (!path_exists(file)) file = checkpoint / "config.json";
  if (text.empty() || !path_exists(file)) return;
  const json before = read_json(file);
  const json now = parse_json(text, "config.json");
  if (!before.is_object()) throw user_error("[{}] expected an object, got {}", file.string(), before.dump());
  std::vector<std::string> keys;
  for (const json* config : {&before, &now}) {
    for (const auto& [key, value] : config->items()) {
      const bool is_bookkeeping =
          std::find(kBookkeepingKeys.begin(), kBookkeepingKeys.end(), key) != kBookkeepingKeys.end();
      if (!is_bookkeeping && std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    const json was = before.value(key, json());
    const json is = now.value(key, json());
    if (was != is)
      changes.list.push_back({fmt::format("config.json: {}", key), was.dump(), is.dump(), kNumerics});
  }
}

std::string data_text(int64_t samples, const std::string& content) {
  // 8 digits tell two files apart to people; all 32 were compared.
  return content.empty() ? fmt::format("{} samples", samples)
                         : fmt::format("{} samples of content {}", samples, content.substr(0, 8));
}

void compare_identity(const RunIdentity& before, const RunIdentity& now, ResumeChanges& changes) {
  const bool has_content = !before.training_data.empty();
  if (!has_content) changes.unrecorded.emplace_back("the content of the training data");
  if (before.training_samples > 0 && (before.training_samples != now.training_samples ||
                                      (has_content && before.training_data != now.training_data))) {
    changes.list.push_back({"training data", data_text(before.training_samples, before.training_data),
                            data_text(now.training_samples, has_content ? now.training_data : ""), kSamples});
  }
  if (!before.evaluation_data.empty() && !now.evaluation_data.empty() &&
      before.evaluation_data != now.evaluation_data) {
    changes.list.push_back(
        {"evaluation data", before.evaluation_data.substr(0, 8), now.evaluation_data.substr(0, 8), kFree});
    changes.forgets_best = true;
  }
  // Where the training data are the same tokens, other files of the tokenizer are no other run.
  for (const auto& [name, content] : now.companions) {
    const auto found = before.companions.find(name);
    if (found == before.companions.end() || found->second == content) continue;
    changes.list.push_back({name, found->second.substr(0, 8), content.substr(0, 8), kFree});
  }
  if (!before.base_weights.empty() && before.base_weights != now.base_weights) {
    changes.list.push_back({"weights of the base model", before.base_weights.substr(0, 8),
                            now.base_weights.empty() ? "none" : now.base_weights.substr(0, 8), kNumerics});
  }
  if (!before.machine.empty() && before.machine != now.machine)
    changes.list.push_back({"machine, whose products round differently", before.machine, now.machine, kFree});
}

bool has_role(const ResumeChanges& changes, ResumeRole role) {
  return std::any_of(changes.list.begin(), changes.list.end(),
                     [role](const ResumeChange& change) { return change.role == role; });
}

std::string change_text(const ResumeChange& change) {
  return fmt::format("{} {} → {}", change.what, change.before, change.now);
}

std::string texts_of(const ResumeChanges& changes, ResumeRole role) {
  std::vector<std::string> texts;
  for (const ResumeChange& change : changes.list) {
    if (change.role == role) texts.push_back(change_text(change));
  }
  return join(texts);
}

}  // namespace

ResumeChanges compare_with_checkpoint(const fs::path& checkpoint, const ResumingRun& run) {
  const CheckpointRecord before = read_checkpoint_record(checkpoint);
  const RunIdentity& identity = before.state.identity;
  const bool has_same_tokens = identity.training_data.empty()
                                   ? identity.training_samples == run.identity.training_samples
                                   : identity.training_data == run.identity.training_data;
  ResumeChanges changes;
  compare_arguments(before.arguments, (checkpoint / kArgumentsFile).string(), run.arguments, has_same_tokens,
                    changes);
  compare_identity(identity, run.identity, changes);
  compare_model(checkpoint, run.model, changes);
  // What no other record tells: an older checkpoint, of a data set whose size it does not say.
  const int64_t samples =
      run.schedule.samples_before(before.global_step + before.state.position.skipped_in_epochs);
  const int64_t consumed = before.state.position.samples_consumed;
  if (samples != consumed && !has_role(changes, kSamples)) {
    changes.list.push_back({fmt::format("samples consumed by step {}", before.global_step),
                            std::to_string(consumed), std::to_string(samples), kSamples});
  }
  return changes;
}

void check_resume_changes(const fs::path& checkpoint, const ResumeChanges& changes, bool allow_resume_changes,
                          const std::function<void(const std::string& line)>& on_line) {
  const auto say = [&on_line](const std::string& line) {
    if (on_line) on_line(line);
  };
  struct Kind {
    ResumeRole role;
    std::string_view name;
    bool is_permitted;
  };
  const std::array kinds = {Kind{kState, "other states", false},
                            Kind{kSamples, "other samples", allow_resume_changes},
                            Kind{kNumerics, "other numerics", allow_resume_changes}};
  std::vector<std::string> refused;
  for (const Kind& kind : kinds) {
    if (!kind.is_permitted && has_role(changes, kind.role))
      refused.push_back(fmt::format("{}: {}", kind.name, texts_of(changes, kind.role)));
  }
  if (!refused.empty()) {
    throw user_error(
        "[--resume_from_checkpoint {}] expected the run that was interrupted, got {}; {}{}",
        checkpoint.string(), fmt::join(refused, "; "),
        changes.batch_before && !has_role(changes, kState)
            ? fmt::format("--effective_batch_size {} gives its batch, and ", *changes.batch_before)
            : "",
        has_role(changes, kState)
            ? "the checkpoint has no such states: train without --resume_from_checkpoint"
            : "--allow_resume_changes goes on from its weights and states all the same");
  }
  const std::string name = checkpoint.filename().empty() ? checkpoint.parent_path().filename().string()
                                                         : checkpoint.filename().string();
  for (const ResumeChange& change : changes.list)
    say(fmt::format("changed since {}: {}", name, change_text(change)));
  if (has_role(changes, kSamples))
    say(fmt::format("samples go on where the changed run is after as many steps as {}", name));
  if (!changes.unrecorded.empty())
    say(fmt::format("{} is older and does not say, so that it was not compared: {}", name,
                    join(changes.unrecorded)));
}

}  // namespace shoehorn
