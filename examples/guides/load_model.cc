// What the weights take: the model is loaded, and nothing is trained. A trainer without training data keeps
// weights only; the first use of them reserves the memory.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    Dataset one = Dataset::random_tokens({.count = 1, .length = 16, .vocab_begin = 100, .vocab_end = 1000});
    Trainer loaded(setting.model, guide::Setting::default_args(), {}, std::move(one));
    loaded.evaluate();
    std::printf("Weights: %.1f MB.\n",
                static_cast<double>(loaded.forecast().by_role.at("weight")) / (1 << 20));
    print_gpu_utilization();
  });
}
