// What shapes the programs of a run: the settings that passes act on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace shoehorn {

enum class Precision : uint8_t { kFloat32, kBfloat16, kFloat16 };
// What bf16 training keeps of a weight beside the bf16 number that products read: the rest of its fp32
// master, or nothing, so that updates round stochastically.
enum class MasterWeights : uint8_t { kFloat32, kNone };
enum class AccumulationOrder : uint8_t { kMicroBatch, kLayer };

// Of float16 training. Growth ×2 and back-off ×0.5, as torch.amp.GradScaler has them.
struct LossScaleOptions {
  float fixed = 0;  // 0: dynamic, as follows
  float initial = 65536;
  int32_t growth_interval = 2000;  // applied steps in a row
  int32_t hysteresis = 1;          // overflows until it backs off
  float minimum = 1;
};

// recompute_every_n_layers of a model of L layers: round(√L), where inputs of groups and activations of one
// group together are fewest (Chen et al., 2016).
inline constexpr int64_t kRootOfLayers = -1;

// Low-rank adapters (passes/lora.h); the names of modules are matched as PEFT matches its target_modules.
struct LoraOptions {
  int64_t rank = 0;  // 0: off
  float alpha = 8;
  float dropout = 0;  // of what an adapter reads
  std::vector<std::string> targets =
      {};  // linear layers, or "all-linear"; empty: the model's (Model::lora_targets)
  // Trained whole; empty: the layer of the logits; "none": nothing.
  std::vector<std::string> modules_to_save = {};
};

struct StepOptions {
  Precision precision = Precision::kFloat32;
  std::optional<Precision> evaluation_precision = {};  // unset: that of training
  MasterWeights master_weights = MasterWeights::kFloat32;
  LossScaleOptions loss_scale;
  int64_t gradient_accumulation_steps = 1;
  AccumulationOrder accumulation_order = AccumulationOrder::kMicroBatch;
  int64_t recompute_every_n_layers = 0;  // 0: off; kRootOfLayers: the root of their number
  bool update_in_backward = false;
  LoraOptions lora;
  std::vector<std::string> freeze;  // regular expressions: parameters of such a name are not trained
  OptimizerOptions optimizer;
  // The weight decay of a parameter, given its name and what the two standard groups say; unset: as they say.
  std::function<float(const std::string& name, float standard)> decay_of;
  float max_grad_norm = 1.0F;  // 0: no clipping
  float max_grad_value = 0;    // elements of clipped gradients are cut at ± this; 0: not
  float label_smoothing = 0;
  float neftune_noise_alpha = 0;  // of the noise on embeddings; 0: none
  uint64_t seed = 42;
  std::set<std::string> skip_passes;  // names of the pass list
  std::string dump_directory;         // where every program is written after every pass; empty: nowhere
};

}  // namespace shoehorn
