#include "session/memory_alternatives.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <variant>

#include "session/smaller_forms.h"

namespace shoehorn {

namespace {

// One way of several that exclude each other: the run's own, or one with other flags.
struct Choice {
  std::string flags = {};
  MathsChange change = MathsChange::kExact;
  std::function<void(StepOptions&)> apply = [](StepOptions&) {};
};

// What may be changed about a training run besides the ladder's settings. Index 0 is the run as it is; each
// type takes less memory than the one before it.
struct Choices {
  std::vector<Choice> types = {{}};
  std::vector<Choice> optimizers = {{}};
  std::vector<Choice> backward = {{}};
  std::vector<Choice> adapters = {{}};
};

std::vector<Choice> choices_of_type(const StepOptions& step) {
  std::vector<Choice> types = {{}};
  if (step.precision == Precision::kFloat16 || step.evaluation_precision == Precision::kFloat16) return types;
  const bool is_bf16 = step.precision == Precision::kBfloat16;
  const std::string flag = is_bf16 ? "" : " --bf16";
  if (!is_bf16) {
    types.push_back(
        {flag, MathsChange::kNumerics, [](StepOptions& o) { o.precision = Precision::kBfloat16; }});
  }
  if (step.master_weights == MasterWeights::kFloat32) {
    types.push_back({flag + " --master_weights none", MathsChange::kNumerics, [](StepOptions& o) {
                       o.precision = Precision::kBfloat16;
                       o.master_weights = MasterWeights::kNone;
                     }});
  }
  return types;
}

std::vector<Choice> choices_of_optimizer(const StepOptions& step, const AlternativeScope& scope) {
  std::vector<Choice> optimizers = {{}};
  if (scope.keeps_optimizer) return optimizers;
  for (const SmallerOptimizer& smaller : smaller_optimizers(step.optimizer.settings)) {
    optimizers.push_back(
        {fmt::format(" --optim {}{}", smaller.name, scope.has_optim_args ? " --optim_args {}" : ""),
         MathsChange::kNumerics,
         [settings = smaller.settings](StepOptions& o) { o.optimizer.settings = settings; }});
  }
  return optimizers;
}

std::vector<Choice> choices_of_backward(const StepOptions& step) {
  std::vector<Choice> backward = {{}};
  const bool waits_for_overflow = step.precision == Precision::kFloat16 && step.loss_scale.fixed == 0;
  if (waits_for_overflow || step.update_in_backward) return backward;
  const bool orders = step.gradient_accumulation_steps > 1 && !is_by_layer(step);
  const bool clips = step.max_grad_norm > 0;
  backward.push_back({fmt::format("{} --update_in_backward{}", clips ? " --max_grad_norm 0" : "",
                                  orders ? " --accumulation_order layer_major" : ""),
                      clips ? MathsChange::kNumerics : MathsChange::kExact, [orders](StepOptions& o) {
                        o.max_grad_norm = 0;
                        o.update_in_backward = true;
                        if (orders) o.accumulation_order = AccumulationOrder::kLayer;
                      }});
  return backward;
}

std::vector<Choice> choices_of_adapters(const StepOptions& step) {
  std::vector<Choice> adapters = {{}};
  if (step.lora.rank == 0) {
    adapters.push_back({fmt::format(" --lora_rank {}", kOfferedLoraRank), MathsChange::kAdapters,
                        [](StepOptions& o) { o.lora.rank = kOfferedLoraRank; }});
  }
  return adapters;
}

// Indices into Choices.
struct Combination {
  size_t type = 0;
  size_t optimizer = 0;
  size_t backward = 0;
  size_t adapters = 0;

