// What the tests of resuming share: a short run of a small model that saves in the middle of an epoch.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

#include "train/test_support.h"

namespace shoehorn::test_support {

struct Setting {
  std::string name;
  std::function<void(TrainingArguments&)> set;
};

inline void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}

// 28 samples are 7 micro-batches an epoch (4 windows of two, the last one short), so that a checkpoint of
// step 5 lies in the middle of an epoch, and between two log entries.
inline TrainingArguments arguments_of(const Setting& setting, const std::filesystem::path& output_dir) {
  TrainingArguments args = quiet_arguments(4);
  args.output_dir = output_dir.string();
  args.max_steps = 12;
  args.save_strategy = "steps";
  args.save_steps = 5;
  args.logging_steps = 3;
  args.weight_decay = 0.01;
  args.warmup_steps = 3;
  setting.set(args);
  return args;
}

inline void train(const TrainingArguments& args, const std::filesystem::path& weights = {}) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Trainer trainer(model, args, tiny_samples(28, 3), {}, {.weights = weights});
  EXPECT_EQ(trainer.train().global_step, 12);
}

// The directory of a base model, which adapters need; none for a run without.
inline std::filesystem::path base_for(const TrainingArguments& args, const std::filesystem::path& directory) {
  if (args.lora_rank == 0) return {};
  const BertForSequenceClassification model(tiny_bert());
  Trainer(model, quiet_arguments(), tiny_samples(4, 1)).save_model(directory / "base");
  return directory / "base";
}

}  // namespace shoehorn::test_support
