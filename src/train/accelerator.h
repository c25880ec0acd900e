// Hand-written training loops on the planned program that the Trainer runs, with the interface of Hugging
// Face's Accelerate:
//
//   Accelerator accelerator(args);
//   auto [prepared, optimizer, loader, scheduler] =
//       accelerator.prepare(model, create_optimizer(args), DataLoader(dataset, {.batch_size = 1}),
//                           get_scheduler(args, steps));
//   int64_t step = 0;
//   for (const Batch& batch : loader) {
//     Loss loss = prepared(batch).loss;
//     loss = loss / args.gradient_accumulation_steps;
//     accelerator.backward(loss);
//     if (++step % args.gradient_accumulation_steps == 0) {
//       accelerator.clip_grad_norm(args.max_grad_norm);
//       optimizer.step();
//       scheduler.step();
//       optimizer.zero_grad();
//     }
//   }
//
// Or with `const auto scope = accelerator.accumulate(prepared);` at the start of the loop's body, and without
// the division and the `if`: calls that belong to the last micro-batch then do nothing before it.
//
// The step was planned before the loop began. So the calls do not build a step; each says which part of it is
// due:
//   prepared(batch)  nothing runs; the Loss stands for this micro-batch
//   backward         runs its forward and backward; if the step is one program (one micro-batch per step, or
//                    layer-major order) it only sets the inputs, and step() runs everything
//   clip_grad_norm   nothing runs; clipping is part of the update, and so is clip_grad_value
//   optimizer.step   runs the update; afterwards loss() and grad_norm() have values
//   zero_grad        nothing runs; a planned step overwrites the gradients of the one before
//
// So a Loss has no number. loss() is that of the step: the mean over the targets of its effective batch, as
// the Trainer logs it. The division above is checked; micro-batches of unequal size get the right weights.
//
// UserError at the first call that departs from the plan: a micro-batch is skipped or given twice, a step has
// too few of them, another divisor, a maximum norm other than max_grad_norm, a step without zero_grad after
// the previous one, a scheduler ahead of the optimizer. With equal settings a loop takes the same memory as
// the Trainer, to the byte, and gives its losses and weights bit for bit.
//
// Of TrainingArguments it reads those that shape a step and its memory: precision, accumulation,
// checkpointing, clipping, label smoothing, freezing, seed, memory_budget, detect_anomaly, pad_to_max_length.
// Batches come from the DataLoader; optimizer and schedule are what was passed to prepare(); everything else
// is up to the loop. One thread at a time.
#pragma once

#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "arguments/step_settings.h"
#include "arguments/training_arguments.h"
#include "model/model_builder.h"
#include "optim/optimizer.h"
#include "session/memory_forecast.h"
#include "state/original_weights.h"
#include "train/data_loader.h"
#include "train/planned_run.h"

namespace shoehorn {

struct Optimizer {
  OptimizerOptions options = {};
  double learning_rate = 5e-5;
  std::vector<ParameterGroup> groups = {};  // replace the Trainer's two
};

// The optimizer that the Trainer would create, from optim, learning_rate, …; and its schedule, from
// lr_scheduler_type, …, for a run of `num_training_steps`.
Optimizer create_optimizer(const TrainingArguments& args);
// The learning rate of each optimizer step; the first is step 0.
using Scheduler = std::function<double(int64_t step)>;
Scheduler get_scheduler(const TrainingArguments& args, int64_t num_training_steps);

class Accelerator;

// A micro-batch of the loader. Valid until the next one.
class Batch {
 public:
  int64_t size() const { return size_; }  // sequences

 private:
  friend class Accelerator;
  int64_t number_ = 0;  // how many were handed out before
  int64_t size_ = 0;
};

// Stands for the loss of a micro-batch, which has no number yet.
class Loss {
 public:
  Loss operator/(int64_t divisor) const;

 private:
  friend class Accelerator;
  int64_t batch_number_ = 0;
  int64_t divisor_ = 1;
};

struct ModelOutput {
  Loss loss;
};

// What prepare() returns: handles that may be copied; valid as long as the accelerator.
class AcceleratedModel {
 public:
  ModelOutput operator()(const Batch& batch) const;

 private:
  friend class Accelerator;
  explicit AcceleratedModel(Accelerator& accelerator) : accelerator_(&accelerator) {}
  Accelerator* accelerator_;
};

class AcceleratedOptimizer {
 public:
  void step();
  void zero_grad();
  double learning_rate() const;  // of the next step

 private:
  friend class Accelerator;
  explicit AcceleratedOptimizer(Accelerator& accelerator) : accelerator_(&accelerator) {}
  Accelerator* accelerator_;
};

class AcceleratedScheduler {
 public:
  void step();

