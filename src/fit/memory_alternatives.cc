#include "fit/memory_alternatives.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "arguments/shell_word.h"
#include "arguments/step_settings.h"
#include "base/process.h"
#include "exec/backends.h"

namespace shoehorn {

namespace {

// The process may be short of memory: one plan is made at a time, and the code of other products is not made to be
// measured. Of an encoder of 24 layers of 1024, that of bf16 makes the process's overhead a sixth larger with 1024
// tokens, a third with 32768; this is half.
constexpr int64_t kShareOfOtherCode = 2;

// Another run's process may hold a little more besides its arenas than this one, and what is recomputed value by value takes all
// that there is: an eighth of what this process holds is left free.
constexpr int64_t kShareLeftFree = 8;

// A refusal is waited for. Models of up to a billion parameters take less; of one of 70 billion a single choice of values may take
// two seconds.
constexpr double kMostSecondsOfRecompute = 3;

// Of processors of a few cores. Only ratios of times are shown.
MachineLimits usual_limits(const Backend& backend) {
  constexpr double kFlops = 1e11, kBytesPerSecond = 2e10, kSpeedupOfHalf = 2;
  const bool is_faster = backend.machine().has_products_of(DType::kBF16);
  return {kFlops, is_faster ? kSpeedupOfHalf * kFlops : kFlops, kBytesPerSecond};
}

// What a candidate changes that is more than how a step is split, ordered and recomputed.
std::set<std::string> large_changes(const TrainingArguments& args, const TrainingArguments& asked) {
  std::set<std::string> changes;
  if (args.bf16 != asked.bf16) changes.insert("bf16");
  if (args.master_weights != asked.master_weights) changes.insert("master_weights");
  if (args.optim != asked.optim) changes.insert("optim " + args.optim);
  if (args.lora_rank != asked.lora_rank) changes.insert("lora_rank");
  if (args.zero_stage != asked.zero_stage) changes.insert("zero_stage " + std::to_string(args.zero_stage));
  if (args.update_in_backward != asked.update_in_backward) changes.insert("update_in_backward");
  return changes;
}

// bf16 without masters is one change: a type.
size_t count_of(const std::set<std::string>& changes) {
  return changes.size() - (changes.contains("bf16") && changes.contains("master_weights") ? 1 : 0);
}

using FormsOfRun = std::function<std::vector<FitCandidate>(const FitCandidate&, const FitSpace&)>;

class Finder {
 public:
  Finder(const Model& model, const SessionOfArguments& options_of, const TrainingArguments& args,
         const MemoryForecast& forecast, const AlternativeScope& scope)
      : model_(model),
        options_of_(options_of),
        asked_{args},
        budget_bytes_(forecast.budget_bytes - forecast.process_overhead_bytes / kShareLeftFree),
        resident_bytes_(trimmed_resident_bytes()),
        asked_options_(with_backend(options_of(args))),
        space_(space_of(scope)),
        search_(model, options_of,
                {.space = space_,
                 .budget_bytes = budget_bytes_,
                 .overhead_bytes = forecast.process_overhead_bytes,
                 .other_code_bytes = forecast.process_overhead_bytes / kShareOfOtherCode,
                 .limits = usual_limits(*asked_options_.backend),
                 .backend = asked_options_.backend,
                 .keeps_code = false,
                 .most_plans_at_a_time = 1,
                 .most_seconds_of_recompute = kMostSecondsOfRecompute}) {}

  Alternatives find() && {
    if (asked_options_.kind == RunKind::kEvaluate)
      find_for_evaluation();
    else
      find_for_training();
    std::stable_sort(found_.fitting.begin(), found_.fitting.end(),
                     [](const Alternative& a, const Alternative& b) { return a.change < b.change; });
    found_.was_cut_short = search_.was_cut_short();
    return std::move(found_);
  }

 private:
  static SessionOptions with_backend(SessionOptions options) {
    if (!options.backend) options.backend = make_backend(kDefaultBackend, options.threads);
    return options;
  }

  static FitSpace space_of(const AlternativeScope& scope) {
    FitSpace space{{kTiers.begin(), kTiers.end()}};
    if (scope.keeps_optimizer) space.held.insert(Degree::kOptimizer);
    if (scope.keeps_state) space.held.merge(degrees_of_checkpoint());
    return space;
  }

  void find_for_evaluation() {
    found_.tried = {"--per_device_eval_batch_size down to 1"};
    look_into(asked_);
    if (const auto half = with_bf16_evaluation(asked_, space_)) {
      found_.tried.push_back(shell_words(half->flags));
      look_into(*half);
    }
  }

  // Other ways to gather weights count where nothing fits without them: a run chooses its own by its memory.
  void find_for_training() {
    const std::set<MathsChange> all = std::exchange(space_.allowed, {});
    look_into(asked_);
    look_into_forms(all, staged_forms);
    if (found_.fitting.empty()) look_into_forms(all, shared_forms);
    found_.tried = single_changes();
    if (found_.fitting.empty() && asked_seconds_ > 0) note_least(search_.find_least(asked_));
  }

