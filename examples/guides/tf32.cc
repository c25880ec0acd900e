// TrainingArguments(tf32=True): a mode of NVIDIA's products, refused by name where there are none.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    TrainingArguments training_args = guide::Setting::default_args();
    training_args.tf32 = true;
    try {
      Trainer trainer(setting.model, training_args, setting.dataset());
    } catch (const UserError& refusal) {
      std::printf("%s\n", refusal.what());
    }
  });
}
