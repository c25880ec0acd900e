// The memory that weights take. Loads the model of --model_name_or_path DIR (or initializes one), and trains
// nothing. A trainer without training data keeps weights only; their first use reserves the memory.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting& setting) {
    const std::string directory = setting.model.weights_directory().string();
    if (directory.empty())
      std::printf(
          "New weights, drawn at random: without --model_name_or_path DIR there is nothing to load.\n");
    else
      std::printf("The weights of %s.\n", directory.c_str());
    Dataset one = Dataset::random_tokens({.count = 1,
                                          .length = 16,
                                          .vocab_begin = 0,
                                          .vocab_end = static_cast<int32_t>(setting.model.vocab_size())});
    Trainer loaded(setting.model, guide::Setting::default_args(), {}, std::move(one));
    loaded.evaluate();
    std::printf("Weights: %.1f MB.\n",
                static_cast<double>(loaded.forecast().by_role.at("weight")) / (1 << 20));
    print_gpu_utilization();
  });
}
