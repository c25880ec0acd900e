#include "session/batch_report.h"

#include <fmt/format.h>

#include <vector>

#include "arguments/batch_size_ramp.h"
#include "base/plural.h"

namespace shoehorn {

namespace {

// Fewer updates than this between two looks at the same sample, and the guides' advice is a smaller batch.
constexpr int64_t kFewStepsAnEpoch = 10;

// The effective batch as what it is made of.
std::string division_of(const TrainingArguments& args) {
  const int64_t size = args.per_device_train_batch_size;
  const int64_t micro_batches = micro_batches_of_step(args);
  if (micro_batches % args.world_size != 0)
    return fmt::format("{} micro-batches of {} on {} ranks", micro_batches, size, args.world_size);
  std::string text = fmt::format("{} a device", size);
  if (args.gradient_accumulation_steps > 1)
    text += " x " + plural(args.gradient_accumulation_steps, "accumulation step");
  if (args.world_size > 1) text += " x " + plural(args.world_size, "rank");
  return text;
}

}  // namespace

std::string format_batch(const TrainingArguments& args, const TrainingSteps& steps) {
  std::string text = fmt::format("Effective batch {} = {}", effective_batch_size(args), division_of(args));
  const std::vector<RampStage> ramp = batch_size_ramp_of(args);
  for (size_t s = 0; s + 1 < ramp.size(); ++s) {
    text += fmt::format("; {}{} up to sample {}", s == 0 ? "growing: " : "",
                        ramp[s].micro_batches * args.per_device_train_batch_size, ramp[s + 1].samples);
  }
  text += fmt::format("; {} {} epoch, {} in all\n", plural(steps.update_steps_per_epoch, "step"),
                      ramp.empty() ? "an" : "in the first", steps.max_steps);
  if (args.scale_learning_rate != "none") {
    const bool is_root = args.scale_learning_rate == "sqrt";
    text += fmt::format("Learning rate {:.6g} = {:.6g} x {}{}/{}{}\n", scaled_learning_rate(args),
                        args.learning_rate, is_root ? "sqrt(" : "", effective_batch_size(args),
                        args.reference_batch_size.value_or(0), is_root ? ")" : "");
  }
  if (steps.update_steps_per_epoch < kFewStepsAnEpoch) {
    text += fmt::format(
        "Warning: an epoch updates the weights {} only; a smaller batch or a larger {} trains further\n",
        plural(steps.update_steps_per_epoch, "time"),
        args.max_steps > 0 ? "--max_steps" : "--num_train_epochs");
  }
  return text;
}

}  // namespace shoehorn
