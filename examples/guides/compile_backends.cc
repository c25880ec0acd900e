// dynamo.optimize(backend): the debugging backends run the step without fusion, so that the fused step can be
// compared with it. Backends of other engines are refused by name.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    for (const char* backend : {"eager", "aot_eager", "inductor", "nvfuser", "aot_nvfuser", "aot_cudagraphs",
                                "ofi", "fx2trt", "onnxrt", "ipex"}) {
      TrainingArguments training_args = guide::Setting::default_args();
      training_args.max_steps = 2;
      training_args.torch_compile_backend = backend;
      try {
        Trainer trainer(setting.model, training_args, setting.dataset());
        std::printf("%-16s loss %.6f\n", backend, trainer.train().training_loss);
      } catch (const UserError& refusal) {
        std::printf("%-16s %s\n", backend, refusal.what());
      }
    }
  });
}
