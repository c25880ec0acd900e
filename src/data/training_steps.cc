#include "data/training_steps.h"

#include <cmath>

#include "base/error.h"

namespace shoehorn {
namespace {

int64_t divide_rounding_up(int64_t a, int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

}  // namespace

TrainingSteps training_steps(const TrainingStepsOptions& options) {
  const int64_t batch = options.micro_batch_size;
  const int64_t accumulation = options.gradient_accumulation_steps;
  if (options.samples < 1)
    throw user_error("[train_dataset] expected at least one sample, got {}", options.samples);
  if (batch < 1) throw user_error("[per_device_train_batch_size] expected at least 1, got {}", batch);
  if (accumulation < 1)
    throw user_error("[gradient_accumulation_steps] expected at least 1, got {}", accumulation);

  TrainingSteps steps{};
  steps.micro_batches_per_epoch =
      options.drop_last ? options.samples / batch : divide_rounding_up(options.samples, batch);
  if (steps.micro_batches_per_epoch == 0) {
    throw user_error(
        "[dataloader_drop_last] expected at least one whole batch of {}, got {} samples; lower "
        "per_device_train_batch_size or leave dataloader_drop_last off",
        batch, options.samples);
  }
  steps.update_steps_per_epoch = divide_rounding_up(steps.micro_batches_per_epoch, accumulation);
  if (options.max_steps > 0) {
    steps.max_steps = options.max_steps;
    steps.num_train_epochs = divide_rounding_up(options.max_steps, steps.update_steps_per_epoch);
    steps.num_train_samples = static_cast<double>(options.max_steps) * static_cast<double>(batch) *
                              static_cast<double>(accumulation);
    return steps;
  }
  const double update_steps =
      std::ceil(options.num_train_epochs * static_cast<double>(steps.update_steps_per_epoch));
  if (!(options.num_train_epochs > 0) || !(update_steps < 0x1p62)) {
    throw user_error("[num_train_epochs] expected a positive number of epochs, got {}; or set max_steps",
                     options.num_train_epochs);
  }
  steps.max_steps = static_cast<int64_t>(update_steps);
  steps.num_train_epochs = static_cast<int64_t>(std::ceil(options.num_train_epochs));
  steps.num_train_samples = static_cast<double>(options.samples) * options.num_train_epochs;
  return steps;
}

ResumePoint resume_point(const TrainingSteps& steps, int64_t global_step) {
  CHECK(global_step >= 0, "global step {}", global_step);
  return {global_step / steps.update_steps_per_epoch, global_step % steps.update_steps_per_epoch};
}

}  // namespace shoehorn
