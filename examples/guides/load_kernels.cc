// The memory that libraries take. The guides put a tiny tensor on the GPU, which loads the kernels; here a
// model with a handful of weights runs once.
#include "guide.h"

using namespace shoehorn;

int main(int argc, char** argv) {
  return guide::run(argc, argv, [](const guide::Setting&) {
    BertConfig config;
    config.vocab_size = config.max_position_embeddings = 16;
    config.hidden_size = config.intermediate_size = 16;
    config.num_hidden_layers = config.num_attention_heads = 1;
    const BertForSequenceClassification tiny(config);
    Dataset one = Dataset::random_tokens({.count = 1, .length = 8, .vocab_begin = 1, .vocab_end = 16});
    Trainer(tiny, guide::Setting::default_args(), {}, std::move(one)).evaluate();
    print_gpu_utilization();
  });
}
