#include "train/auto_find_batch_size.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/backend/thread_count.h"
#include "io/test_directory.h"
#include "ranks/process_ranks_testing.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// Several mebibytes of activations a sequence.
BertConfig deep_bert() {
  BertConfig config = tiny_bert();
  config.hidden_size = 96;
  config.intermediate_size = 384;
  config.num_hidden_layers = 12;
  config.max_position_embeddings = 128;
  return config;
}

Dataset long_samples() {
  return Dataset::random_tokens(
      {.count = 16, .length = 128, .vocab_begin = 1, .vocab_end = 60, .num_labels = 3, .seed = 1});
}

TrainingArguments finding(int64_t batch_size) {
  TrainingArguments args = quiet_arguments(batch_size);
  args.auto_find_batch_size = true;
  args.gradient_accumulation_steps = 2;
  args.max_steps = 2;
  return args;
}

int64_t peak_of(const Model& model, int64_t batch_size) {
  return Trainer(model, finding(batch_size), long_samples()).forecast().process_bytes();
}

TEST(AutoFindBatchSize, TakesTheFirstThatFits) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const TestDirectory directory;
  const BertForSequenceClassification model(deep_bert());
  peak_of(model, 8);  // the first trainer of a process leaves more behind than later ones
  const int64_t fits = peak_of(model, 6);
  const int64_t too_much = peak_of(model, 7);
  ASSERT_GT(too_much, fits + (int64_t{4} << 20));
  TrainingArguments args = finding(8);
  args.memory_budget = (fits + too_much) / 2;
  args.output_dir = directory.path().string();
  args.save_strategy = "steps";
  args.save_steps = 1;
  {
    Trainer trainer(model, args, long_samples());
    EXPECT_TRUE(trainer.forecast().fits());
    EXPECT_EQ(trainer.arguments().per_device_train_batch_size, 6);
    EXPECT_EQ(trainer.arguments().gradient_accumulation_steps, 2);
    EXPECT_EQ(trainer.state().train_batch_size, 6);
    EXPECT_EQ(format_found_batch_size(args, trainer.arguments()),
              "auto_find_batch_size: 6 a device in place of 8\n");
    const Metrics metrics = trainer.train().metrics;
    EXPECT_EQ(metrics.at("memory_arena_predicted_bytes"), metrics.at("memory_arena_measured_bytes"));
  }
  // A resumed run goes on with the batch of its checkpoint, also where more would fit now.
  args.memory_budget.reset();
  args.resume_from_checkpoint = (directory.path() / "checkpoint-1").string();
  Trainer resumed(model, args, long_samples());
  EXPECT_EQ(resumed.arguments().per_device_train_batch_size, 6);
  EXPECT_EQ(resumed.train().global_step, 2);
}

// Ranks on hosts of different sizes have one batch, which fits the smallest.
TEST(AutoFindBatchSize, RanksFindOne) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const BertForSequenceClassification model(deep_bert());
  TrainingArguments args = finding(8);
  args.gradient_accumulation_steps = 1;
  args.world_size = 2;
  const std::vector<std::string> said =
      run_in_processes(2, [&](const std::shared_ptr<Communicator>& ranks) -> std::string {
        use_threads(1);
        const auto peak_with = [&](int64_t batch_size) {
          TrainingArguments tried = args;
          tried.auto_find_batch_size = false;
          set_micro_batch_size(tried, batch_size);
          return Trainer(model, tried, long_samples(), {}, {.ranks = ranks}).forecast().process_bytes();
        };
        peak_with(8);  // the first trainer of a process leaves more behind than later ones
        const int64_t fits = peak_with(4);
        const int64_t too_much = peak_with(5);
        TrainingArguments own = args;
        if (!ranks->is_main()) own.memory_budget = (fits + too_much) / 2;
        Trainer trainer(model, own, long_samples(), {}, {.ranks = ranks});
        trainer.train();
        return std::to_string(trainer.arguments().per_device_train_batch_size);
      });
  EXPECT_EQ(said, (std::vector<std::string>{"4", "4"}));
}

TEST(AutoFindBatchSize, LeavesWhatFitsAndRefusesWhatNeverDoes) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = finding(8);
  Trainer trainer(model, args, tiny_samples(28, 5));
  EXPECT_EQ(trainer.arguments().per_device_train_batch_size, 8);
  EXPECT_EQ(format_found_batch_size(args, trainer.arguments()),
            "auto_find_batch_size: 8 a device, as asked for\n");
  args.memory_budget = 1;
  Trainer refused(model, args, tiny_samples(28, 5));
  EXPECT_EQ(refused.arguments().per_device_train_batch_size, 1);
  EXPECT_TRUE(contains(message_of<UserError>([&] { refused.train(); }), "nothing was reserved"));
  EXPECT_EQ(format_found_batch_size(quiet_arguments(), quiet_arguments()), "");
}

}  // namespace
}  // namespace shoehorn
