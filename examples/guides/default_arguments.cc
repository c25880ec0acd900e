// The guides' default_args. They set eval_strategy to "steps" and give no evaluation set: an error that says
// so, where the Trainer of the guides' time went on in silence.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    TrainingArguments default_args = guide::Setting::default_args();
    default_args.eval_strategy = "steps";
    try {
      Trainer trainer(setting.model, default_args, setting.dataset());
    } catch (const UserError& refusal) {
      std::printf("%s\n", refusal.what());
    }
    default_args.max_steps = 1;
    Trainer trainer(setting.model, default_args, setting.dataset(), setting.dataset());
    std::printf("%s", format_forecast(trainer.forecast()).c_str());
  });
}