  // Tier by tier; those forms first that change least.
  void look_into_forms(const std::set<MathsChange>& tiers, const FormsOfRun& forms_of) {
    space_.allowed.clear();
    for (const MathsChange tier : tiers) {
      space_.allowed.insert(tier);
      if (!search_.may_fit_with(asked_, space_.allowed)) continue;
      std::vector<FitCandidate> forms = forms_of(asked_, space_);
      std::erase_if(forms, [this](const FitCandidate& form) {
        return form.arguments.zero_stage < asked_.arguments.zero_stage;  // holds more
      });
      const auto changes = [&](const FitCandidate& form) {
        return large_changes(form.arguments, asked_.arguments);
      };
      std::stable_sort(forms.begin(), forms.end(), [&](const FitCandidate& a, const FitCandidate& b) {
        return count_of(changes(a)) < count_of(changes(b));
      });
      for (const FitCandidate& form : forms) {
        // A tier below may split a step, and update in the backward, in what was searched before; adapters change neither.
        if (tier == MathsChange::kAdapters && form.tier != tier) continue;
        if (count_of(changes(form)) > 1 && has_part_that_fits(changes(form))) continue;
        look_into(form);
      }
    }
  }

  bool has_part_that_fits(const std::set<std::string>& changes) const {
    return std::any_of(fitting_changes_.begin(), fitting_changes_.end(), [&](const auto& part) {
      return !part.empty() && std::ranges::includes(changes, part);
    });
  }

  // Offers the best plan of a form with the fewest large changes, unless less than these fits, or, without any, it is no
  // faster than one that was offered before.
  void look_into(const FitCandidate& form) {
    FormResult result = search_.find_in_form(form, space_.allowed);
    if (!result.whole) return;
    std::ranges::stable_sort(result.fitting, {}, [&](const PlannedCandidate& candidate) {
      return count_of(large_changes(candidate.run.arguments, asked_.arguments));
    });
    if (asked_seconds_ == 0) asked_seconds_ = result.whole->step_seconds;
    note_least(*result.least);
    for (const PlannedCandidate& candidate : result.fitting) {
      const std::set<std::string> changes = large_changes(candidate.run.arguments, asked_.arguments);
      if (has_part_that_fits(changes)) continue;
      if (changes.empty() && !found_.fitting.empty() && candidate.step_seconds >= plain_seconds_) return;
      const int64_t peak = candidate.process_bytes + held_bytes(candidate.run);
      if (peak > budget_bytes_) continue;
      if (changes.empty()) plain_seconds_ = candidate.step_seconds;
      fitting_changes_.push_back(changes);
      found_.fitting.push_back(alternative_of(candidate, peak));
      return;
    }
  }

  // What a session of the run holds. The one that was asked for is still in memory, so this is more than a process of its own
  // would hold.
  int64_t held_bytes(const FitCandidate& run) const {
    SessionOptions options = options_of_(run.arguments);
    options.backend = asked_options_.backend;
    options.step.dump_directory.clear();
    const Session session(model_, std::move(options));
    return std::max<int64_t>(0, trimmed_resident_bytes() - resident_bytes_);
  }

  Alternative alternative_of(const PlannedCandidate& candidate, int64_t peak) const {
    Alternative alternative{shell_words(candidate.run.flags), peak, candidate.run.tier};
    if (candidate.trains && asked_seconds_ > 0)
      alternative.relative_seconds = candidate.step_seconds / asked_seconds_;
    return alternative;
  }

  void note_least(const PlannedCandidate& candidate) {
    if (!found_.least || candidate.process_bytes < found_.least->process_peak_bytes)
      found_.least = alternative_of(candidate, candidate.process_bytes);
  }

  std::vector<std::string> single_changes() const {
    std::vector<std::string> flags;
    const auto add = [&](const std::optional<FitCandidate>& run) {
      if (run) flags.push_back(shell_words(run->flags));
    };
    const std::optional<FitCandidate> half = with_bf16(asked_, space_);
    add(half);
    add(without_masters(half ? *half : asked_, space_));
    for (const SmallerOptimizer& smaller :
         smaller_optimizers(step_options_of(asked_.arguments).optimizer.settings))
      add(with_optimizer(asked_, smaller.name, space_));
    add(with_update_in_backward(asked_, space_));
    add(with_layer_order(asked_, space_));
    add(with_adapters(asked_, kOfferedLoraRank, space_));
    for (int64_t stage = asked_.arguments.zero_stage + 1; stage <= 3; ++stage)
      add(with_zero_stage(asked_, stage, space_));
    add(with_recompute(asked_, 1, space_));
    const int64_t batch =
        asked_.arguments.per_device_train_batch_size * asked_.arguments.gradient_accumulation_steps;
    if (batch > asked_.arguments.gradient_accumulation_steps)
      flags.emplace_back("--per_device_train_batch_size down to 1, accumulated");
    return flags;
  }

  const Model& model_;
  const SessionOfArguments& options_of_;
  FitCandidate asked_;
  int64_t budget_bytes_;
  int64_t resident_bytes_;  // before anything is planned here
  SessionOptions asked_options_;
  FitSpace space_;
  PlanSearch search_;
  double asked_seconds_ = 0;
  double plain_seconds_ = 0;                            // of the best plan without large changes
  std::vector<std::set<std::string>> fitting_changes_;  // of what was offered
  Alternatives found_;
};

}  // namespace

Alternatives find_alternatives(const Model& model, const SessionOfArguments& options_of,
                               const TrainingArguments& args, const MemoryForecast& forecast,
                               const AlternativeScope& scope) {
  return Finder(model, options_of, args, forecast, scope).find();
}

}  // namespace shoehorn
