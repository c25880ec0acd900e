#include "train/accelerator.h"

#include <algorithm>

#include "arguments/neighbour_configs.h"
#include "graph/relative_step.h"
#include "io/file.h"
#include "session/batching.h"
#include "state/checkpoint.h"
#include "state/starting_weights.h"

namespace shoehorn {

Optimizer create_optimizer(const TrainingArguments& args) {
  return {.options = step_options_of(args).optimizer, .learning_rate = scaled_learning_rate(args)};
}

Scheduler get_scheduler(const TrainingArguments& args, int64_t num_training_steps) {
  return [schedule = schedule_of(args, num_training_steps)](int64_t step) {
    return schedule.learning_rate(step);
  };
}

Loss Loss::operator/(int64_t divisor) const {
  if (divisor < 1) throw user_error("[loss] expected a divisor of 1 or more, got {}", divisor);
  Loss divided = *this;
  divided.divisor_ *= divisor;
  return divided;
}

ModelOutput AcceleratedModel::operator()(const Batch& batch) const {
  return {accelerator_->loss_of(batch)};
}

void AcceleratedOptimizer::step() {
  accelerator_->step();
}

void AcceleratedOptimizer::zero_grad() {
  accelerator_->zero_grad();
}

double AcceleratedOptimizer::learning_rate() const {
  const Accelerator& accelerator = *accelerator_;
  const OptimizerSettings& settings = accelerator.optimizer_.options.settings;
  if (const auto own = relative_step_of(settings, accelerator.applied_updates_)) return *own;
  return accelerator.scheduler_ ? accelerator.scheduler_(accelerator.scheduler_steps_)
                                : accelerator.optimizer_.learning_rate;
}

void AcceleratedScheduler::step() {
  accelerator_->step_scheduler();
}

const Batch& AcceleratedDataLoader::Iterator::operator*() const {
  return accelerator_->batch_;
}

AcceleratedDataLoader::Iterator& AcceleratedDataLoader::Iterator::operator++() {
  accelerator_->next_batch();
  return *this;
}

bool AcceleratedDataLoader::Iterator::operator==(std::default_sentinel_t) const {
  return accelerator_->position_.given == 0;
}

AcceleratedDataLoader::Iterator AcceleratedDataLoader::begin() const {
  accelerator_->start_epoch();
  return Iterator(*accelerator_);
}

int64_t AcceleratedDataLoader::size() const {
  return accelerator_->run_->windows().schedule().micro_batches_per_epoch();
}

AccumulationScope::AccumulationScope(Accelerator& accelerator) : accelerator_(accelerator) {
  accelerator_.is_accumulating_ = true;
}

AccumulationScope::~AccumulationScope() {
  accelerator_.is_accumulating_ = false;
}

Accelerator::Accelerator(TrainingArguments args, AcceleratorOptions options)
    : args_(resolved(with_neighbour_configs(std::move(args)))), options_(std::move(options)) {
  validate(args_);
  if (args_.world_size > 1)
    throw user_error("[world_size] expected 1 in a loop of one's own, got {}; Trainer runs on ranks",
                     args_.world_size);
  if (args_.auto_find_batch_size) {
    throw user_error(
        "[auto_find_batch_size] expected false with an Accelerator, whose DataLoader says the batch size, "
        "got true");
  }
  if (!args_.batch_size_ramp.empty()) {
    throw user_error(
        "[batch_size_ramp] expected none with an Accelerator, whose loop counts gradient_accumulation_steps, "
        "got {}",
        fmt::join(args_.batch_size_ramp, ","));
  }
}

Accelerator::~Accelerator() = default;

std::tuple<AcceleratedModel, AcceleratedOptimizer, AcceleratedDataLoader> Accelerator::prepare(
    const Model& model, Optimizer optimizer, DataLoader loader) {
  if (run_ != nullptr)
    throw user_error("[Accelerator: prepare] expected to be called once, got a second call");
  model_ = &model;
  if (options_.weights.empty()) options_.weights = model.weights_directory();
  optimizer_ = std::move(optimizer);
  loader_.emplace(std::move(loader));
  args_ = with_loader(std::move(args_), loader_->options());
  validate(args_);
  check_data(model, loader_->dataset(), "training");
  run_ = std::make_unique<PlannedRun>(model, args_, RunData{.train = &loader_->dataset()},
                                      PlannedRunOptions{.optimizer = optimizer_.options,
                                                        .optimizer_groups = optimizer_.groups,
                                                        .backend = options_.backend});
  return {AcceleratedModel(*this), AcceleratedOptimizer(*this), AcceleratedDataLoader(*this)};
}

std::tuple<AcceleratedModel, AcceleratedOptimizer, AcceleratedDataLoader, AcceleratedScheduler>
Accelerator::prepare(const Model& model, Optimizer optimizer, DataLoader loader, Scheduler scheduler) {
  const auto handles = prepare(model, std::move(optimizer), std::move(loader));
  scheduler_ = std::move(scheduler);
  return std::tuple_cat(handles, std::tuple(AcceleratedScheduler(*this)));
}

void Accelerator::require_prepared() const {
  if (run_ == nullptr) throw user_error("[Accelerator] expected prepare() first, got a call before it");
}

void Accelerator::reserve() {
  require_prepared();
  if (is_started_) return;
  run_->reserve();
  originals_ = start_run({.weights = options_.weights,
                          .seed = args_.seed,
                          .ignore_mismatched_sizes = args_.ignore_mismatched_sizes,
                          .on_line = options_.on_line},
                         run_->session());
  is_started_ = true;
}

void Accelerator::start_epoch() {
  reserve();
  leave_window();
  run_->windows().start_epoch(epochs_begun_++);
  position_ = {};
  next_batch();
}

// After the last micro-batch of the epoch nothing is given.
void Accelerator::next_batch() {
  if (position_.given == position_.window.micro_batches) {
    leave_window();
    position_ = {};
    if (!run_->windows().next_window(position_.window)) return;
  }
  const int64_t first = position_.window.first_micro_batch + position_.given;
  batch_.size_ = std::min(args_.per_device_train_batch_size,
                          loader_->dataset().epoch_size() - first * args_.per_device_train_batch_size);
  ++batch_.number_;
  ++position_.given;
}

void Accelerator::leave_window() const {
  if (position_.backwards == 0 || position_.is_stepped) return;
  throw user_error(
      "[Accelerator] expected optimizer.step() after the {} micro-batches of an effective batch, got none "
      "after backward of {}; the last effective batch of an epoch may be short: step where "
      "accelerator.sync_gradients() says so, or under accelerator.accumulate()",
      position_.window.micro_batches, position_.backwards);
}

Loss Accelerator::loss_of(const Batch& batch) {
  Loss loss;
  loss.batch_number_ = batch.number_;
  return loss;
}

void Accelerator::backward(const Loss& loss) {
  require_prepared();
  if (loss.batch_number_ != batch_.number_ || position_.given == 0) {
    throw user_error(
        "[Accelerator: backward] expected the loss of the loader's current batch, got that of another");
  }
  if (position_.backwards >= position_.given) {
    throw user_error("[Accelerator: backward] expected each batch once, got micro-batch {} of {} again",
                     position_.given, position_.window.micro_batches);
  }
  if (position_.backwards + 1 < position_.given) {
    throw user_error(
        "[Accelerator: backward] expected micro-batch {} of {}, got {}; an effective batch is planned whole: "
        "take all of its batches or none",
        position_.backwards + 1, position_.window.micro_batches, position_.given);
  }
  const int64_t divisor = is_accumulating_ ? 1 : args_.gradient_accumulation_steps;
  if (loss.divisor_ != divisor) {
    throw user_error(
        "[Accelerator: backward] expected a loss divided by {}{}, got one divided by {}", divisor,
        is_accumulating_ ? ", because accumulate() divides" : ", the gradient_accumulation_steps",
        loss.divisor_);
  }
  if (!is_zeroed_) {
    throw user_error(
        "[Accelerator: backward] expected optimizer.zero_grad() after optimizer.step(), got none; a planned "
        "step begins with gradients of zero");
  }
  if (position_.backwards == 0)
    run_->runner().begin({steps_, applied_updates_, position_.window.target_weight});
  run_->runner().run_micro_batch(run_->windows(), position_.window, position_.backwards);
  ++position_.backwards;
}

AccumulationScope Accelerator::accumulate(const AcceleratedModel&) {
  require_prepared();
  return AccumulationScope(*this);
}

bool Accelerator::sync_gradients() const {
  return position_.given > 0 && position_.given == position_.window.micro_batches;
}

void Accelerator::check_clipping(const char* call, const char* argument, double prepared,
                                 double given) const {
  if (given != prepared) {
    throw user_error("[Accelerator: {}] expected {} {}, which was prepared, got {}; set it in the arguments",
                     call, argument, prepared, given);
  }
  if (position_.backwards != position_.window.micro_batches || position_.is_stepped) {
    throw user_error(
        "[Accelerator: {}] expected to be called between the last backward of a step and optimizer.step(), "
        "got {} of {} micro-batches{}",
        call, position_.backwards, position_.window.micro_batches, position_.is_stepped ? " and a step" : "");
  }
}

void Accelerator::clip_grad_norm(double max_norm) {
  require_prepared();
  if (waits()) return;
  check_clipping("clip_grad_norm", "max_grad_norm", args_.max_grad_norm, max_norm);
  position_.is_clipped = true;
}

void Accelerator::clip_grad_value(double clip_value) {
  require_prepared();
  if (waits()) return;
  check_clipping("clip_grad_value", "max_grad_value", args_.max_grad_value, clip_value);
  position_.is_cut = true;
}

void Accelerator::step() {
  require_prepared();
  if (waits()) return;
  if (position_.is_stepped || position_.backwards == 0) {
    throw user_error(
        "[optimizer.step] expected accelerator.backward() before it, got none since the last step");
  }
  if (position_.backwards != position_.window.micro_batches) {
    throw user_error(
        "[optimizer.step] expected backward of {} micro-batches, got {}; prepared with "
        "gradient_accumulation_steps {}",
        position_.window.micro_batches, position_.backwards, args_.gradient_accumulation_steps);
  }
  if (args_.max_grad_norm > 0 && !position_.is_clipped) {
    throw user_error(
        "[optimizer.step] expected accelerator.clip_grad_norm({}) before it, got none; prepare with "
        "max_grad_norm 0 to train without clipping",
        args_.max_grad_norm);
  }
  if (args_.max_grad_value > 0 && !position_.is_cut) {
    throw user_error("[optimizer.step] expected accelerator.clip_grad_value({}) before it, got none",
                     args_.max_grad_value);
  }
  last_step_ = run_->runner().finish(AcceleratedOptimizer(*this).learning_rate());
  ++steps_;
  if (!last_step_->is_skipped) ++applied_updates_;
  position_.is_stepped = true;
  is_zeroed_ = false;
}

void Accelerator::zero_grad() {
  require_prepared();
  if (waits()) return;
  if (position_.backwards > 0 && !position_.is_stepped) {
    throw user_error(
        "[optimizer.zero_grad] expected optimizer.step() before it, got {} of {} micro-batches; a planned "
        "step cannot drop some of them",
        position_.backwards, position_.window.micro_batches);
  }
  is_zeroed_ = true;
}

void Accelerator::step_scheduler() {
  if (waits()) return;
  if (last_step_ && last_step_->is_skipped) return;  // it moves with the updates
  if (scheduler_steps_ >= applied_updates_) {
    throw user_error("[scheduler.step] expected optimizer.step() before it, got {} and {} steps",
                     scheduler_steps_, applied_updates_);
  }
  ++scheduler_steps_;
}

const StepResult& Accelerator::last_step() const {
  if (!last_step_) throw user_error("[Accelerator] expected optimizer.step() before its loss, got none");
  return *last_step_;
}

double Accelerator::loss() const {
  return last_step().loss;
}

double Accelerator::grad_norm() const {
  return last_step().grad_norm;
}

void Accelerator::save_model(const std::filesystem::path& directory) {
  reserve();
  save_model_directory({*model_, run_->session(), args_, {}, {}, {}, originals_ ? &*originals_ : nullptr},
                       run_->executor(), directory, args_.lora_merge);
}

}  // namespace shoehorn
