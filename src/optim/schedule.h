// Learning-rate schedules: the multiplier of the learning rate at each optimizer step.
//
// The formulas are those of transformers 5.23 (get_linear_schedule_with_warmup and the others); step 0 is the
// first update. W = warm-up steps, T = training steps, s = step:
//
//   warm-up (s < W)        s / max(1, W); with warmup_type log, DeepSpeed's standard, log(s + 1) / log(max(2, W))
//   linear                 max(0, (T - s) / max(1, T - W))
//   cosine                 max(0, (1 + cos(2 pi num_cycles progress)) / 2),
//                          progress = (s - W) / max(1, T - W)
//   cosine_with_restarts   0 from progress 1 on, else (1 + cos(pi frac(num_cycles progress))) / 2
//   polynomial             ((lr - lr_end) (1 - progress)^power + lr_end) / lr,  lr_end / lr beyond T
//   inverse_sqrt           1 / sqrt((s + timescale - W) / timescale)
//   …_with_min_lr          the cosine, squeezed into [min_lr_rate, 1]
//   warmup_stable_decay    warm-up, 1 for num_stable_steps, decay over num_decay_steps, then min_lr_ratio
//
// A Schedule is an immutable value and a pure function of the step, so resuming needs only the step.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

enum class ScheduleType : uint8_t {
  kLinear,
  kCosine,
  kCosineWithRestarts,
  kPolynomial,
  kConstant,
  kConstantWithWarmup,
  kInverseSqrt,
  kCosineWithMinLr,
  kCosineWarmupWithMinLr,
  kWarmupStableDecay,
};

// Hugging Face's lr_scheduler_kwargs. Unset members have transformers' defaults for the type. UserError if a
// member is set that the type does not take.
struct ScheduleOptions {
  std::optional<double> num_cycles{};        // cosines 0.5, cosine_with_restarts 1, warmup_stable_decay 0.5
  std::optional<double> power{};             // polynomial 1
  std::optional<double> lr_end{};            // polynomial 1e-7, a learning rate
  std::optional<double> timescale{};         // inverse_sqrt, steps: W, or 10,000 without warm-up
  std::optional<double> min_lr{};            // …_with_min_lr: this learning rate …
  std::optional<double> min_lr_rate{};       // … or this fraction of the first; exactly one of both
  std::optional<double> warmup_lr_rate{};    // cosine_warmup_with_min_lr: fraction at the first step
  std::optional<double> num_stable_steps{};  // warmup_stable_decay: T - W - num_decay_steps
  std::optional<double> num_decay_steps{};   // warmup_stable_decay: required
  std::optional<double> min_lr_ratio{};      // warmup_stable_decay 0
  std::optional<std::string>
      warmup_type{};  // linear; or cosine, 1-sqrt (warmup_stable_decay), or log (DeepSpeed)
  std::optional<std::string> decay_type{};  // warmup_stable_decay: cosine (or linear, 1-sqrt)
};

// The names of all types, spelled as in lr_scheduler_type. reduce_lr_on_plateau is not among them, because it
// is no function of the step: see reduce_lr_on_plateau.h.
const std::vector<std::string>& schedule_names();

// "cosine_with_min_lr" -> kCosineWithMinLr. UserError for an unknown name, and for those that follow a metric
// (reduce_lr_on_plateau, greedy).
ScheduleType parse_schedule_type(std::string_view name);

class Schedule {
 public:
  // `learning_rate` is the largest one; > 0 unless no option refers to it. warmup_steps and total_steps are
  // >= 0. UserError naming an option that the type does not take or that is missing or out of range.
  Schedule(ScheduleType type, double learning_rate, int64_t warmup_steps, int64_t total_steps,
           const ScheduleOptions& options = {});

  double multiplier(int64_t step) const;
  double learning_rate(int64_t step) const { return learning_rate_ * multiplier(step); }

 private:
  enum class Shape : uint8_t { kLinear, kCosine, kOneMinusSqrt };

  static Shape parse_shape(std::string_view option, const std::string& name);
  void set_warmup(const std::string& name);
  void check_options(const ScheduleOptions& options) const;
  void set_min_lr_rate(const ScheduleOptions& options);
  double cosine(double progress) const;
  double polynomial(double step) const;
  double cosine_warmup_with_min_lr(double step) const;
  double warmup_stable_decay(double step) const;
  double warmup(double step) const;
  double after_warmup(double step) const;

  ScheduleType type_;
  double learning_rate_;
  double warmup_steps_;
  double total_steps_;
  double num_cycles_ = 0.5;
  double power_ = 1.0;
  double lr_end_ = 1e-7;
  double timescale_ = 0.0;
  double min_lr_rate_ = 0.0;
  std::optional<double> warmup_lr_rate_;
  double num_stable_steps_ = 0.0;
  double num_decay_steps_ = 0.0;
  Shape warmup_shape_ = Shape::kLinear;
  bool has_log_warmup_ = false;
  Shape decay_shape_ = Shape::kCosine;
};

// The number of warm-up steps out of `total_steps`. A value of warmup_steps below 1 is a fraction of them,
// rounded up, as in TrainingArguments.get_warmup_steps.
int64_t warmup_step_count(double warmup_steps, int64_t total_steps);

}  // namespace shoehorn
