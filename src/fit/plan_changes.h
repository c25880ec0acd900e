// What `fit` may change about a training run: one degree of freedom each, in terms of train's flags, so that what is
// found can be trained by its flags.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/training_arguments.h"
#include "fit/gather_choice.h"
#include "graph/optimizer_settings.h"

namespace shoehorn {

// What a change of flags does to the numbers, from least to most.
enum class MathsChange : uint8_t {
  kExact,     // no bit changes
  kRounding,  // the same sums in another order
  kNumerics,  // another precision, update rule or clipping
  kAdapters,  // other parameters are trained
};

enum class Degree : uint8_t {
  kBatch,             // per_device_train_batch_size × gradient_accumulation_steps
  kOrder,             // accumulation_order
  kRecompute,         // gradient_checkpointing, activation_budget, recompute_set
  kUpdateInBackward,  // update_in_backward; where it needs that, without clipping
  kPrecision,         // bf16
  kMasters,           // master_weights
  kOptimizer,         // optim
  kAdapters,          // lora_rank
  kSharing,           // zero_stage
  kGathering,         // zero_prefetch_layers, zero_persistence_threshold
  kEvaluation,        // per_device_eval_batch_size, bf16_full_eval
};
inline constexpr int kDegrees = 11;

// "batch", "order", "recompute", "update_in_backward", "precision", "masters", "optimizer", "adapters", "sharing",
// "gathering", "evaluation".
std::string_view degree_name(Degree degree);
// UserError naming `what` for any other name.
Degree degree_of(const std::string& name, std::string_view what);

inline constexpr std::array kTiers = {MathsChange::kExact, MathsChange::kRounding, MathsChange::kNumerics,
                                      MathsChange::kAdapters};
// "exact", "rounding", "numerics", "adapters".
std::string_view tier_name(MathsChange tier);
MathsChange tier_of(const std::string& name, std::string_view what);

// A run as asked for, with changes.
struct FitCandidate {
  TrainingArguments arguments;
  std::vector<std::string> flags = {};     // to be added to those that were given
  MathsChange tier = MathsChange::kExact;  // the most of `changes`
  std::set<MathsChange> changes = {};      // which must be allowed
};

// What is open.
struct FitSpace {
  std::set<MathsChange> allowed = {MathsChange::kExact, MathsChange::kRounding};
  std::set<Degree> held = {};  // stay as they are
  bool knows_link = false;     // between ranks, so that times tell what it saves to gather weights earlier

  bool is_open(Degree degree, MathsChange change) const {
    return allowed.contains(change) && !held.contains(degree);
  }
};

// The degrees that flags on the command line, or in a configuration file, decide. `sets` tells of a row of the argument
// table whose values are in `args`.
std::set<Degree> given_degrees(const TrainingArguments& args,
                               const std::function<bool(std::string_view row)>& sets);

// What a checkpoint fixes for a run that goes on from it.
std::set<Degree> degrees_of_checkpoint();

// An optimizer of the same kind that keeps less state, or Adafactor.
struct SmallerOptimizer {
  const char* name;  // of --optim
  OptimizerSettings settings;
};
// Those with less state than `asked`, the largest first; none where it has no state, or the least.
std::vector<SmallerOptimizer> smaller_optimizers(const OptimizerSettings& asked);
// The rank of adapters that are trained in place of weights.
inline constexpr int64_t kOfferedLoraRank = 8;
// A layer-major step holds every micro-batch's nodes; beyond this many it is no longer worth offering.
inline constexpr int64_t kMaxUnrolledMicroBatches = 32;
// Largest first.
std::vector<int64_t> divisors_of(int64_t number);

// Whether each rank has as many micro-batches of a step. Of an effective_batch_size that ranks do not divide some have one less.
bool has_even_shares(const TrainingArguments& args);
// Largest first: the sizes that the micro-batches of a step may have, its own and others that are no larger than a rank's share.
std::vector<int64_t> micro_batch_sizes(const TrainingArguments& args);

// Each returns the candidate with one change, or nothing where it is not open, makes no difference, or does not go
// together with what the run asks for.
std::optional<FitCandidate> with_micro_batch(const FitCandidate& run, int64_t size, const FitSpace& space);
std::optional<FitCandidate> with_layer_order(const FitCandidate& run, const FitSpace& space);
// Of a run that recomputes groups of layers only each layer for itself.
std::optional<FitCandidate> with_recompute(const FitCandidate& run, int64_t every_n_layers,
                                           const FitSpace& space);
// `budget` as --activation_budget has it; what is recomputed is chosen value by value.
std::optional<FitCandidate> with_activation_budget(const FitCandidate& run, const std::string& budget,
                                                   const FitSpace& space);
std::optional<FitCandidate> with_update_in_backward(const FitCandidate& run, const FitSpace& space);
std::optional<FitCandidate> with_bf16(const FitCandidate& run, const FitSpace& space);
std::optional<FitCandidate> without_masters(const FitCandidate& run, const FitSpace& space);
std::optional<FitCandidate> with_optimizer(const FitCandidate& run, const std::string& optim,
                                           const FitSpace& space);
// Of several ranks. Stage 3 says how weights are gathered, for train chooses that by its memory where nobody does.
std::optional<FitCandidate> with_zero_stage(const FitCandidate& run, int64_t stage, const FitSpace& space);
std::optional<FitCandidate> with_gathering(const FitCandidate& run, const Gathering& gathering,
                                           const FitSpace& space);
std::optional<FitCandidate> with_adapters(const FitCandidate& run, int64_t rank, const FitSpace& space);
// Evaluation with batches of half the size, and in bf16.
std::optional<FitCandidate> with_half_evaluation_batch(const FitCandidate& run, const FitSpace& space);
std::optional<FitCandidate> with_bf16_evaluation(const FitCandidate& run, const FitSpace& space);

// UserError naming a degree that is to stay unused and that the run uses.
void check_unused(const TrainingArguments& args, const std::set<Degree>& forbidden);

// The run with each combination of what changes more than rounding, the run itself first.
std::vector<FitCandidate> numeric_forms(const FitCandidate& run, const FitSpace& space);
// These, each with every stage by which ranks may share it, the lowest first.
std::vector<FitCandidate> staged_forms(const FitCandidate& run, const FitSpace& space);
// These, each with every way to gather what is shared; those that change least about the maths first.
std::vector<FitCandidate> shared_forms(const FitCandidate& run, const FitSpace& space);

}  // namespace shoehorn
