#include "arguments/block_arguments.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error_testing.h"

namespace shoehorn {
namespace {

std::string change_refusal(const std::function<void(TrainingArguments&)>& change,
                           std::string_view task = kCausalLanguageModel) {
  TrainingArguments args;
  args.task = task;
  change(args);
  return refusal_of([&] { validate_block_arguments(args); });
}

TEST(BlockArguments, BelongToTheirTask) {
  const std::vector<std::pair<std::string, std::function<void(TrainingArguments&)>>> flags = {
      {"block_size", [](TrainingArguments& args) { args.block_size = 8; }},
      {"packing", [](TrainingArguments& args) { args.packing = "documents"; }},
      {"block_remainder", [](TrainingArguments& args) { args.block_remainder = "run_clm"; }},
      {"add_eos", [](TrainingArguments& args) { args.add_eos = true; }},
      {"keep_linebreaks", [](TrainingArguments& args) { args.keep_linebreaks = false; }},
      {"train_file_weights", [](TrainingArguments& args) { args.train_file_weights = {"1", "2"}; }}};
  for (const auto& [name, change] : flags) {
    EXPECT_EQ(change_refusal(change), "") << name;
    EXPECT_TRUE(contains(change_refusal(change, "text-classification"),
                         "[" + name + "] expected task causal-lm with it, got text-classification"))
        << name;
  }
}

TEST(BlockArguments, OutOfRangeOrContradicting) {
  EXPECT_TRUE(contains(change_refusal([](TrainingArguments& args) { args.block_size = 1; }),
                       "[block_size] expected 2 or more tokens, got 1"));
  for (const int64_t percent : {-1, 100}) {
    EXPECT_TRUE(
        contains(change_refusal([&](TrainingArguments& args) { args.validation_split_percentage = percent; }),
                 "[validation_split_percentage] expected 0 (nothing) to 99"));
  }
  EXPECT_EQ(change_refusal([](TrainingArguments& args) { args.validation_split_percentage = 6; },
                           "text-classification"),
            "");
  EXPECT_TRUE(contains(change_refusal([](TrainingArguments& args) {
                         args.packing = "documents";
                         args.block_remainder = "drop";
                       }),
                       "[block_remainder] expected keep with packing documents, got drop"));
  EXPECT_TRUE(contains(change_refusal([](TrainingArguments& args) { args.text_column_names = {"a", "b"}; }),
                       "[text_column_names] expected one column with task causal-lm, got a, b"));
}

TEST(BlockArguments, OfFilesThatAreMixed) {
  const auto of_weights = [](std::vector<std::string> weights,
                             const std::function<void(TrainingArguments&)>& change = {}) {
    return change_refusal([&](TrainingArguments& args) {
      args.train_file_weights = std::move(weights);
      if (change) change(args);
    });
  };
  EXPECT_EQ(
      of_weights({"0.7", "0.3"}, [](TrainingArguments& args) { args.stopping_strategy = "all_exhausted"; }),
      "");
  for (const char* bad : {"0", "-1", "none"})
    EXPECT_TRUE(contains(of_weights({"1", bad}), "[train_file_weights] expected numbers above 0, got '"));
  EXPECT_TRUE(
      contains(of_weights({}, [](TrainingArguments& args) { args.stopping_strategy = "all_exhausted"; }),
               "[stopping_strategy] expected train_file_weights with all_exhausted"));
  EXPECT_TRUE(contains(of_weights({"1"}, [](TrainingArguments& args) { args.max_train_samples = 9; }),
                       "[max_train_samples] expected none with train_file_weights, got 9"));
  EXPECT_TRUE(contains(
      of_weights({"1"}, [](TrainingArguments& args) { args.train_sampling_strategy = "group_by_length"; }),
      "[train_sampling_strategy] expected random or sequential with train_file_weights"));
}

TEST(BlockArguments, BecomeOptions) {
  TrainingArguments args;
  args.block_size = 77;
  EXPECT_EQ(block_options_of(args).packing, BlockPacking::kConcatenate);
  EXPECT_EQ(block_options_of(args).remainder, BlockRemainder::kKeep);
  args.packing = "documents";
  args.block_remainder = "run_clm";
  EXPECT_EQ(block_options_of(args).block_size, 77);
  EXPECT_EQ(block_options_of(args).packing, BlockPacking::kDocuments);
  EXPECT_EQ(block_options_of(args).remainder, BlockRemainder::kRunClm);
}

}  // namespace
}  // namespace shoehorn
