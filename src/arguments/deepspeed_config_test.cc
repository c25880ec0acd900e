#include "arguments/deepspeed_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "base/error_testing.h"
#include "base/user_error_kinds.h"
#include "io/json_file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

using Words = std::vector<std::string>;

// The arguments of a file beside `words`, on `ranks`.
TrainingArguments arguments_of(const std::string& json, Words words = {}, int64_t ranks = 1) {
  words.insert(words.begin(), {"--model_name_or_path", "bert", "--train_file", "t.csv", "--deepspeed", json});
  return parse_arguments(Command::kTrain, words, ranks).arguments;
}

std::string refusal(const std::string& json, const Words& words = {}, int64_t ranks = 1) {
  return refusal_of([&] { arguments_of(json, words, ranks); });
}

// The file that transformers' documentation begins with, but for offload.
constexpr const char* kAuto = R"({
  "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2,
           "min_loss_scale": 1},
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW",
                "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupLR",
                "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
  "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none", "pin_memory": true},
    "allgather_partitions": true, "allgather_bucket_size": 2e8, "overlap_comm": true, "reduce_scatter": true,
    "reduce_bucket_size": "auto", "contiguous_gradients": true},
  "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto", "steps_per_print": 2000, "wall_clock_breakdown": false})";

TEST(DeepspeedConfig, AutoIsWhatTheFlagsSay) {
  const TrainingArguments args = arguments_of(
      kAuto, {"--bf16", "--learning_rate", "3e-5", "--warmup_steps", "10", "--max_grad_norm", "0.5",
              "--per_device_train_batch_size", "4", "--lr_scheduler_type", "constant_with_warmup"});
  EXPECT_TRUE(args.bf16);
  EXPECT_FALSE(args.fp16);
  EXPECT_EQ(args.learning_rate, 3e-5);
  EXPECT_EQ(args.warmup_steps, 10);
  EXPECT_EQ(args.max_grad_norm, 0.5);
  EXPECT_EQ(args.per_device_train_batch_size, 4);
  EXPECT_EQ(args.zero_stage, 2);
  EXPECT_EQ(args.lr_scheduler_kwargs, (Kwargs{{"warmup_type", "log"}})) << "DeepSpeed's standard";
  EXPECT_EQ(args.hysteresis, TrainingArguments().hysteresis) << "of fp16, which is off";
  EXPECT_EQ(args.ddp_bucket_cap_mb, std::nullopt);
  EXPECT_EQ(args.deepspeed, "") << "its values are the arguments' now";
}

TEST(DeepspeedConfig, ValuesOfTheFileHoldWhereNoFlagSaysThem) {
  const TrainingArguments args = arguments_of(R"({
    "fp16": {"enabled": true, "loss_scale": 128},
    "optimizer": {"type": "adam", "params": {"lr": 0.001, "betas": [0.8, 0.99], "eps": 1e-6, "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 0.001,
                  "warmup_num_steps": 20, "warmup_type": "linear", "total_num_steps": 200}},
    "gradient_clipping": 0.25, "dataloader_drop_last": true,
    "zero_optimization": {"stage": 0, "reduce_bucket_size": 5242880},
    "train_batch_size": 32, "train_micro_batch_size_per_gpu": 4})");
  EXPECT_TRUE(args.fp16);
  EXPECT_EQ(args.loss_scale, 128);
  EXPECT_EQ(args.loss_scale_window, 1000) << "DeepSpeed's standard";
  EXPECT_EQ(args.hysteresis, 2) << "DeepSpeed's standard";
  EXPECT_EQ(args.learning_rate, 0.001);
  EXPECT_EQ(args.adam_beta1, 0.8);
  EXPECT_EQ(args.adam_beta2, 0.99);
  EXPECT_EQ(args.adam_epsilon, 1e-6);
  EXPECT_EQ(args.weight_decay, 0.1);
  EXPECT_EQ(args.lr_scheduler_type, "linear");
  EXPECT_TRUE(args.lr_scheduler_kwargs.empty());
  EXPECT_EQ(args.warmup_steps, 20);
  EXPECT_EQ(args.max_steps, 200);
  EXPECT_EQ(args.max_grad_norm, 0.25);
  EXPECT_TRUE(args.dataloader_drop_last);
  EXPECT_EQ(args.ddp_bucket_cap_mb, 20) << "elements of four bytes";
  EXPECT_EQ(args.gradient_accumulation_steps, 8);
}

