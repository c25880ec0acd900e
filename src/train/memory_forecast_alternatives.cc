// The changes of flags that make a plan fit. Each is planned before it is offered.
#include <fmt/format.h>

#include <algorithm>

#include "train/memory_forecast.h"

namespace shoehorn {

namespace {

// A layer-major step holds every micro-batch's nodes; beyond this many it is no longer worth offering.
constexpr int64_t kMostUnrolledMicroBatches = 32;

// At most what a batch of so many sequences takes, of data of which `whole` are the longest.
BatchCapacity with_sequences(const BatchCapacity& whole, int64_t sequences) {
  // Padded sequences are longer than the longest of the data.
  const int64_t padded = (whole.tokens + whole.sequences - 1) / whole.sequences;
  const int64_t tokens = sequences * std::max(whole.longest_sequence, padded);
  const int64_t rounded = (tokens + kTokenMultiple - 1) / kTokenMultiple * kTokenMultiple;
  return {std::min(rounded, whole.tokens), std::min(sequences, whole.sequences), whole.longest_sequence};
}

int64_t next_smaller_divisor(int64_t number, int64_t divisor) {
  --divisor;
  while (divisor > 0 && number % divisor != 0) --divisor;
  return divisor;
}

// What recomputes every layer; empty where the step does already.
const char* recompute_flags(const StepOptions& step) {
  if (step.recompute_every_n_layers == 1) return "";
  return step.recompute_every_n_layers == 0 ? " --gradient_checkpointing"
                                            : " --gradient_checkpointing_kwargs every_n_layers=1";
}

class Search {
 public:
  Search(const Model& model, const MemoryForecast& forecast, int64_t micro_batch_size)
      : model_(model), forecast_(forecast), micro_batch_size_(micro_batch_size) {}

  // Whether the run fits so; then it is one of those found. Where evaluation is what needs most, its batch is
  // halved until it is not.
  bool consider(SessionOptions changed, const std::string& flags, bool changes_numerics) {
    const StepOptions& step = changed.step;
    const bool by_layer = step.accumulation_order == AccumulationOrder::kLayer;
    if (by_layer && step.gradient_accumulation_steps > kMostUnrolledMicroBatches) return false;
    // A gradient that is used at once must be complete.
    if (step.update_in_backward && step.gradient_accumulation_steps > 1 && !by_layer) return false;
    std::string evaluation_flag;
    while (true) {
      const Session session(model_, changed);
      const int64_t peak = session.plan().arena_bytes() + forecast_.process_overhead_bytes;
      if (peak <= forecast_.budget_bytes) {
        found_.push_back({flags + evaluation_flag, peak, changes_numerics});
        return true;
      }
      const int64_t sequences = changed.evaluation.sequences / 2;
      if (session.plan().largest().program != "evaluate" || sequences == 0) return false;
      changed.evaluation = with_sequences(changed.evaluation, sequences);
      evaluation_flag = fmt::format(" --per_device_eval_batch_size {}", sequences);
    }
  }

  // The exact ladder: each rung keeps the ones before it.
  void climb(const SessionOptions& base, const std::string& flags, bool changes_numerics) {
    if (consider(base, flags, changes_numerics)) return;
    const bool by_layer = base.step.accumulation_order == AccumulationOrder::kLayer;
    const std::string recompute_flag = recompute_flags(base.step);
    for (int64_t size = micro_batch_size_; size >= 1; size = next_smaller_divisor(micro_batch_size_, size)) {
      const int64_t steps = base.step.gradient_accumulation_steps * (micro_batch_size_ / size);
      SessionOptions split = base;
      std::string split_flags = flags;
      if (size != micro_batch_size_) {
        split.train = with_sequences(base.train, size);
        split.step.gradient_accumulation_steps = steps;
        split_flags +=
            fmt::format(" --per_device_train_batch_size {} --gradient_accumulation_steps {}", size, steps);
        if (consider(split, split_flags, changes_numerics)) return;
      }
      split.step.recompute_every_n_layers = 1;
      split_flags += recompute_flag;
      if (!recompute_flag.empty() && consider(split, split_flags, changes_numerics)) return;
      if (steps == 1 || by_layer) continue;
      split.step.accumulation_order = AccumulationOrder::kLayer;
      if (consider(split, split_flags + " --accumulation_order layer_major", changes_numerics)) return;
    }
  }

  std::vector<Alternative> found() && {
    for (Alternative& alternative : found_)
      alternative.flags.erase(0, alternative.flags.find_first_not_of(' '));
    return std::move(found_);
  }

 private:
  const Model& model_;
  const MemoryForecast& forecast_;
  int64_t micro_batch_size_;
  std::vector<Alternative> found_;
};

void search_evaluation(const SessionOptions& options, Search& search) {
  search.consider(options, "", false);
  const StepOptions& step = options.step;
  if (step.evaluation_precision.value_or(step.precision) != Precision::kFloat32) return;
  SessionOptions bf16 = options;
  bf16.step.evaluation_precision = Precision::kBfloat16;
  search.consider(bf16, " --bf16_full_eval", true);
}

void search_training(const SessionOptions& options, Search& search) {
  search.climb(options, "", false);
  const StepOptions& step = options.step;
  const bool waits_for_overflow = step.precision == Precision::kFloat16 && step.loss_scale.fixed == 0;
  if (!waits_for_overflow && !step.update_in_backward) {
    SessionOptions unclipped = options;
    unclipped.step.max_grad_norm = 0;
    unclipped.step.update_in_backward = true;
    std::string flags = " --max_grad_norm 0 --update_in_backward";
    if (step.gradient_accumulation_steps > 1 && step.accumulation_order != AccumulationOrder::kLayer) {
      unclipped.step.accumulation_order = AccumulationOrder::kLayer;
      flags += " --accumulation_order layer_major";
    }
    search.climb(unclipped, flags, true);
  }
  if (step.precision == Precision::kFloat16 || step.evaluation_precision == Precision::kFloat16) return;
  SessionOptions bf16 = options;
  bf16.step.precision = Precision::kBfloat16;
  const std::string flag = step.precision == Precision::kBfloat16 ? "" : " --bf16";
  if (!flag.empty()) search.climb(bf16, flag, true);
  if (step.master_weights == MasterWeights::kFloat32) {
    bf16.step.master_weights = MasterWeights::kNone;
    search.climb(bf16, flag + " --master_weights none", true);
  }
}

}  // namespace

std::vector<Alternative> find_alternatives(const Model& model, const SessionOptions& options,
                                           const MemoryForecast& forecast, int64_t micro_batch_size) {
  SessionOptions planned = options;
  planned.step.dump_directory.clear();  // it has the programs of the run that was asked for
  Search search(model, forecast, micro_batch_size);
  planned.kind == RunKind::kEvaluate ? search_evaluation(planned, search) : search_training(planned, search);
  return std::move(search).found();
}

}  // namespace shoehorn
