// The guides' hand-written loop: accumulation, checkpointing and a custom optimizer on the planned program
// that the Trainer runs. Then it checks that the loop takes the same memory as the Trainer, to the byte.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](guide::Setting& setting) {
    TrainingArguments training_args = guide::Setting::default_args();
    training_args.gradient_accumulation_steps = 4;
    training_args.gradient_checkpointing = true;
    training_args.fp16 = true;
    training_args.max_grad_norm = 0;  // the guides' loop does not clip

    const DataLoader dataloader(setting.dataset(), {.batch_size = 1});
    if (training_args.gradient_checkpointing) setting.model.gradient_checkpointing_enable();

    const Optimizer adam_bnb_optim = guide::adam_bnb_optim(training_args);
    Accelerator accelerator(training_args);
    auto [model, optimizer, loader] = accelerator.prepare(setting.model, adam_bnb_optim, dataloader);
    int64_t step = 0;
    for (const Batch& batch : loader) {
      Loss loss = model(batch).loss;
      loss = loss / training_args.gradient_accumulation_steps;
      accelerator.backward(loss);
      if (++step % training_args.gradient_accumulation_steps == 0) {
        optimizer.step();
        optimizer.zero_grad();
      }
    }
    std::printf("Loss: %.4f\n", accelerator.loss());
    print_gpu_utilization();

    training_args.per_device_train_batch_size = 1;
    const Trainer trainer(setting.model, training_args, setting.dataset(), {},
                          guide::with_optimizer(adam_bnb_optim));
    if (trainer.forecast().arena_bytes() != accelerator.forecast().arena_bytes())
      throw user_error("[accelerate] expected the Trainer's {} bytes, got {}",
                       trainer.forecast().arena_bytes(), accelerator.forecast().arena_bytes());
  });
}
