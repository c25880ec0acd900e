// "If you use your own trainer": bf16 in a hand-written loop. The precision belongs to the prepared program,
// so there is no context to enter.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    TrainingArguments training_args = guide::Setting::default_args();
    training_args.bf16 = true;
    Accelerator accelerator(training_args);
    auto [model, optimizer, loader] = accelerator.prepare(setting.model, create_optimizer(training_args),
                                                          DataLoader(setting.dataset(), {.batch_size = 4}));
    for (const Batch& batch : loader) {
      const auto scope = accelerator.accumulate(model);
      accelerator.backward(model(batch).loss);
      accelerator.clip_grad_norm(training_args.max_grad_norm);
      optimizer.step();
      optimizer.zero_grad();
      std::printf("loss %.4f\n", accelerator.loss());
    }
  });
}