  int changes() const {
    return static_cast<int>(type > 0) + static_cast<int>(optimizer > 0) + static_cast<int>(backward > 0) +
           static_cast<int>(adapters > 0);
  }
  bool is_part_of(const Combination& other) const {
    const auto within = [](size_t mine, size_t theirs) { return mine == 0 || mine == theirs; };
    return type <= other.type && within(optimizer, other.optimizer) && within(backward, other.backward) &&
           within(adapters, other.adapters);
  }
};

// All combinations, fewest changes first. Adapters, whose gradients and states are small, are combined with
// types only and with everything.
std::vector<Combination> combinations_of(const Choices& choices) {
  std::vector<Combination> all;
  for (size_t adapters = 0; adapters < choices.adapters.size(); ++adapters) {
    for (size_t backward = 0; backward < choices.backward.size(); ++backward) {
      for (size_t optimizer = 0; optimizer < choices.optimizers.size(); ++optimizer) {
        for (size_t type = 0; type < choices.types.size(); ++type) {
          const bool is_plain = optimizer == 0 && backward == 0;
          const bool is_everything =
              optimizer > 0 && backward + 1 == choices.backward.size() && type + 1 == choices.types.size();
          if (adapters == 0 || is_plain || is_everything)
            all.push_back({type, optimizer, backward, adapters});
        }
      }
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Combination& a, const Combination& b) { return a.changes() < b.changes(); });
  return all;
}

Candidate candidate_of(const SessionOptions& options, const Choices& choices,
                       const Combination& combination) {
  Candidate candidate{options};
  for (const Choice* choice :
       {&choices.types[combination.type], &choices.optimizers[combination.optimizer],
        &choices.backward[combination.backward], &choices.adapters[combination.adapters]}) {
    choice->apply(candidate.options.step);
    candidate.flags += choice->flags;
    candidate.change = std::max(candidate.change, choice->change);
  }
  candidate.has_other_products = combination.type > 0 || combination.adapters > 0;
  return candidate;
}

std::vector<std::string> flags_of(const Choices& choices) {
  std::vector<std::string> flags;
  for (const auto* list : {&choices.types, &choices.optimizers, &choices.backward, &choices.adapters}) {
    for (const Choice& choice : *list) {
      if (!choice.flags.empty()) flags.push_back(choice.flags.substr(1));
    }
  }
  return flags;
}

Alternatives search_training(const SessionOptions& options, const AlternativeScope& scope, Planner planner) {
  const StepOptions& step = options.step;
  Choices choices;
  if (!scope.keeps_state) {
    choices = {choices_of_type(step), choices_of_optimizer(step, scope), choices_of_backward(step),
               choices_of_adapters(step)};
  }
  std::vector<Combination> fitting;
  Candidate least{options};
  for (const Combination& combination : combinations_of(choices)) {
    const bool has_part_that_fits = combination.changes() > 1 &&
                                    std::any_of(fitting.begin(), fitting.end(), [&](const Combination& part) {
                                      return part.is_part_of(combination);
                                    });
    if (has_part_that_fits) continue;
    const int64_t before = planner.least_bytes();
    const Candidate candidate = candidate_of(options, choices, combination);
    if (MicroBatchSearch(planner, candidate, scope.micro_batch_size).climb()) fitting.push_back(combination);
    if (planner.least_bytes() < before) least = candidate;
  }
  if (fitting.empty()) MicroBatchSearch(planner, least, scope.micro_batch_size).plan_smallest();
  std::vector<std::string> tried = flags_of(choices);
  if (const std::string recompute = recompute_flags(step); !recompute.empty()) tried.push_back(recompute);
  if (scope.micro_batch_size > 1) tried.emplace_back("--per_device_train_batch_size down to 1, accumulated");
  return std::move(planner).result(std::move(tried));
}

Alternatives search_evaluation(const SessionOptions& options, Planner planner) {
  std::vector<std::string> tried = {"--per_device_eval_batch_size down to 1"};
  planner.offer({options});
  const StepOptions& step = options.step;
  if (step.evaluation_precision.value_or(step.precision) == Precision::kFloat32) {
    Candidate bf16{options, " --bf16_full_eval", {}, MathsChange::kNumerics, true};
    bf16.options.step.evaluation_precision = Precision::kBfloat16;
    planner.offer(bf16);
    tried.emplace_back("--bf16_full_eval");
  }
  return std::move(planner).result(std::move(tried));
}

}  // namespace

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

Alternatives find_alternatives(const Model& model, const SessionOptions& options,
                               const MemoryForecast& forecast, const AlternativeScope& scope) {
  SessionOptions planned = options;
  planned.step.dump_directory.clear();  // it has the programs of the run that was asked for
  Planner planner(model, forecast);
  return planned.kind == RunKind::kEvaluate ? search_evaluation(planned, std::move(planner))
                                            : search_training(planned, scope, std::move(planner));
}

}  // namespace shoehorn
