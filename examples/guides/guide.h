// What the cells of the guides share: their dummy data, default arguments and model, at the guides' size or,
// with --small, at one that takes a second.
#pragma once

#include <cstdio>
#include <exception>
#include <string_view>

#include "shoehorn.h"

namespace guide {

struct Setting {
  explicit Setting(bool small) : small(small), model(config(small)) {}

  // BERT-large, or a small BERT; new weights.
  static shoehorn::BertConfig config(bool small) {
    shoehorn::BertConfig config = shoehorn::BertConfig::bert_large();
    if (!small) return config;
    config.vocab_size = 1000;
    config.hidden_size = config.intermediate_size = 64;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 4;
    return config;
  }

  // Random token ids, and labels that are both 0 and 1 (in the guides all are 0).
  shoehorn::Dataset dataset() const {
    return shoehorn::Dataset::random_tokens({.count = small ? 16 : 512,
                                             .length = small ? 32 : 512,
                                             .vocab_begin = 100,
                                             .vocab_end = small ? 1000 : 30000});
  }

  // The guides' default_args. They ask for evaluation and have no data for it, which is an error here.
  static shoehorn::TrainingArguments default_args() {
    shoehorn::TrainingArguments args;
    args.output_dir = "tmp";
    args.num_train_epochs = 1;
    args.log_level = "error";
    args.report_to = {"none"};
    args.save_strategy = "no";
    return args;
  }

  bool small;
  shoehorn::BertForSequenceClassification model;
};

// main() of a cell.
template <typename Cell>
int run(int argc, char** argv, const Cell& cell) {
  try {
    Setting setting(argc > 1 && std::string_view(argv[1]) == "--small");
    cell(setting);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace guide