TEST(DeepspeedConfig, EachOptimizerAndScheduleHasItsName) {
  const auto optim = [](const char* optimizer) {
    return arguments_of(std::string(R"({"optimizer": )") + optimizer + "}");
  };
  EXPECT_EQ(optim(R"({"type": "Lion", "params": {"lr": 1e-4, "betas": [0.9, 0.98]}})").optim, "lion_32bit");
  const TrainingArguments sgd = optim(R"({"type": "SGD", "params": {"momentum": 0.9, "nesterov": true}})");
  EXPECT_EQ(sgd.optim, "sgd");
  EXPECT_EQ(sgd.optim_args, (Kwargs{{"momentum", 0.9}, {"nesterov", true}}));
  EXPECT_EQ(optim(R"({"type": "Adagrad", "params": {"eps": 1e-9}})").optim_args, (Kwargs{{"eps", 1e-9}}));
  EXPECT_EQ(optim(R"({"type": "RMSprop", "params": {"alpha": 0.9}})").optim, "rmsprop");
  EXPECT_EQ(optim(R"({"type": "AdamW"})").optim, "adamw_torch_fused");
  EXPECT_EQ(arguments_of(R"({"optimizer": {"type": "AdamW"}})", {"--optim", "adamw_hf"}).optim, "adamw_hf")
      << "a name of the same";
  const TrainingArguments cosine =
      arguments_of(R"({"scheduler": {"type": "WarmupCosineLR", "params": {"cos_min_ratio": 0.1}}})");
  EXPECT_EQ(cosine.lr_scheduler_type, "cosine_with_min_lr");
  EXPECT_EQ(cosine.lr_scheduler_kwargs, (Kwargs{{"min_lr_rate", 0.1}, {"warmup_type", "log"}}));
  EXPECT_TRUE(contains(
      refusal(R"({"optimizer": {"type": "Lamb"}})"),
      "optimizer.type] expected one of adamw, adam, lion, sgd, adagrad, rmsprop, got 'Lamb'; known, but "
      "not in this version"));
  EXPECT_TRUE(contains(refusal(R"({"optimizer": {"type": "AdmW"}})"), "did you mean adamw?"));
  EXPECT_TRUE(contains(refusal(R"({"scheduler": {"type": "OneCycle"}})"), "not in this version"));
  EXPECT_TRUE(contains(refusal(R"({"optimizer": {"params": {"lr": 1}}})"), "optimizer.type] expected"));
  EXPECT_TRUE(contains(refusal(R"({"optimizer": {"type": "Lion", "params": {"eps": 1}}})"),
                       "optimizer.params.eps] expected lr, weight_decay, betas for Lion"));
  EXPECT_TRUE(contains(
      refusal(R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false, "weight_decay": 0.1}}})"),
      "adam_w_mode] expected true, got false with weight_decay 0.1"));
}

// Whatever params it has, which no type here takes.
TEST(DeepspeedConfig, ATypeThatIsNotHereIsRefusedByItsName) {
  const auto named = [](const std::string& section, const std::string& type, const std::string& params) {
    const std::string error =
        refusal(fmt::format(R"({{"{}": {{"type": "{}", "params": {}}}}})", section, type, params));
    EXPECT_TRUE(contains(error, fmt::format("{}.type] expected one of ", section)));
    EXPECT_TRUE(contains(error, fmt::format(", got '{}'; known, but not in this version yet", type)));
  };
  named("scheduler", "LRRangeTest", R"({"lr_range_test_min_lr": 1e-4, "lr_range_test_step_size": 500})");
  named("scheduler", "OneCycle", R"({"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-4, "decay_lr_rate": 0})");
  named("optimizer", "OneBitAdam", R"({"lr": 1e-4, "freeze_step": 400, "cuda_aware": false})");
  named("optimizer", "Lamb", R"({"lr": 1e-3, "max_coeff": 0.3, "min_coeff": 0.01})");
  EXPECT_TRUE(contains(refusal(R"({"optimizer": {"type": "AdmW", "params": {"freeze_step": 4}}})"),
                       "optimizer.type] expected"));
  EXPECT_TRUE(contains(refusal(R"({"optimizer": {"type": "AdamW", "params": {"freeze_step": 4}}})"),
                       "optimizer.params.freeze_step] expected a key of DeepSpeed's configuration"));
}

