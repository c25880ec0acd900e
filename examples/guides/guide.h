// Shared by the cells of the guides: their dummy data, default arguments, model and 8-bit Adam, at the
// guides' size or, with --small, at a size that takes a second. --model_name_or_path DIR uses the model in a
// directory.
#pragma once

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>

#include "shoehorn.h"

namespace guide {

struct Setting {
  // The model of `directory`; where that is empty BERT-large, or a small BERT, with new weights.
  Setting(bool small, const std::filesystem::path& directory)
      : small(small),
        model(directory.empty() ? shoehorn::BertForSequenceClassification(config(small))
                                : shoehorn::BertForSequenceClassification::from_pretrained(directory)) {}

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
    return shoehorn::Dataset::random_tokens(
        {.count = small ? 16 : 512,
         .length = std::min<int64_t>(small ? 32 : 512, model.max_positions()),
         .vocab_begin = 100,
         .vocab_end = static_cast<int32_t>(std::min<int64_t>(small ? 1000 : 30000, model.vocab_size()))});
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

// The guides' adam_bnb_optim: 8-bit Adam with two parameter groups; biases and norms are not decayed. The
// states of embeddings have 8 bits too, as in the guides' figures; optim = "adamw_bnb_8bit" keeps those in 32
// bits.
inline shoehorn::Optimizer adam_bnb_optim(const shoehorn::TrainingArguments& args) {
  const auto decays = [](const std::string& name) { return shoehorn::is_decayed(name); };
  const auto rest = [](const std::string&) { return true; };
  const shoehorn::AdamW8bitSettings adam{
      .adamw = {.beta1 = args.adam_beta1, .beta2 = args.adam_beta2, .epsilon = args.adam_epsilon},
      .states = {.of_embeddings = true}};
  return {.options = {.settings = adam},
          .learning_rate = args.learning_rate,
          .groups = {{decays, static_cast<float>(args.weight_decay)}, {rest, 0.0F}}};
}

// The cells' Trainer(optimizers=(optimizer, None)).
inline shoehorn::TrainerOptions with_optimizer(const shoehorn::Optimizer& optimizer) {
  return {.optimizer = optimizer.options, .optimizer_groups = optimizer.groups};
}

inline Setting setting_of(int argc, char** argv) {
  bool small = false;
  std::filesystem::path directory;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--small") {
      small = true;
    } else if (word == "--model_name_or_path" && i + 1 < argc) {
      directory = argv[++i];
    } else {
      throw shoehorn::user_error("[arguments] expected --small or --model_name_or_path DIR, got {}", word);
    }
  }
  return Setting(small, directory);
}

// main() of a cell.
template <typename Cell>
int run(int argc, char** argv, const Cell& cell) {
  try {
    Setting setting = setting_of(argc, argv);
    cell(setting);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace guide
