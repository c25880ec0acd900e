// Adafactor on top of accumulation, checkpointing and fp16.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    TrainingArguments training_args = guide::Setting::default_args();
    training_args.per_device_train_batch_size = 1;
    training_args.gradient_accumulation_steps = 4;
    training_args.gradient_checkpointing = true;
    training_args.fp16 = true;
    training_args.optim = "adafactor";

    Trainer trainer(setting.model, training_args, setting.dataset());
    const TrainOutput result = trainer.train();
    print_summary(result);
  });
}