TEST(DeepspeedConfig, TheBatchOfAllRanksFollowsOrIsFollowed) {
  const auto batch = [](const char* json, const Words& words, int64_t ranks) {
    const TrainingArguments args = arguments_of(json, words, ranks);
    return std::pair(args.per_device_train_batch_size, args.gradient_accumulation_steps);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(batch(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 8})", {}, 4), Pair(8, 2));
  EXPECT_EQ(batch(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4})", {}, 2), Pair(8, 4));
  EXPECT_EQ(batch(R"({"train_batch_size": 64})", {}, 2), Pair(32, 1));
  EXPECT_EQ(batch(R"({"train_batch_size": 64})", {"--per_device_train_batch_size", "8"}, 1), Pair(8, 8));
  EXPECT_EQ(batch(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 32})",
                  {"--auto_find_batch_size", "--per_device_train_batch_size", "4"}, 1),
            Pair(4, 1))
      << "a batch that is to be found is no mismatch";
  EXPECT_TRUE(contains(
      refusal(R"({"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4})", {}, 2),
      "train_batch_size is 30, but train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 1 x 2 "
      "ranks is 8"));
  EXPECT_TRUE(
      contains(refusal(R"({"train_batch_size": 0})"), "train_batch_size] expected an integer of 1 or more"));
  EXPECT_TRUE(
      contains(refusal(R"({"train_batch_size": "8"})"), "expected a number of 0 or more, or \"auto\""));
}

// As the Trainer: all at once.
TEST(DeepspeedConfig, MismatchesAreNamedAllAtOnce) {
  const std::string error = refusal(
      R"({"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 2, "bf16": {"enabled": false},
          "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.002, "warmup_num_steps": 7}},
          "zero_optimization": {"stage": 1}})",
      {"--per_device_train_batch_size", "8", "--max_grad_norm", "1", "--bf16", "--warmup_ratio", "0.1",
       "--optim", "sgd", "--zero_stage", "0"});
  for (const char* line :
       {"\n  train_micro_batch_size_per_gpu is 4, but --per_device_train_batch_size is 8\n",
        "\n  gradient_clipping is 2, but --max_grad_norm is 1\n",
        "\n  bf16.enabled is false, but --bf16 is true\n",
        "\n  optimizer.type is 'adamw_torch_fused', but --optim is 'sgd'\n",
        "\n  scheduler.params.warmup_max_lr is 0.002, but optimizer.params.lr is 0.001\n",
        "\n  scheduler.params.warmup_num_steps is 7, but --warmup_ratio is 0.1\n",
        "\n  zero_optimization.stage is 1, but --zero_stage is 0\n"})
    EXPECT_TRUE(contains(error, line)) << line << error;
  EXPECT_TRUE(contains(error, "\"auto\"")) << error;
  EXPECT_EQ(refusal(R"({"gradient_clipping": 2})", {"--max_grad_norm", "2"}), "");
  EXPECT_TRUE(
      contains(refusal(R"({"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 9}}})",
                       {"--num_train_epochs", "2"}),
               "total_num_steps is 9, but --num_train_epochs"));
}

TEST(DeepspeedConfig, UnknownKeysAreNamedWithTheNearest) {
  EXPECT_TRUE(contains(
      refusal(R"({"train_batchsize": 8})"),
      "train_batchsize] expected a key of DeepSpeed's configuration, got 'train_batchsize'; did you mean "
      "train_batch_size?"));
  EXPECT_TRUE(
      contains(refusal(R"({"zero_optimization": {"stag": 2}})"), "did you mean zero_optimization.stage?"));
  EXPECT_TRUE(contains(refusal(R"({"stage": 2})"), "did you mean zero_optimization.stage?"))
      << "of another section";
  EXPECT_TRUE(contains(refusal(R"({"zenflow": {}})"), "did you mean zero_optimization.zenflow?"));
  EXPECT_TRUE(contains(refusal(R"({"fp16": true})"), "fp16] expected an object, got true"));
  EXPECT_TRUE(contains(refusal("[1]"), "--deepspeed") || contains(refusal("[1]"), "[1]"));
}

