// 8-bit Adam, built by hand with two parameter groups (adam_bnb_optim in guide.h) and handed to the Trainer.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    TrainingArguments training_args = guide::Setting::default_args();
    training_args.per_device_train_batch_size = 4;
    training_args.weight_decay = 0.01;

    const Optimizer adam_bnb_optim = guide::adam_bnb_optim(training_args);
    Trainer trainer(setting.model, training_args, setting.dataset(), {},
                    guide::with_optimizer(adam_bnb_optim));
    const TrainOutput result = trainer.train();
    print_summary(result);
  });
}
