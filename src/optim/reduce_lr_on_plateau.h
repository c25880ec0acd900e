// A learning rate that falls when a metric has stopped improving: torch.optim.lr_scheduler.ReduceLROnPlateau
// (2.15). The Trainer steps it with metric_for_best_model after each evaluation.
//
//   better                      mode min: metric < best (1 - threshold), with threshold_mode abs
//                               metric < best - threshold; max: the same with > and +. A NaN is never better
//   better: best = metric, bad_evaluations = 0; else one more of these
//   in cooldown                 one evaluation less of it, and bad_evaluations = 0
//   bad_evaluations > patience  rate = max(rate factor, min_lr), unless that changes it by eps or less; then
//                               cooldown begins, and bad_evaluations = 0
//
// There is no warm-up. Like a Schedule, a ReduceLrOnPlateau is an immutable value. What a run has seen is in
// a PlateauState, which the run keeps and checkpoints store.
#pragma once

#include <cstdint>
#include <string_view>

namespace shoehorn {

inline constexpr std::string_view kReduceLrOnPlateau = "reduce_lr_on_plateau";

// Hugging Face's lr_scheduler_kwargs for it, with torch's defaults.
struct PlateauOptions {
  bool is_max = false;       // mode: max, else min
  double factor = 0.1;       // in [0, 1)
  int64_t patience = 10;     // evaluations
  double threshold = 1e-4;   // 0 or more
  bool is_absolute = false;  // threshold_mode: abs, else rel
  int64_t cooldown = 0;      // evaluations
  double min_lr = 0;         // a learning rate
  double eps = 1e-8;         // a difference of learning rates
};

struct PlateauState {
  double learning_rate = 0;
  double best = 0;
  int64_t bad_evaluations = 0;
  int64_t cooldown_left = 0;

  bool operator==(const PlateauState&) const = default;
};

class ReduceLrOnPlateau {
 public:
  // `learning_rate` is the initial one. UserError naming an option that is out of range.
  ReduceLrOnPlateau(double learning_rate, const PlateauOptions& options);

  PlateauState start() const;
  // The state after an evaluation with this `metric`.
  PlateauState next(PlateauState state, double metric) const;

 private:
  bool is_better(double metric, double best) const;

  double learning_rate_;
  PlateauOptions options_;
};

}  // namespace shoehorn