// What a section asks for is off without its switch, and so it would be in silence with one that is misspelt.
TEST(DeepspeedConfig, AMisspeltSwitchIsNamed) {
  EXPECT_TRUE(
      contains(refusal(R"({"autotuning": {"enable": true}})"),
               "autotuning.enable] expected a key of DeepSpeed's configuration, got 'enable'; did you mean "
               "autotuning.enabled?"));
  EXPECT_TRUE(contains(refusal(R"({"flops_profiler": {"enbled": true, "profile_step": 1}})"),
                       "did you mean flops_profiler.enabled?"));
  EXPECT_TRUE(contains(refusal(R"({"compile": {"deepcompil": true}})"), "did you mean compile.deepcompile?"));
  EXPECT_EQ(refusal(R"({"nebula": {"enable_nebula_load": true}, "autotuning": {"fast": false}})"), "");
}

TEST(DeepspeedConfig, WhatIsNotHereIsRefusedByNameUnlessItIsOff) {
  struct Case {
    const char* asks;
    const char* off;
    const char* named;
  };
  for (
      const auto& [asks, off, named] : {
          Case{
              R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})",
              R"({"zero_optimization": {"offload_optimizer": {"device": "none", "buffer_count": 4}}})",
              "zero_optimization.offload_optimizer.device] expected \"none\", got \"cpu\"; known, but not in this "
              "version yet"},
          Case{R"({"zero_optimization": {"offload_param": {"device": "nvme", "nvme_path": "/n"}}})",
               R"({"zero_optimization": {"offload_param": null}})", "offload_param.device] expected"},
          Case{R"({"zero_optimization": {"cpu_offload": true}})",
               R"({"zero_optimization": {"cpu_offload": false}})", "cpu_offload]"},
          Case{R"({"zero_optimization": {"zero_hpz_partition_size": 8}})",
               R"({"zero_optimization": {"zero_hpz_partition_size": 1}})",
               "zero_hpz_partition_size] expected 1, got 8"},
          Case{R"({"activation_checkpointing": {"partition_activations": true}})",
               R"({"activation_checkpointing": {"partition_activations": false, "number_checkpoints": 4}})",
               "partition_activations]"},
          Case{R"({"pipeline": {"stages": 2}})", R"({"pipeline": {}})", "pipeline]"},
          Case{R"({"wandb": {"enabled": true, "team": "t"}})",
               R"({"wandb": {"enabled": false, "team": "t"}})",
               "wandb.enabled] expected false, got true; known, but refused: nothing is sent"},
          Case{R"({"autotuning": {"enabled": true}})", R"({"autotuning": {"enabled": false}})",
               "shoehorn fit"},
          Case{R"({"compile": {"deepcompile": true, "double_buffer": true}})",
               R"({"compile": {"deepcompile": false, "double_buffer": true}})",
               "compile.deepcompile] expected no such key, or false, got true; known, but refused: give "
               "--torch_compile"},
          Case{R"({"zero_optimization": {"zenflow": {"topk_ratio": 0.1}}})",
               R"({"zero_optimization": {"zenflow": null}})", "zero_optimization.zenflow] expected"},
          Case{R"({"communication_data_type": "fp16"})", R"({"communication_data_type": "fp32"})",
               "communication_data_type]"},
          Case{R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 1e-6}}})",
               R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0}}})", "warmup_min_lr]"},
          Case{R"({"wall_clock_breakdown": true})", R"({"aio": {"block_size": 1048576, "queue_depth": 8}})",
               "--profile"},
      }) {
    EXPECT_TRUE(contains(refusal(asks), named)) << asks << refusal(asks);
    EXPECT_EQ(refusal(off), "") << off;
  }
}

TEST(DeepspeedConfig, StagesOfZeroAreTaken) {
  EXPECT_EQ(arguments_of(R"({"zero_optimization": {"stage": 3}})").zero_stage, 3);
  EXPECT_EQ(arguments_of(R"({"zero_optimization": true})").zero_stage, 1) << "the deprecated form";
  EXPECT_EQ(arguments_of(R"({"zero_optimization": {"stage3_param_persistence_threshold": 5000}})")
                .zero_persistence_threshold,
            5000);
  EXPECT_TRUE(contains(refusal(R"({"zero_optimization": {"stage": 4}})"), "expected 0, 1, 2 or 3, got 4"));
}

