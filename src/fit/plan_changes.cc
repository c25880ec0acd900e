#include "fit/plan_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "arguments/step_settings.h"
#include "base/error.h"
#include "base/format.h"
#include "base/rounding.h"

namespace shoehorn {

namespace {

constexpr std::array<std::string_view, kDegrees> kDegreeNames = {
    "batch",     "order",    "recompute", "update_in_backward", "precision", "masters",
    "optimizer", "adapters", "sharing",   "gathering",          "evaluation"};
constexpr std::array<std::string_view, 4> kTierNames = {"exact", "rounding", "numerics", "adapters"};

constexpr std::string_view kLayerMajor = "layer_major";

template <size_t N>
size_t index_of(const std::array<std::string_view, N>& names, const std::string& name,
                std::string_view what) {
  const auto* found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw user_error("[{}] expected one of {}, got '{}'{}", what, fmt::join(names, ", "), name,
                     did_you_mean(nearest_name(name, {names.begin(), names.end()})));
  return static_cast<size_t>(found - names.begin());
}

// The run, whose arguments are changed already, with the flags that say so; one without a value is followed by another
// flag.
FitCandidate changed(FitCandidate run, MathsChange change, const std::vector<std::string>& flags) {
  run.tier = std::max(run.tier, change);
  run.changes.insert(change);
  for (const std::string& word : flags) {
    const auto old = std::find(run.flags.begin(), run.flags.end(), word);
    const bool is_flag = word.starts_with("--");
    if (is_flag && old != run.flags.end()) run.flags.erase(old, old + 2);  // its value changes
  }
  run.flags.insert(run.flags.end(), flags.begin(), flags.end());
  return run;
}

bool scales_loss(const TrainingArguments& args) {
  return args.fp16;
}

bool recomputes(const TrainingArguments& args) {
  return args.gradient_checkpointing || !args.activation_budget.empty() || !args.recompute_set.empty();
}

bool is_layer_major(const TrainingArguments& args) {
  return args.accumulation_order == kLayerMajor;
}

FitCandidate gathering_as(FitCandidate run, const Gathering& gathering) {
  run.arguments.zero_prefetch_layers = gathering.prefetch_layers;
  run.arguments.zero_persistence_threshold = gathering.persistence_threshold;
  return changed(std::move(run), MathsChange::kExact,
                 {"--zero_prefetch_layers", std::to_string(gathering.prefetch_layers),
                  "--zero_persistence_threshold", std::to_string(gathering.persistence_threshold)});
}

// Besides the standard: with less memory, and where that is known to pay with more.
std::vector<Gathering> other_gatherings(const FitSpace& space) {
  const Gathering standard;
  std::vector<Gathering> others = {{0, standard.persistence_threshold}, kLeastGathering};
  if (space.knows_link) {
    others.push_back({standard.prefetch_layers + 1, standard.persistence_threshold});
    others.push_back({standard.prefetch_layers, kMostPersistenceThreshold});
  }
  return others;
}

}  // namespace

std::string_view degree_name(Degree degree) {
  return kDegreeNames[static_cast<size_t>(degree)];
}

Degree degree_of(const std::string& name, std::string_view what) {
  return static_cast<Degree>(index_of(kDegreeNames, name, what));
}

std::string_view tier_name(MathsChange tier) {
  return kTierNames[static_cast<size_t>(tier)];
}

MathsChange tier_of(const std::string& name, std::string_view what) {
  return static_cast<MathsChange>(index_of(kTierNames, name, what));
}

std::vector<SmallerOptimizer> smaller_optimizers(const OptimizerSettings& asked) {
  std::vector<SmallerOptimizer> smaller;
  if (const auto* adamw = std::get_if<AdamWSettings>(&asked))
    smaller.push_back({"adamw_8bit", AdamW8bitSettings{*adamw, {}}});
  if (const auto* lion = std::get_if<LionSettings>(&asked))
    smaller.push_back({"lion_8bit", Lion8bitSettings{*lion, {}}});
  const auto* sgd = std::get_if<SgdSettings>(&asked);
  const bool has_states = sgd == nullptr || sgd->momentum != 0;
  if (has_states && !std::holds_alternative<AdafactorSettings>(asked))
    smaller.push_back({"adafactor", AdafactorSettings{}});
  return smaller;
}

std::vector<int64_t> divisors_of(int64_t number) {
  std::vector<int64_t> divisors;
  for (int64_t small = 1; small <= number / small; ++small) {
    if (number % small != 0) continue;
    divisors.push_back(small);
    if (small != number / small) divisors.push_back(number / small);
  }
  std::sort(divisors.rbegin(), divisors.rend());
  return divisors;
}

bool has_even_shares(const TrainingArguments& args) {
  return micro_batches_of_step(args) % args.world_size == 0;
}

std::vector<int64_t> micro_batch_sizes(const TrainingArguments& args) {
  const int64_t share = ceil_divide(effective_batch_size(args), args.world_size);
  std::vector<int64_t> sizes = divisors_of(has_even_shares(args) ? share : effective_batch_size(args));
  std::erase_if(sizes,
                [&](int64_t size) { return size > share && size != args.per_device_train_batch_size; });
  return sizes;
}

std::set<Degree> given_degrees(const TrainingArguments& args,
                               const std::function<bool(std::string_view row)>& sets) {
  static constexpr std::array<std::pair<std::string_view, Degree>, 27> kRows = {{
      {"per_device_train_batch_size", Degree::kBatch},
      {"gradient_accumulation_steps", Degree::kBatch},
      {"batch_size_ramp", Degree::kBatch},
      {"accumulation_order", Degree::kOrder},
      {"gradient_checkpointing", Degree::kRecompute},
      {"gradient_checkpointing_kwargs", Degree::kRecompute},
      {"activation_budget", Degree::kRecompute},
      {"recompute_set", Degree::kRecompute},
      {"update_in_backward", Degree::kUpdateInBackward},
      {"max_grad_norm", Degree::kUpdateInBackward},
      {"max_grad_value", Degree::kUpdateInBackward},
      {"bf16", Degree::kPrecision},
      {"fp16", Degree::kPrecision},
      {"mixed_precision", Degree::kPrecision},
      {"dtype", Degree::kPrecision},
      {"dtype", Degree::kMasters},
      {"master_weights", Degree::kMasters},
      {"adafactor", Degree::kOptimizer},
      {"optim", Degree::kOptimizer},
      {"optim_args", Degree::kOptimizer},
      {"lora_rank", Degree::kAdapters},
      {"zero_stage", Degree::kSharing},
      {"local_sgd_steps", Degree::kSharing},
      {"zero_prefetch_layers", Degree::kGathering},
      {"zero_persistence_threshold", Degree::kGathering},
      {"per_device_eval_batch_size", Degree::kEvaluation},
      {"bf16_full_eval", Degree::kEvaluation},
  }};
  // Without clipping the update in the backward changes nothing that was asked for.
  const auto clips_nothing = [&](std::string_view row) {
    return (row == "max_grad_norm" && args.max_grad_norm == 0) ||
           (row == "max_grad_value" && args.max_grad_value == 0);
  };
  // Weights of float32 say nothing of the type of products.
  const auto is_of_weights_alone = [&](std::string_view row, Degree degree) {
    return row == "dtype" && degree == Degree::kPrecision && !args.bf16;
  };
  std::set<Degree> given;
  for (const auto& [row, degree] : kRows) {
    if (sets(row) && !clips_nothing(row) && !is_of_weights_alone(row, degree)) given.insert(degree);
  }
  return given;
}

std::set<Degree> degrees_of_checkpoint() {
  return {Degree::kPrecision, Degree::kMasters, Degree::kOptimizer, Degree::kAdapters,
          Degree::kUpdateInBackward};
}

std::optional<FitCandidate> with_micro_batch(const FitCandidate& run, int64_t size, const FitSpace& space) {
  const TrainingArguments& args = run.arguments;
  const std::vector<int64_t> sizes = micro_batch_sizes(args);
  if (size == args.per_device_train_batch_size || std::ranges::find(sizes, size) == sizes.end())
    return std::nullopt;
  if (!space.is_open(Degree::kBatch, MathsChange::kRounding)) return std::nullopt;
  FitCandidate split = run;
  const int64_t steps = ceil_divide(effective_batch_size(args) / size, args.world_size);
  split.arguments.per_device_train_batch_size = size;
  split.arguments.gradient_accumulation_steps = steps;
  return changed(std::move(split), MathsChange::kRounding,
                 {"--per_device_train_batch_size", std::to_string(size), "--gradient_accumulation_steps",
                  std::to_string(steps)});
}

std::optional<FitCandidate> with_layer_order(const FitCandidate& run, const FitSpace& space) {
  const int64_t steps = run.arguments.gradient_accumulation_steps;
  if (steps == 1 || steps > kMaxUnrolledMicroBatches || is_layer_major(run.arguments)) return std::nullopt;
  if (!space.is_open(Degree::kOrder, MathsChange::kRounding)) return std::nullopt;
  FitCandidate ordered = run;
  ordered.arguments.accumulation_order = kLayerMajor;
  return changed(std::move(ordered), MathsChange::kRounding,
                 {"--accumulation_order", std::string(kLayerMajor)});
}

std::optional<FitCandidate> with_recompute(const FitCandidate& run, int64_t every_n_layers,
                                           const FitSpace& space) {
  const TrainingArguments& args = run.arguments;
  const bool is_in_groups = args.gradient_checkpointing && every_n_layers == 1 &&
                            recompute_every_n_layers(args) != 1 && args.activation_budget.empty() &&
                            args.recompute_set.empty();
  if ((recomputes(args) && !is_in_groups) || !space.is_open(Degree::kRecompute, MathsChange::kExact))
    return std::nullopt;
  FitCandidate less = run;
  less.arguments.gradient_checkpointing = true;
  std::vector<std::string> flags;
  if (!is_in_groups) flags.emplace_back("--gradient_checkpointing");
  if (every_n_layers > 1 || is_in_groups) {
    less.arguments.gradient_checkpointing_kwargs = {{"every_n_layers", every_n_layers}};
    flags.insert(flags.end(),
                 {"--gradient_checkpointing_kwargs", fmt::format("every_n_layers={}", every_n_layers)});
  }
  return changed(std::move(less), MathsChange::kExact, std::move(flags));
}

std::optional<FitCandidate> with_activation_budget(const FitCandidate& run, const std::string& budget,
                                                   const FitSpace& space) {
  if (recomputes(run.arguments) || !space.is_open(Degree::kRecompute, MathsChange::kExact))
    return std::nullopt;
  FitCandidate less = run;
  less.arguments.activation_budget = budget;
  return changed(std::move(less), MathsChange::kExact, {"--activation_budget", budget});
}

std::optional<FitCandidate> with_update_in_backward(const FitCandidate& run, const FitSpace& space) {
  const TrainingArguments& args = run.arguments;
  const bool clips = args.max_grad_norm > 0 || args.max_grad_value > 0;
  const MathsChange change = clips ? MathsChange::kNumerics : MathsChange::kExact;
  // A gradient that is used at once must be complete.
  const bool is_complete = args.gradient_accumulation_steps == 1 || is_layer_major(args);
  if (args.update_in_backward || scales_loss(args) || !is_complete) return std::nullopt;
  if (!space.is_open(Degree::kUpdateInBackward, change)) return std::nullopt;
  FitCandidate soon = run;
  soon.arguments.update_in_backward = true;
  std::vector<std::string> flags = {"--update_in_backward"};
  if (args.max_grad_norm > 0) {
    soon.arguments.max_grad_norm = 0;
    flags.insert(flags.end(), {"--max_grad_norm", "0"});
  }
  if (args.max_grad_value > 0) {
    soon.arguments.max_grad_value = 0;
    flags.insert(flags.end(), {"--max_grad_value", "0"});
  }
  return changed(std::move(soon), change, std::move(flags));
}

std::optional<FitCandidate> with_bf16(const FitCandidate& run, const FitSpace& space) {
  if (run.arguments.bf16 || run.arguments.fp16 || !space.is_open(Degree::kPrecision, MathsChange::kNumerics))
    return std::nullopt;
  FitCandidate half = run;
  half.arguments.bf16 = true;
  return changed(std::move(half), MathsChange::kNumerics, {"--bf16"});
}

std::optional<FitCandidate> without_masters(const FitCandidate& run, const FitSpace& space) {
  if (!run.arguments.bf16 || run.arguments.master_weights != "fp32" ||
      !space.is_open(Degree::kMasters, MathsChange::kNumerics))
    return std::nullopt;
  FitCandidate without = run;
  without.arguments.master_weights = "none";
  return changed(std::move(without), MathsChange::kNumerics, {"--master_weights", "none"});
}

std::optional<FitCandidate> with_optimizer(const FitCandidate& run, const std::string& optim,
                                           const FitSpace& space) {
  FitCandidate other = run;
  other.arguments.optim = optim;
  other.arguments.optim_args = {};
  const bool is_same = optimizer_name(other.arguments) == optimizer_name(run.arguments);
  if (is_same || !space.is_open(Degree::kOptimizer, MathsChange::kNumerics)) return std::nullopt;
  std::vector<std::string> flags = {"--optim", optim};
  if (!run.arguments.optim_args.empty()) flags.insert(flags.end(), {"--optim_args", "{}"});
  return changed(std::move(other), MathsChange::kNumerics, flags);
}

std::optional<FitCandidate> with_zero_stage(const FitCandidate& run, int64_t stage, const FitSpace& space) {
  const TrainingArguments& args = run.arguments;
  if (args.world_size == 1 || stage == args.zero_stage || args.local_sgd_steps > 0 || are_replicas(args) ||
      !space.is_open(Degree::kSharing, MathsChange::kRounding))
    return std::nullopt;
  FitCandidate shared = run;
  shared.arguments.zero_stage = stage;
  shared = changed(std::move(shared), MathsChange::kRounding, {"--zero_stage", std::to_string(stage)});
  return stage == 3 ? gathering_as(shared, gathering_of(shared.arguments)) : shared;
}

std::optional<FitCandidate> with_gathering(const FitCandidate& run, const Gathering& gathering,
                                           const FitSpace& space) {
  const TrainingArguments& args = run.arguments;
  const bool gathers = args.world_size > 1 && args.zero_stage == 3;
  if (!gathers || gathering == gathering_of(args) || !space.is_open(Degree::kGathering, MathsChange::kExact))
    return std::nullopt;
  return gathering_as(run, gathering);
}

std::optional<FitCandidate> with_adapters(const FitCandidate& run, int64_t rank, const FitSpace& space) {
  if (run.arguments.lora_rank > 0 || !space.is_open(Degree::kAdapters, MathsChange::kAdapters))
    return std::nullopt;
  FitCandidate adapted = run;
  adapted.arguments.lora_rank = rank;
  return changed(std::move(adapted), MathsChange::kAdapters, {"--lora_rank", std::to_string(rank)});
}

std::optional<FitCandidate> with_half_evaluation_batch(const FitCandidate& run, const FitSpace& space) {
  const int64_t size = run.arguments.per_device_eval_batch_size / 2;
  if (size == 0 || !space.is_open(Degree::kEvaluation, MathsChange::kRounding)) return std::nullopt;
  FitCandidate smaller = run;
  smaller.arguments.per_device_eval_batch_size = size;
  return changed(std::move(smaller), MathsChange::kRounding,
                 {"--per_device_eval_batch_size", std::to_string(size)});
}

std::optional<FitCandidate> with_bf16_evaluation(const FitCandidate& run, const FitSpace& space) {
  const TrainingArguments& args = run.arguments;
  const bool is_half = args.bf16_full_eval || args.fp16_full_eval || args.bf16 || args.fp16;
  if (is_half || !space.is_open(Degree::kEvaluation, MathsChange::kNumerics)) return std::nullopt;
  FitCandidate half = run;
  half.arguments.bf16_full_eval = true;
  return changed(std::move(half), MathsChange::kNumerics, {"--bf16_full_eval"});
}

void check_unused(const TrainingArguments& args, const std::set<Degree>& forbidden) {
  const std::array<std::pair<Degree, bool>, kDegrees> used = {{
      {Degree::kBatch, args.gradient_accumulation_steps > 1},
      {Degree::kOrder, is_layer_major(args)},
      {Degree::kRecompute, recomputes(args)},
      {Degree::kUpdateInBackward, args.update_in_backward},
      {Degree::kPrecision, args.bf16 || args.fp16},
      {Degree::kMasters, args.master_weights != TrainingArguments{}.master_weights},
      {Degree::kOptimizer, optimizer_name(args) != optimizer_name(TrainingArguments{})},
      {Degree::kAdapters, args.lora_rank > 0},
      {Degree::kSharing, args.zero_stage > 0},
      {Degree::kGathering, false},
      {Degree::kEvaluation, false},
  }};
  for (const auto& [degree, is_used] : used) {
    if (is_used && forbidden.contains(degree)) {
      throw user_error(
          "[--forbid {0}] expected a run without it, got flags that ask for it; leave out one or the other",
          degree_name(degree));
    }
  }
}

std::vector<FitCandidate> numeric_forms(const FitCandidate& run, const FitSpace& space) {
  const auto add = [](std::vector<FitCandidate>& all,
                      const std::function<std::optional<FitCandidate>(const FitCandidate&)>& change) {
    for (size_t i = 0, count = all.size(); i < count; ++i) {
      if (std::optional<FitCandidate> form = change(all[i])) all.push_back(std::move(*form));
    }
  };
  std::vector<FitCandidate> forms = {run};
  add(forms, [&](const FitCandidate& form) { return with_bf16(form, space); });
  add(forms, [&](const FitCandidate& form) { return without_masters(form, space); });
  std::vector<FitCandidate> optimized = forms;
  for (const SmallerOptimizer& smaller :
       smaller_optimizers(step_options_of(run.arguments).optimizer.settings)) {
    for (const FitCandidate& form : forms) {
      if (std::optional<FitCandidate> other = with_optimizer(form, smaller.name, space))
        optimized.push_back(std::move(*other));
    }
  }
  add(optimized, [&](const FitCandidate& form) { return with_adapters(form, kOfferedLoraRank, space); });
  std::stable_sort(optimized.begin(), optimized.end(),
                   [](const FitCandidate& a, const FitCandidate& b) { return a.tier < b.tier; });
  return optimized;
}

std::vector<FitCandidate> staged_forms(const FitCandidate& run, const FitSpace& space) {
  std::vector<FitCandidate> all;
  for (FitCandidate& form : numeric_forms(run, space)) {
    const FitCandidate alone = form;
    all.push_back(std::move(form));
    for (const int64_t stage : {1, 2, 3}) {
      if (std::optional<FitCandidate> shared = with_zero_stage(alone, stage, space))
        all.push_back(std::move(*shared));
    }
  }
  return all;
}

std::vector<FitCandidate> shared_forms(const FitCandidate& run, const FitSpace& space) {
  std::vector<FitCandidate> all = staged_forms(run, space);
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    for (const Gathering& gathering : other_gatherings(space)) {
      if (std::optional<FitCandidate> other = with_gathering(all[i], gathering, space))
        all.push_back(std::move(*other));
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const FitCandidate& a, const FitCandidate& b) { return a.tier < b.tier; });
  return all;
}

}  // namespace shoehorn
