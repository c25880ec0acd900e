// The settings of each optimizer, with the defaults of the implementation that it reproduces.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

namespace shoehorn {

// torch.optim.AdamW
struct AdamWSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// torch.optim.SGD with dampening 0
struct SgdSettings {
  double momentum = 0;
  bool nesterov = false;
};

// torch.optim.Adagrad
struct AdagradSettings {
  double lr_decay = 0;
  double epsilon = 1e-10;
};

// torch.optim.RMSprop
struct RmsPropSettings {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  bool centered = false;
};

// Chen et al., "Symbolic discovery of optimization algorithms" (2023), with decoupled weight decay
struct LionSettings {
  double beta1 = 0.9;
  double beta2 = 0.99;
};

// transformers.optimization.Adafactor; scale_parameter and relative_step as the Trainer creates it
struct AdafactorSettings {
  double gradient_epsilon = 1e-30;  // eps[0]
  double parameter_epsilon = 1e-3;  // eps[1]
  double clip_threshold = 1;
  double decay_rate = -0.8;
  std::optional<double> beta1 = {};  // unset: no first moment
  bool scale_parameter = false;
  bool relative_step = false;  // true: the given learning rate is not read
  bool warmup_init = false;
};

// The number of elements that share one scale in 8-bit states, as in bitsandbytes.
inline constexpr int64_t kStateBlock = 256;

// Which parameters keep their states in 8 bits, as in bitsandbytes and the Trainer: large ones except
// embeddings. The others keep 32 bits.
struct EightBitStates {
  int64_t least_elements = 4096;  // min_8bit_size
  bool of_embeddings = false;
};

// bitsandbytes.optim.AdamW and .Lion with optim_bits 8
struct AdamW8bitSettings {
  AdamWSettings adamw = {};
  EightBitStates states = {};
};
struct Lion8bitSettings {
  LionSettings lion = {};
  EightBitStates states = {};
};

using OptimizerSettings = std::variant<AdamWSettings, SgdSettings, AdagradSettings, RmsPropSettings,
                                       LionSettings, AdafactorSettings, AdamW8bitSettings, Lion8bitSettings>;

}  // namespace shoehorn