TEST(DeepspeedConfig, MicsSharesInGroups) {
  const auto of = [](const std::string& size) {
    return R"({"zero_optimization": {"stage": 3, "mics_shard_size": )" + size + "}}";
  };
  EXPECT_EQ(arguments_of(of("2"), {}, 4).zero_group_size, 2);
  EXPECT_EQ(arguments_of(of("2"), {"--zero_group_size", "2"}, 4).zero_group_size, 2);
  for (const char* none : {"-1", "\"auto\""})
    EXPECT_FALSE(arguments_of(of(none), {}, 4).zero_group_size.has_value()) << none;
  EXPECT_TRUE(contains(refusal(of("2"), {"--zero_group_size", "4"}, 4), "mics_shard_size is 2"));
  EXPECT_TRUE(contains(refusal(of("0"), {}, 4),
                       "mics_shard_size] expected as many ranks as share, or -1: all do, got 0"));
  EXPECT_TRUE(contains(refusal(of("1.5"), {}, 4), "mics_shard_size] expected an integer of 1 or more"));
}

// Keys of ZeRO that say how DeepSpeed gathers and checks.
TEST(DeepspeedConfig, NewerKeysOfZeroAreTaken) {
  const ParsedArguments parsed = parse_arguments(
      Command::kPlan, {"--model_name_or_path", "bert", "--deepspeed",
                       R"({"zero_optimization": {"stage": 3, "stage3_allgather_sequential": true,
                           "enable_sanity_checks": true, "leaf_module": {"classes": ["MoeBlock"]}}})"});
  ASSERT_FALSE(parsed.notices.empty());
  EXPECT_TRUE(contains(parsed.notices[0],
                       "zero_optimization.enable_sanity_checks, zero_optimization.leaf_module.classes, "
                       "zero_optimization.stage3_allgather_sequential"))
      << parsed.notices[0];
}

TEST(DeepspeedConfig, WhatHasNoEffectIsSaid) {
  const ParsedArguments parsed = parse_arguments(
      Command::kTrain, {"--model_name_or_path", "bert", "--train_file", "t.csv", "--deepspeed", kAuto});
  ASSERT_EQ(parsed.notices.size(), 2U);
  EXPECT_EQ(parsed.notices[1], "zero_stage 2: there is one rank, and nothing to share");
  EXPECT_TRUE(contains(parsed.notices[0],
                       "--deepspeed: no effect here have steps_per_print, "
                       "zero_optimization.allgather_bucket_size, "))
      << parsed.notices[0];
  EXPECT_TRUE(parsed.sets("zero_stage"));
}

// What the file alone says wrong is not blamed on flags.
TEST(DeepspeedConfig, ContradictsItself) {
  const std::string batch = refusal(
      R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2})");
  EXPECT_TRUE(contains(batch, "expected settings that go together, got:")) << batch;
  EXPECT_TRUE(
      contains(batch,
               "train_batch_size is 32, but train_micro_batch_size_per_gpu 4 x gradient_accumulation_steps 2 "
               "x 1 rank is 8"))
      << batch;
  EXPECT_FALSE(contains(batch, "flags")) << batch;
  const std::string rates = refusal(
      R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 1e-4}}})");
  EXPECT_TRUE(contains(rates, "warmup_max_lr is 0.0001, but optimizer.params.lr is 0.001")) << rates;
  EXPECT_FALSE(contains(rates, "flags")) << rates;
}

// A path, a text, an object in a configuration file, and a member that a program sets.
TEST(DeepspeedConfig, IsAFileOrItsText) {
  const TestDirectory directory;
  const std::string json = R"({"gradient_clipping": 0.5})";
  const std::string file = directory.write("ds.json", json).string();
  EXPECT_EQ(arguments_of(file), arguments_of(json));
  const std::string flags = directory.write("args.json", R"({"deepspeed": )" + json + "}").string();
  EXPECT_EQ(parse_arguments(Command::kPlan, {"--config", flags, "--model_name_or_path", "m"})
                .arguments.max_grad_norm,
            0.5);
  TrainingArguments args;
  args.deepspeed = file;
  EXPECT_EQ(with_neighbour_configs(args).max_grad_norm, 0.5);
  args.max_grad_norm = 2;
  EXPECT_TRUE(
      contains(refusal_of([&] { with_neighbour_configs(args); }), file + "] expected what the flags say"));
  EXPECT_TRUE(contains(refusal("absent.json"), "absent.json"));
  EXPECT_TRUE(contains(refusal("{"), "--deepspeed"));
  EXPECT_EQ(parse_arguments(Command::kEval,
                            {"--config", flags, "--model_name_or_path", "m", "--validation_file", "v"})
                .arguments.max_grad_norm,
            1.0)
      << "of training";
}

}  // namespace
}  // namespace shoehorn