 private:
  friend class Accelerator;
  explicit AcceleratedScheduler(Accelerator& accelerator) : accelerator_(&accelerator) {}
  Accelerator* accelerator_;
};

// Each `for` over it is an epoch. The first one reserves the memory.
class AcceleratedDataLoader {
 public:
  class Iterator {
   public:
    const Batch& operator*() const;
    Iterator& operator++();
    bool operator==(std::default_sentinel_t) const;

   private:
    friend class AcceleratedDataLoader;
    explicit Iterator(Accelerator& accelerator) : accelerator_(&accelerator) {}
    Accelerator* accelerator_;
  };
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }
  int64_t size() const;  // micro-batches per epoch

 private:
  friend class Accelerator;
  explicit AcceleratedDataLoader(Accelerator& accelerator) : accelerator_(&accelerator) {}
  Accelerator* accelerator_;
};

// While it lives, the accelerator decides which calls of the loop's body take effect.
class [[nodiscard]] AccumulationScope {
 public:
  AccumulationScope(const AccumulationScope&) = delete;
  AccumulationScope& operator=(const AccumulationScope&) = delete;
  ~AccumulationScope();

 private:
  friend class Accelerator;
  explicit AccumulationScope(Accelerator& accelerator);
  Accelerator& accelerator_;
};

struct AcceleratorOptions {
  // As in TrainerOptions: the directory with the weights to start from. Empty: the model's own
  // (from_pretrained) or, if it has none, new weights from the initializers and `seed`.
  std::filesystem::path weights = {};
  // As in TrainerOptions.
  std::shared_ptr<const Backend> backend = {};
  // Called when memory is reserved, with notices: which weights are new, where fp16 may overflow. Unset: no
  // notices.
  std::function<void(const std::string& line)> on_line = {};
};

class Accelerator {
 public:
  explicit Accelerator(TrainingArguments args, AcceleratorOptions options = {});
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  // Plans; reserves nothing. Call it once. `model` must outlive the accelerator. UserError as in Trainer's
  // constructor.
  std::tuple<AcceleratedModel, AcceleratedOptimizer, AcceleratedDataLoader> prepare(const Model& model,
                                                                                    Optimizer optimizer,
                                                                                    DataLoader loader);
  std::tuple<AcceleratedModel, AcceleratedOptimizer, AcceleratedDataLoader, AcceleratedScheduler> prepare(
      const Model& model, Optimizer optimizer, DataLoader loader, Scheduler scheduler);

  void backward(const Loss& loss);
  AccumulationScope accumulate(const AcceleratedModel& model);
  // True if the loader's current micro-batch is the last of its effective batch.
  bool sync_gradients() const;
  void clip_grad_norm(double max_norm);
  void clip_grad_value(double clip_value);

  // The values of the last optimizer step. Call them after a step only.
  double loss() const;
  double grad_norm() const;  // before clipping

  const MemoryForecast& forecast() const { return run_->forecast(); }
  Session& session() { return run_->session(); }
  // Writes config.json and weights to `directory`, which is created if it does not exist.
  void save_model(const std::filesystem::path& directory);

 private:
  friend class AcceleratedModel;
  friend class AcceleratedOptimizer;
  friend class AcceleratedScheduler;
  friend class AcceleratedDataLoader;
  friend class AcceleratedDataLoader::Iterator;
  friend class AccumulationScope;

  // The position of the loop in the current effective batch.
  struct LoopPosition {
    Window window;
    int64_t given = 0;      // micro-batches handed out
    int64_t backwards = 0;  // of which backward() was called
    bool is_clipped = false;
    bool is_cut = false;
    bool is_stepped = false;
  };

  static Loss loss_of(const Batch& batch);
  void require_prepared() const;
  void check_clipping(const char* call, const char* argument, double prepared, double given) const;
  void reserve();
  void start_epoch();
  void next_batch();
  void leave_window() const;
  void step();
  void zero_grad();
  void step_scheduler();
  bool waits() const { return is_accumulating_ && !sync_gradients(); }
  const StepResult& last_step() const;

  TrainingArguments args_;
  AcceleratorOptions options_;
  std::optional<OriginalWeights> originals_;  // the files that the weights were read from
  const Model* model_ = nullptr;
  Optimizer optimizer_;
  Scheduler scheduler_;
  std::optional<DataLoader> loader_;
  std::unique_ptr<PlannedRun> run_;
  bool is_started_ = false;

  LoopPosition position_;
  Batch batch_;
  int64_t epochs_begun_ = 0;
  int64_t steps_ = 0;
  int64_t applied_updates_ = 0;
  int64_t scheduler_steps_ = 0;
  bool is_zeroed_ = true;
  bool is_accumulating_ = false;
  std::optional<StepResult> last_step_;
};

}  // namespace shoehorn
