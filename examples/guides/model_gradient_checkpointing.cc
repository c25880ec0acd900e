// model.gradient_checkpointing_enable(): asked of the model in place of the arguments.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](guide::Setting& setting) {
    const auto planned_mebibytes = [&] {
      const Trainer trainer(setting.model, guide::Setting::default_args(), setting.dataset());
      return static_cast<double>(trainer.forecast().arena_bytes()) / (1 << 20);
    };
    std::printf("without: %.2f MB planned\n", planned_mebibytes());
    setting.model.gradient_checkpointing_enable();
    std::printf("with:    %.2f MB planned\n", planned_mebibytes());
  });
}
