// DataLoader(pin_memory=True, ...) and DataLoader(num_workers=4, ...): a thread packs the next batch while
// this one computes. The batches, and so the losses, are the same.
#include "guide.h"

using namespace shoehorn;

namespace {

double last_loss(const guide::Setting& setting, const DataLoaderOptions& options) {
  const TrainingArguments training_args = guide::Setting::default_args();
  Accelerator accelerator(training_args);
  auto [model, optimizer, loader] = accelerator.prepare(setting.model, create_optimizer(training_args),
                                                        DataLoader(setting.dataset(), options));
  for (const Batch& batch : loader) {
    accelerator.backward(model(batch).loss);
    accelerator.clip_grad_norm(training_args.max_grad_norm);
    optimizer.step();
    optimizer.zero_grad();
  }
  return accelerator.loss();
}

}  // namespace

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    const double pinned = last_loss(setting, {.batch_size = 4, .pin_memory = true});
    const double with_workers = last_loss(setting, {.batch_size = 4, .num_workers = 4});
    std::printf("pin_memory: loss %.6f\nnum_workers 4: loss %.6f\n", pinned, with_workers);
    if (pinned != with_workers) throw user_error("[data_loader] expected equal losses, got different ones");
  });
}
