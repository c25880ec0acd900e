// The settings that passes act on: they determine the programs of a run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace shoehorn {

enum class Precision : uint8_t { kFloat32, kBfloat16, kFloat16 };
// What bf16 training keeps beside the bf16 weight that products read: the rest of an fp32 master, or nothing
// (updates then round stochastically).
enum class MasterWeights : uint8_t { kFloat32, kNone };
enum class AccumulationOrder : uint8_t { kMicroBatch, kLayer };

// The most that a training step may make while it runs: activations, gradients, temporaries and workspaces, packed.
struct ActivationBudget {
  int64_t bytes = 0;  // 0: the fraction
  // Between the plan that recomputes every layer (0) and the one that recomputes none (1).
  double fraction = 1;

  bool operator==(const ActivationBudget&) const = default;
};

// Options of float16 training. The scale grows by 2 and shrinks by 0.5, as in torch.amp.GradScaler.
struct LossScaleOptions {
  float fixed = 0;  // 0: dynamic, with the settings below
  float initial = 65536;
  int32_t growth_interval = 2000;  // applied steps in a row before the scale grows
  int32_t hysteresis = 1;          // overflows before the scale shrinks
  float minimum = 1;
};

// A value of recompute_every_n_layers: round(√L) of a model's L layers, which minimizes the inputs of all
// groups plus the activations of one group (Chen et al., 2016).
inline constexpr int64_t kRootOfLayers = -1;

// Low-rank adapters (passes/lora.h). Module names are matched like PEFT's target_modules.
struct LoraOptions {
  int64_t rank = 0;  // 0: off
  float alpha = 8;
  float dropout = 0;  // of an adapter's input
  std::vector<std::string> targets =
      {};  // linear layers, or "all-linear"; empty: the model's (Model::lora_targets)
  // Modules that are trained whole. Empty: the layer of the logits; "none": no module.
  std::vector<std::string> modules_to_save = {};
};

// Ranks that share a step (passes/data_parallel.h), and what they share of the weights' memory (passes/zero.h).
// How ranks share the work of a step.
enum class ParallelMode {
  kDistributed,  // each updates its own weights, or its part of them (passes/data_parallel.h, zero.h, local_sgd.h)
  kReplicas,  // the first updates, the others compute for it (passes/replicas.h)
};

struct RankOptions {
  ParallelMode mode = ParallelMode::kDistributed;
  int64_t world_size = 1;
  int64_t rank = 0;
  int64_t bucket_bytes = int64_t{25} << 20;  // of gradients that are sent together
  // What is sharded: nothing, optimizer states, gradients too, weights too.
  int64_t zero_stage = 0;
  int64_t zero_prefetch_layers = 1;              // stage 3: how many layers ahead weights are gathered
  int64_t zero_persistence_threshold = 100'000;  // stage 3: weights of no more elements stay whole
  // Local SGD (passes/local_sgd.h): after how many steps weights are averaged; 0: gradients are summed in every step.
  int64_t local_sgd_steps = 0;
  float outer_learning_rate = 1;
  float outer_momentum = 0;
  // Ranks in a row that share; 0: all. Each such group has everything, and gradients are summed over all groups.
  int64_t zero_group_size = 0;
  // Ranks in a row that each host has, but for the last one, which may have fewer; 0: one host has all. Programs are the
  // same: it says over which links their messages go (analysis/rank_traffic.h).
  int64_t ranks_per_host = 0;

  // One rank trains alone anyway.
  bool are_replicas() const { return world_size > 1 && mode == ParallelMode::kReplicas; }
  // Whether this rank updates anything.
  bool updates() const { return !are_replicas() || rank == 0; }
  int64_t local_steps() const { return world_size > 1 ? local_sgd_steps : 0; }
  // One rank has everything, whatever the stage.
  int64_t stage() const { return world_size > 1 ? zero_stage : 0; }
  int64_t group_size() const { return stage() > 0 && zero_group_size > 0 ? zero_group_size : world_size; }
  int64_t groups() const { return world_size / group_size(); }
  int64_t place_in_group() const { return rank % group_size(); }
  int64_t ranks_of_host() const {
    return ranks_per_host > 0 ? std::min(ranks_per_host, world_size) : world_size;
  }
  bool are_on_several_hosts() const { return ranks_of_host() < world_size; }
};

struct StepOptions {
  Precision precision = Precision::kFloat32;
  std::optional<Precision> evaluation_precision = {};  // unset: as in training
  MasterWeights master_weights = MasterWeights::kFloat32;
  LossScaleOptions loss_scale;
  int64_t gradient_accumulation_steps = 1;
  AccumulationOrder accumulation_order = AccumulationOrder::kMicroBatch;
  RankOptions ranks;
  int64_t recompute_every_n_layers = 0;  // 0: off; kRootOfLayers: √L
  // What the forward makes and the backward makes again instead of keeping it, by name (passes/recompute_set.h). Not
  // with recompute_every_n_layers.
  std::set<std::string> recompute_set = {};
  std::optional<ActivationBudget> activation_budget =
      {};  // a session chooses the set; not with either of these
  bool update_in_backward = false;
  LoraOptions lora;
  std::vector<std::string> freeze;  // regular expressions; parameters with a match are frozen
  OptimizerOptions optimizer;
  // The weight decay of a parameter, given its name and the value of its standard group; unset: the standard
  // value.
  std::function<float(const std::string& name, float standard)> decay_of;
  float max_grad_norm = 1.0F;  // 0: no clipping
  float max_grad_value = 0;    // gradient elements are clamped to ± this after clipping; 0: off
  float label_smoothing = 0;
  float z_loss = 0;                  // of the training loss; evaluation has none
  std::vector<float> class_weights;  // one a class, for LossOptions; none: all alike
  float neftune_noise_alpha = 0;     // of the noise on embeddings; 0: none
  uint64_t seed = 42;
  std::set<std::string> skip_passes;  // names of the pass list
  std::string dump_directory;         // where every program is dumped after every pass; empty: nowhere

  // The micro-batches whose values wait for the backward together.
  int64_t micro_batches_together() const {
    return accumulation_order == AccumulationOrder::kLayer ? gradient_accumulation_steps : 1;
  }
};

}  // namespace shoehorn
