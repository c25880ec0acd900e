// "Vanilla training", the first cell of the guides' ladder: BERT-large on 512 random sequences of 512 tokens,
// batch 4.
//
//   example_guide_vanilla_training [--small]
//
// --small: a small BERT on a few short sequences, in a second. Unlike the guide's, the labels are both 0
// and 1.
#include <cstdio>
#include <exception>
#include <random>
#include <string_view>

#include "shoehorn.h"

namespace {

using namespace shoehorn;

int run(bool small) {
  const int64_t dataset_size = small ? 16 : 512;
  const int64_t sequence_length = small ? 32 : 512;
  BertConfig config = BertConfig::bert_large();
  if (small) {
    config.vocab_size = 1000;
    config.hidden_size = config.intermediate_size = 64;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 4;
  }

  std::mt19937 random(42);
  Dataset::Rows input_ids(static_cast<size_t>(dataset_size));
  std::vector<int64_t> labels;
  for (auto& row : input_ids) {
    for (int64_t i = 0; i < sequence_length; ++i) row.push_back(100 + random() % (small ? 900 : 29900));
    labels.push_back(random() % 2);
  }
  Dataset dataset =
      Dataset::from_columns({{"input_ids", std::move(input_ids)}, {"labels", std::move(labels)}});

  TrainingArguments default_args;
  default_args.output_dir = "tmp";
  default_args.num_train_epochs = 1;
  default_args.log_level = "error";
  default_args.save_strategy = "no";

  TrainingArguments training_args = default_args;
  training_args.per_device_train_batch_size = 4;
  const BertForSequenceClassification model(config);
  Trainer trainer(model, training_args, std::move(dataset));
  const TrainOutput result = trainer.train();
  std::printf("%s\n", print_summary(result).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 && std::string_view(argv[1]) == "--small");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
