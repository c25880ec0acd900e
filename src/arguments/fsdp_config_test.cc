#include "arguments/fsdp_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "base/error_testing.h"

namespace shoehorn {
namespace {

using Words = std::vector<std::string>;

TrainingArguments fsdp_arguments(Words words) {
  words.insert(words.begin(), {"--model_name_or_path", "bert", "--train_file", "t.csv"});
  return parse_arguments(Command::kTrain, words).arguments;
}

std::string fsdp_refusal(const Words& words) {
  return refusal_of([&] { fsdp_arguments(words); });
}

TEST(FsdpConfig, WordsAreStagesOfZero) {
  const auto stage = [](const Words& words) { return fsdp_arguments(words).zero_stage; };
  EXPECT_EQ(stage({"--fsdp"}), 3);
  EXPECT_EQ(stage({"--fsdp", "true"}), 3);
  EXPECT_EQ(stage({"--fsdp", "false"}), 0);
  EXPECT_EQ(stage({"--fsdp", "full_shard auto_wrap"}), 3);
  EXPECT_EQ(stage({"--fsdp", "shard_grad_op"}), 2);
  EXPECT_EQ(stage({"--fsdp", "no_shard"}), 0);
  EXPECT_EQ(stage({"--fsdp", "--fsdp_config", R"({"reshard_after_forward": true})"}), 3);
  EXPECT_EQ(stage({"--fsdp", "--fsdp_config", R"({"fsdp_reshard_after_forward": "false"})"}), 2);
  EXPECT_EQ(stage({"--fsdp", "--fsdp_config", R"({"version": 1, "reshard_after_forward": "SHARD_GRAD_OP"})"}),
            2);
  EXPECT_EQ(stage({"--fsdp", "--zero_stage", "3"}), 3);
  EXPECT_TRUE(fsdp_arguments({"--fsdp", "--fsdp_config", R"({"activation_checkpointing": true})"})
                  .gradient_checkpointing);
  EXPECT_EQ(fsdp_arguments({"--fsdp"}).fsdp, "");
}

// What ranks share within a host is a stage with groups; a given number of ranks is that of the groups.
TEST(FsdpConfig, HybridIsAStageWithinGroups) {
  const TrainingArguments hybrid = fsdp_arguments({"--fsdp", "hybrid_shard auto_wrap"});
  EXPECT_EQ(hybrid.zero_stage, 3);
  EXPECT_EQ(hybrid.zero_group_size, 0);
  EXPECT_EQ(fsdp_arguments({"--fsdp", "hybrid_shard_zero2"}).zero_stage, 2);
  EXPECT_EQ(fsdp_arguments({"--fsdp", "hybrid_shard", "--zero_group_size", "4"}).zero_group_size, 4);
  const TrainingArguments of_file =
      fsdp_arguments({"--fsdp", "--fsdp_config", R"({"reshard_after_forward": "HYBRID_SHARD"})"});
  EXPECT_EQ(of_file.zero_stage, 3);
  EXPECT_EQ(of_file.zero_group_size, 0);
  EXPECT_FALSE(fsdp_arguments({"--fsdp", "full_shard"}).zero_group_size.has_value());
}

TEST(FsdpConfig, WhatIsNotHereIsRefusedByName) {
  EXPECT_TRUE(contains(fsdp_refusal({"--fsdp", "full_shard offload"}), "[--fsdp] expected no offload"));
  EXPECT_TRUE(contains(fsdp_refusal({"--fsdp", "full_shart"}), "did you mean full_shard?"));
  EXPECT_TRUE(contains(fsdp_refusal({"--fsdp", "--fsdp_config", R"({"cpu_offload": true})"}),
                       "cpu_offload] expected false"));
  EXPECT_TRUE(
      contains(fsdp_refusal({"--fsdp", "--fsdp_config", R"({"xla": true})"}), "there is no XLA backend"));
  EXPECT_TRUE(contains(fsdp_refusal({"--fsdp", "--fsdp_config", R"({"reshard_after_forwar": true})"}),
                       "did you mean reshard_after_forward?"));
  EXPECT_TRUE(contains(fsdp_refusal({"--fsdp", "--fsdp_config", R"({"reshard_after_forward": 3})"}),
                       "expected true or false"));
  EXPECT_TRUE(contains(fsdp_refusal({"--fsdp_config", R"({"version": 2})"}),
                       "[--fsdp_config] expected --fsdp with it"));
  EXPECT_TRUE(contains(fsdp_refusal({"--fsdp", "--deepspeed", "{}"}), "expected one of deepspeed and fsdp"));
  EXPECT_TRUE(contains(fsdp_refusal({"--fsdp", "--zero_stage", "2"}), "--fsdp is 3, but --zero_stage is 2"));
  EXPECT_TRUE(
      contains(fsdp_refusal({"--fsdp", "full_shard", "--fsdp_config", R"({"reshard_after_forward": false})"}),
               "reshard_after_forward] expected what --fsdp full_shard says"));
}

// Words, and keys of the file; a boolean says the stage alone, and goes with a strategy within a host.
TEST(FsdpConfig, TwoStrategiesAreRefused) {
  const auto refused = [](const std::string& words, const std::string& file, const std::string& error) {
    EXPECT_EQ(fsdp_refusal({"--fsdp", words, "--fsdp_config", file}), error + "; give one of both");
  };
  refused("full_shard shard_grad_op", "{}",
          "[--fsdp] expected what --fsdp full_shard says, got shard_grad_op");
  refused("no_shard auto_wrap hybrid_shard", "{}",
          "[--fsdp] expected what --fsdp no_shard says, got hybrid_shard");
  refused("full_shard", R"({"sharding_strategy": "HYBRID_SHARD"})",
          "[--fsdp_config: sharding_strategy] expected what --fsdp full_shard says, got \"HYBRID_SHARD\"");
  refused(
      "hybrid_shard", R"({"fsdp_sharding_strategy": "FULL_SHARD"})",
      "[--fsdp_config: fsdp_sharding_strategy] expected what --fsdp hybrid_shard says, got \"FULL_SHARD\"");
  refused(
      "true", R"({"reshard_after_forward": false, "sharding_strategy": "FULL_SHARD"})",
      "[--fsdp_config: reshard_after_forward] expected what sharding_strategy \"FULL_SHARD\" says, got false");
  refused("true", R"({"reshard_after_forward": "NO_SHARD", "sharding_strategy": "SHARD_GRAD_OP"})",
          "[--fsdp_config: sharding_strategy] expected what reshard_after_forward \"NO_SHARD\" says, got "
          "\"SHARD_GRAD_OP\"");
  const auto hybrid = [](const std::string& words, const std::string& file) {
    return fsdp_arguments({"--fsdp", words, "--fsdp_config", file}).zero_group_size.has_value();
  };
  EXPECT_TRUE(hybrid("hybrid_shard", R"({"reshard_after_forward": true})"));
  EXPECT_TRUE(hybrid("true", R"({"reshard_after_forward": true, "sharding_strategy": "HYBRID_SHARD"})"));
  EXPECT_FALSE(hybrid("full_shard full_shard", R"({"sharding_strategy": "FULL_SHARD"})"));
}

TEST(FsdpConfig, WhatHasNoEffectIsSaid) {
  const ParsedArguments parsed = parse_arguments(
      Command::kTrain, {"--model_name_or_path", "bert", "--train_file", "t.csv", "--fsdp", "--fsdp_config",
                        R"({"transformer_layer_cls_to_wrap": ["BertLayer"], "min_num_params": 0})"});
  EXPECT_EQ(parsed.notices, (Words{"--fsdp_config: no effect here have transformer_layer_cls_to_wrap",
                                   "zero_stage 3: there is one rank, and nothing to share"}));
}

}  // namespace
}  // namespace shoehorn
