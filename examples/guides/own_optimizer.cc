// 8-bit Adam, built by hand with two parameter groups and handed to the Trainer: biases and norms are not
// decayed.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    TrainingArguments training_args = guide::Setting::default_args();
    training_args.per_device_train_batch_size = 4;
    training_args.weight_decay = 0.01;

    const auto decays = [](const std::string& name) { return is_decayed(name); };
    const auto rest = [](const std::string&) { return true; };
    const AdamW8bitSettings adam{.adamw = {.beta1 = training_args.adam_beta1,
                                           .beta2 = training_args.adam_beta2,
                                           .epsilon = training_args.adam_epsilon}};
    const TrainerOptions optimizers{
        .optimizer = OptimizerOptions{.settings = adam},
        .optimizer_groups = {{decays, static_cast<float>(training_args.weight_decay)}, {rest, 0.0F}}};

    Trainer trainer(setting.model, training_args, setting.dataset(), {}, optimizers);
    const TrainOutput result = trainer.train();
    print_summary(result);
  });
}
