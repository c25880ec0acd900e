// bf16: mixed precision with the range of fp32.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    TrainingArguments training_args = guide::Setting::default_args();
    training_args.per_device_train_batch_size = 4;
    training_args.bf16 = true;

    Trainer trainer(setting.model, training_args, setting.dataset());
    const TrainOutput result = trainer.train();
    print_summary(result);
  });
}
