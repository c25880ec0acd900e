#include "data/training_steps.h"

#include <cmath>

#include "base/error.h"

namespace shoehorn {
namespace {

// Optimizer steps of so many epochs; of the last one, which may be a part, that part rounded up.
double steps_of_epochs(const WindowSchedule& schedule, double epochs) {
  // Behind a ramp all epochs are alike, and there may be many.
  const auto steps_in = [&schedule](int64_t epoch) { return static_cast<double>(schedule.steps_in(epoch)); };
  double steps = 0;
  int64_t epoch = 0;
  for (; epoch < schedule.ramp_epochs() && static_cast<double>(epoch) + 1 <= epochs; ++epoch)
    steps += steps_in(epoch);
  return steps + std::ceil((epochs - static_cast<double>(epoch)) * steps_in(epoch));
}

}  // namespace

TrainingSteps training_steps(const TrainingStepsOptions& options) {
  const WindowSchedule schedule({.samples = options.samples,
                                 .micro_batch_size = options.micro_batch_size,
                                 .gradient_accumulation_steps = options.gradient_accumulation_steps,
                                 .drop_last = options.drop_last,
                                 .ramp = options.ramp});
  TrainingSteps steps{};
  steps.micro_batches_per_epoch = schedule.micro_batches_per_epoch();
  steps.update_steps_per_epoch = schedule.steps_in(0);
  if (options.max_steps > 0) {
    steps.max_steps = options.max_steps;
    steps.num_train_epochs = schedule.resume_point(options.max_steps - 1).epoch + 1;
    steps.num_train_samples = options.ramp.empty()
                                  ? static_cast<double>(options.max_steps) *
                                        static_cast<double>(options.micro_batch_size) *
                                        static_cast<double>(options.gradient_accumulation_steps)
                                  : static_cast<double>(schedule.samples_before(options.max_steps));
    return steps;
  }
  const double update_steps = steps_of_epochs(schedule, options.num_train_epochs);
  if (!(options.num_train_epochs > 0) || !(update_steps < 0x1p62)) {
    throw user_error("[num_train_epochs] expected a positive number of epochs, got {}; or set max_steps",
                     options.num_train_epochs);
  }
  steps.max_steps = static_cast<int64_t>(update_steps);
  steps.num_train_epochs = static_cast<int64_t>(std::ceil(options.num_train_epochs));
  steps.num_train_samples = static_cast<double>(options.samples) * options.num_train_epochs;
  return steps;
}

}  // namespace shoehorn
