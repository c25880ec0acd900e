// The guides' default_args set eval_strategy to "steps" without an evaluation set. Here that is an error that
// says so; the Trainer of that time silently went on.
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
