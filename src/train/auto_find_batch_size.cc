#include "train/auto_find_batch_size.h"

#include <fmt/format.h>

#include <vector>

#include "state/checkpoint.h"

namespace shoehorn {

int64_t first_batch_size(const TrainingArguments& args) {
  if (args.resume_from_checkpoint.empty()) return args.per_device_train_batch_size;
  std::vector<std::string> notes;  // the trainer says them when it resumes
  const TrainerState state = load_trainer_state(find_checkpoint(args, notes) / "trainer_state.json");
  return state.train_batch_size.value_or(args.per_device_train_batch_size);
}

std::string format_found_batch_size(const TrainingArguments& asked, const TrainingArguments& planned) {
  if (!asked.auto_find_batch_size) return {};
  const int64_t found = planned.per_device_train_batch_size;
  if (found == asked.per_device_train_batch_size)
    return fmt::format("auto_find_batch_size: {} a device, as asked for\n", found);
  return fmt::format("auto_find_batch_size: {} a device in place of {}\n", found,
                     asked.per_device_train_batch_size);
}

}  // namespace shoehorn
