#include "arguments/argument_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error_testing.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using Words = std::vector<std::string>;

// Parses for `plan`, which needs a model only.
TrainingArguments parse(Words words) {
  words.insert(words.begin(), {"--model_name_or_path", "bert"});
  return parse_arguments(Command::kPlan, words).arguments;
}

std::string parse_error(const Words& words) {
  return refusal_of([&] { parse(words); });
}

// A value of the row's kind that differs from its default; for choices, one that is supported where there is
// one.
std::string other_value(const ArgumentSpec& spec) {
  for (const ArgumentChoice& choice : spec.choices) {
    if (choice.why.empty() && ArgumentValue(std::string(choice.value)) != spec.standard) {
      return std::string(choice.value);
    }
  }
  switch (spec.kind) {
    case ArgumentKind::kFlag:
      return spec.standard == ArgumentValue(true) ? "false" : "true";
    case ArgumentKind::kInteger:
      return "7";
    case ArgumentKind::kNumber:
      return "0.75";
    case ArgumentKind::kBytes:
      return "3GiB";
    case ArgumentKind::kKwargs:
      return "some=1";
    default:
      return "something";
  }
}

TEST(ArgumentTable, EveryRowIsHonouredOrRefusedByName) {
  for (const ArgumentSpec& spec : argument_table()) {
    if (spec.rewrite != nullptr) continue;
    const std::string text = other_value(spec);
    TrainingArguments args;
    const std::string message = refusal_of([&] { apply_text(spec, text, spec.name, args); });
    if (spec.status == ArgumentStatus::kSupported) {
      if (message.empty() && spec.field.index() != 0 && spec.name != "report_to") {
        EXPECT_FALSE(args == TrainingArguments()) << spec.name << " changes nothing";
      }
      if (!message.empty()) {
        EXPECT_TRUE(contains(message, "[" + std::string(spec.name) + "] expected"));
      }
    } else {
      EXPECT_TRUE(contains(message, "[" + std::string(spec.name) + "] expected"));
      const char* said = spec.status == ArgumentStatus::kRefused ? "refused"
                         : spec.status == ArgumentStatus::kElsewhere
                             ? "expected a flag of Shoehorn, got one of "
                             : "not in this version yet";
      EXPECT_TRUE(contains(message, said)) << message;
      EXPECT_FALSE(spec.why.empty()) << spec.name;
      EXPECT_EQ(args, TrainingArguments()) << spec.name;
    }
  }
}

// A new flag says what it decides of a run that goes on from a checkpoint.
TEST(ArgumentTable, EveryRowThatARunRecordsSaysWhatItDecides) {
  for (const ArgumentSpec& spec : argument_table()) {
    const bool is_recorded = spec.status == ArgumentStatus::kSupported && spec.field.index() != 0;
    EXPECT_EQ(spec.resume != ResumeRole::kUnclassed, is_recorded) << spec.name;
  }
}

TEST(ArgumentTable, EveryMemberHasARowAndComesBackFromJson) {
  TrainingArguments args;
  size_t members = 0;
  size_t changed = 0;
  for (const ArgumentSpec& spec : argument_table()) {
    EXPECT_FALSE(spec.status == ArgumentStatus::kSupported && spec.help.empty()) << spec.name;
    EXPECT_EQ(spec.help.find('\n'), std::string_view::npos);
    if (spec.field.index() == 0) continue;
    ++members;
    const std::string text = other_value(spec);
    if (refusal_of([&] { apply_text(spec, text, spec.name, args); }).empty()) ++changed;
  }
  const nlohmann::json json = to_json(args);
  EXPECT_EQ(json.size(), members);
  EXPECT_GT(changed, 60U);
  EXPECT_EQ(training_arguments_from_json(parse_json(format_json(json), "text"), "text"), args);
  EXPECT_EQ(training_arguments_from_json(to_json(TrainingArguments()), "text"), TrainingArguments());
}

// Where a refusal names flags that help, they exist and are supported.
TEST(ArgumentTable, RefusalsNameFlagsThatThereAre) {
  std::set<std::string> named;
  for (const ArgumentSpec& spec : argument_table()) {
    std::vector<std::string_view> reasons = {spec.why};
    for (const ArgumentChoice& choice : spec.choices) reasons.push_back(choice.why);
    for (const std::string_view reason : reasons) {
      for (size_t at = reason.find("--"); at != std::string_view::npos; at = reason.find("--", at + 2)) {
        const size_t end = reason.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at + 2);
        const std::string_view name = reason.substr(at + 2, end - at - 2);
        const ArgumentSpec* flag = find_argument(name);
        ASSERT_NE(flag, nullptr) << spec.name << ": " << name;
        EXPECT_EQ(flag->status, ArgumentStatus::kSupported) << spec.name << ": " << name;
        named.emplace(name);
      }
    }
  }
  for (const char* of_ranks : {"zero_stage", "deepspeed", "fsdp", "fsdp_config"})
    EXPECT_TRUE(named.contains(of_ranks)) << of_ranks;
  EXPECT_TRUE(contains(parse_error({"--include_for_metrics", "loss"}), "counted from labels and outputs"));
}

TEST(ArgumentTable, RefusesKnownChoicesAndListsThoseThereAre) {
  const std::string muon = parse_error({"--optim", "muon"});
  EXPECT_TRUE(
      contains(muon,
               "[--optim] expected one of adamw_torch_fused, adamw_torch, adamw_hf, adamw_apex_fused, "
               "adamw_8bit, adamw_bnb_8bit, adafactor, adagrad, lion_32bit, lion_8bit, rmsprop, sgd, lomo, "
               "adalomo"));
  EXPECT_TRUE(contains(parse_error({"--optim", "paged_adamw_8bit"}),
                       "known, but not in this version yet: optimizer state is not moved out of memory"));
  EXPECT_TRUE(contains(muon, "got 'muon'; known, but not in this version yet"));
  EXPECT_TRUE(contains(parse_error({"--optim", "adamw_torch_xla"}), "refused"));
  EXPECT_TRUE(contains(parse_error({"--optim", "adamw_torch_fuse"}), "did you mean adamw_torch_fused?"));
  EXPECT_TRUE(contains(parse_error({"--optim", "adam"}), "did you mean adamw_torch_fused?"));
  EXPECT_TRUE(contains(parse_error({"--optim", "lion"}), "did you mean lion_32bit?"));
  EXPECT_FALSE(contains(parse_error({"--optim", ""}), "did you mean"));
  EXPECT_TRUE(contains(
      parse_error({"--report_to", "wandb"}),
      "[--report_to] expected one of none, all, tensorboard, html, jsonl, got 'wandb'; known, but refused"));
  EXPECT_TRUE(contains(
      parse_error({"--tf32"}),
      "[--tf32] expected nothing, got true; known, but not in this version yet: it needs an NVIDIA GPU"));
  EXPECT_TRUE(contains(parse_error({"--local_rank", "0"}), "[--local_rank] expected -1, got 0"));
  for (const std::string flag : {"--accelerator_config", "--quantization_config"}) {
    EXPECT_TRUE(
        contains(parse_error({flag, "x.json"}), "[" + flag + "] expected nothing, got 'x.json'; known"))
        << flag;
    EXPECT_TRUE(contains(parse_error({flag, "{\"a\": 1}"}), "got a=1; known, but not in this version"))
        << flag;
  }
  EXPECT_TRUE(contains(parse_error({"--push_to_hub"}), "refused"));
  EXPECT_TRUE(contains(parse_error({"--logging_nan_inf_filter"}), "refused"));
  EXPECT_TRUE(contains(parse_error({"--task", "fill-mask"}), "not in this version yet"));
  for (const std::string optim :
       {"adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused", "adafactor", "adagrad",
        "lion_32bit", "rmsprop", "sgd", "adamw_8bit", "adamw_bnb_8bit", "lion_8bit"}) {
    EXPECT_EQ(parse({"--optim", optim}).optim, optim);
  }
  for (const std::string optim : {"lomo", "adalomo"}) {
    EXPECT_TRUE(
        contains(parse_error({"--optim", optim}), "[optim " + optim + "] expected max_grad_norm 0, got 1"));
    EXPECT_TRUE(parse({"--optim", optim, "--max_grad_norm", "0"}).update_in_backward) << optim;
  }
}

TEST(ArgumentTable, AcceptsTheDefaultOfWhatItLacks) {
  EXPECT_EQ(parse({"--tf32", "0", "--no_auto_find_batch_size", "--hub_strategy", "every_save", "--report_to",
                   "none", "--ddp_timeout", "1800"})
                .auto_find_batch_size,
            false);
  EXPECT_TRUE(contains(parse_error({"--tf32", "1"}), "[--tf32] expected nothing, got true"));
  EXPECT_EQ(parse({"--no_tf32"}).tf32, false);
}

// Command lines of the Trainer's examples run as they stand where what they ask for is so in any case.
TEST(ArgumentTable, TakesWhatIsAlwaysSo) {
  const std::vector<std::string> plain = {"--model_name_or_path", "m", "--train_file", "t.txt"};
  std::vector<std::string> words = plain;
  words.insert(words.end(), {"--preprocessing_num_workers", "4", "--low_cpu_mem_usage", "True"});
  EXPECT_TRUE(parse_arguments(Command::kTrain, words).arguments ==
              parse_arguments(Command::kTrain, plain).arguments);
  words.emplace_back("--streaming");
  EXPECT_TRUE(contains(refusal_of([&] { parse_arguments(Command::kTrain, words); }), "--dataset_cache"));
}

TEST(ArgumentTable, ParsesEveryForm) {
  const TrainingArguments args = parse(
      {"--learning_rate=3e-4", "--per-device-train-batch-size", "16", "--bf16", "--max_steps", "-1",
       "--gradient_checkpointing", "yes", "--dataloader-drop-last=True", "--skip_pass", "fuse", "recompute",
       "--text_column_names", "a,b", "--memory_budget", "6GiB", "--no-pad-to-max-length", "--seed", "7"});
  EXPECT_EQ(args.learning_rate, 3e-4);
  EXPECT_EQ(args.per_device_train_batch_size, 16);
  EXPECT_TRUE(args.bf16);
  EXPECT_EQ(args.max_steps, -1);
  EXPECT_TRUE(args.gradient_checkpointing);
  EXPECT_TRUE(args.dataloader_drop_last);
  EXPECT_EQ(args.skip_pass, (Words{"fuse", "recompute"}));
  EXPECT_EQ(args.text_column_names, (Words{"a", "b"}));
  EXPECT_EQ(args.memory_budget, int64_t{6} << 30);
  EXPECT_FALSE(args.pad_to_max_length);
  for (const std::string off : {"false", "0", "no", "False", "off"})
    EXPECT_FALSE(parse({"--bf16", off}).bf16) << off;
  for (const std::string on : {"true", "1", "yes", "True", "on"})
    EXPECT_TRUE(parse({"--bf16", on}).bf16) << on;
  EXPECT_FALSE(parse({"--bf16", "--no_bf16"}).bf16) << "the last of a repeated flag counts";
}

TEST(ArgumentTable, CommasOfAPatternEndNone) {
  const auto patterns_of = [](const std::string& text) {
    TrainingArguments args;
    apply_text(*find_argument("freeze"), text, "--freeze", args);
    return args.freeze;
  };
  EXPECT_EQ(patterns_of("a, b ,,c"), (Words{"a", "b", "c"}));
  EXPECT_EQ(patterns_of("a{1,3},b{2,},c"), (Words{"a{1,3}", "b{2,}", "c"}));
  EXPECT_EQ(patterns_of("[,(],(x,(y,z)),w"), (Words{"[,(]", "(x,(y,z))", "w"}));
  EXPECT_EQ(patterns_of(R"(a\,b,\[c,d\()"), (Words{R"(a\,b)", R"(\[c)", R"(d\()"}));
  // A brace that opens no repetition stands for itself.
  EXPECT_EQ(patterns_of("a{b,c{1,x}"), (Words{"a{b", "c{1", "x}"}));
  EXPECT_EQ(patterns_of("layer(,b"), Words{"layer(,b"}) << "the expression's error names all of it";
  EXPECT_EQ(patterns_of("a),b,c\\"), (Words{"a)", "b", "c\\"}));
}

// Micro-batches and their number follow from an effective batch, where the user left them open.
TEST(ArgumentTable, AnEffectiveBatchIsDivided) {
  const auto divided = [](const std::vector<std::string>& flags, int64_t ranks) {
    std::vector<std::string> words = {"--model_name_or_path", "m", "--train_file", "t", "--output_dir", "o"};
    words.insert(words.end(), flags.begin(), flags.end());
    const TrainingArguments args = parse_arguments(Command::kTrain, words, ranks).arguments;
    EXPECT_EQ(effective_batch_size(args), args.effective_batch_size);
    return std::pair(args.per_device_train_batch_size, args.gradient_accumulation_steps);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(divided({"--effective_batch_size", "64"}, 1), Pair(8, 8));
  EXPECT_EQ(divided({"--effective_batch_size", "12"}, 1), Pair(6, 2))
      << "the largest divisor up to the standard size";
  EXPECT_EQ(divided({"--effective_batch_size", "5"}, 2), Pair(5, 1)) << "a rank has nothing to do";
  EXPECT_EQ(divided({"--effective_batch_size", "32", "--per_device_train_batch_size", "8"}, 3), Pair(8, 2));
  EXPECT_EQ(divided({"--global_batch_size", "32", "--gradient_accumulation_steps", "2"}, 2), Pair(8, 2));
  EXPECT_NE(refusal_of([&] {
              divided({"--effective_batch_size", "32", "--gradient_accumulation_steps", "3"}, 1);
            }).find("[--gradient_accumulation_steps] expected 4"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] {
              divided({"--effective_batch_size", "9223372036854775807", "--gradient_accumulation_steps",
                       "9223372036854775807"},
                      4);
            }).find("2^40"),
            std::string::npos);
}

TEST(ArgumentTable, NamesWhatItCannotRead) {
  EXPECT_TRUE(contains(parse_error({"--lerning_rate", "1"}), "[--lerning_rate] expected a known flag"));
  EXPECT_TRUE(contains(parse_error({"--lerning_rate", "1"}), "did you mean --learning_rate?"));
  EXPECT_TRUE(contains(parse_error({"--learning_rate"}), "[--learning_rate] expected a value, got nothing"));
  EXPECT_TRUE(
      contains(parse_error({"--learning_rate", "--bf16"}), "[--learning_rate] expected a value, got --bf16"));
  EXPECT_TRUE(
      contains(parse_error({"--learning_rate", "fast"}), "[--learning_rate] expected a number, got 'fast'"));
  EXPECT_TRUE(contains(parse_error({"--learning_rate", "nan"}), "expected a number"));
  EXPECT_TRUE(contains(parse_error({"--learning_rate", "1e999"}), "expected a number"));
  EXPECT_TRUE(contains(parse_error({"--seed", "1.5"}), "[--seed] expected an integer, got '1.5'"));
  EXPECT_TRUE(contains(parse_error({"--seed", "99999999999999999999"}), "expected an integer"));
  EXPECT_TRUE(contains(parse_error({"--seed="}), "expected an integer, got ''"));
  for (const char* text : {"+-5", "-+5", "--5", "++5", "+", "+ 5", " 5", "5 ", "0x5", "5e", "inf", "+inf"}) {
    const std::string value = std::string("=") + text;
    EXPECT_TRUE(contains(parse_error({"--seed" + value}), "[--seed] expected an integer, got ")) << text;
    EXPECT_TRUE(
        contains(parse_error({"--learning_rate" + value}), "[--learning_rate] expected a number, got "))
        << text;
  }
  EXPECT_EQ(parse({"--seed=+5"}).seed, 5);
  EXPECT_TRUE(contains(parse_error({"--bf16=maybe"}), "[--bf16] expected true or false, got 'maybe'"));
  EXPECT_TRUE(contains(parse_error({"--no_bf16=true"}), "expected no value"));
  EXPECT_TRUE(contains(parse_error({"--no_seed"}), "expected a known flag"));
  EXPECT_TRUE(contains(parse_error({"--bf16", "maybe"}),
                       "[--bf16] expected true, false or nothing behind it, got 'maybe'"));
  EXPECT_TRUE(contains(parse_error({"--seed=1", "maybe"}), "[command line] expected --name, --name value"));
  EXPECT_TRUE(contains(parse_error({"--memory_budget", "6 apples"}), "[--memory_budget]"));
  EXPECT_TRUE(contains(parse_error({"--memory_budget", "250"}),
                       "[--memory_budget] expected a number of bytes such as"));
  EXPECT_TRUE(contains(parse_error({"--"}), "[command line]"));
  EXPECT_TRUE(contains(parse_error({""}), "[command line]"));
  EXPECT_TRUE(contains(parse_error({"--lr_scheduler_kwargs", "power"}), "name=value"));
  EXPECT_TRUE(
      contains(parse_error({"--lr_scheduler_kwargs", "{\"power\": [1]}"}), "lr_scheduler_kwargs: power"));
}

// Also where it is the default, which the value alone does not show.
TEST(ArgumentTable, AGivenLearningRateBesideTheOptimizersOwn) {
  const Words relative = {"--optim", "adafactor", "--optim_args", "relative_step=true"};
  EXPECT_EQ(parse_error(relative), "");
  Words given = relative;
  given.insert(given.end(), {"--learning_rate", "5e-5"});
  EXPECT_TRUE(
      contains(parse_error(given), "[learning_rate] expected none with optim_args relative_step=true"));
  EXPECT_EQ(parse_error({"--optim", "adafactor", "--learning_rate", "5e-5"}), "");
}

TEST(ArgumentTable, OldSpellings) {
  EXPECT_EQ(parse({"--evaluation_strategy", "epoch"}).eval_strategy, "epoch");
  EXPECT_EQ(parse({"--group_by_length"}).train_sampling_strategy, "group_by_length");
  EXPECT_TRUE(parse({"--no_cuda"}).use_cpu);
  EXPECT_EQ(parse({"--warmup_ratio", "0.1"}).warmup_ratio, 0.1);
  EXPECT_EQ(parse({"--per_gpu_train_batch_size", "3"}).per_device_train_batch_size, 3);
  EXPECT_EQ(parse({"--task_name", "mrpc"}).task_name, "mrpc");
  EXPECT_TRUE(parse({"--mixed_precision", "bf16"}).bf16);
  for (const char* name : {"--dtype", "--torch_dtype"}) {
    EXPECT_TRUE(parse({name, "bfloat16"}).bf16);
    EXPECT_EQ(parse({name, "bfloat16"}).master_weights, "none");
    EXPECT_EQ(parse({name, "bfloat16", name, "float32"}).master_weights, "fp32");
  }
  EXPECT_TRUE(parse({"--precision", "bf16-mixed"}).bf16);
  EXPECT_TRUE(parse({"--precision", "16-mixed"}).fp16);
  EXPECT_TRUE(parse({"--mixed_precision", "fp16"}).fp16);
  EXPECT_TRUE(
      contains(parse_error({"--precision", "16-true"}), "got '16-true'; known, but not in this version yet"));
  EXPECT_EQ(parse({"--adafactor"}).optim, "adafactor");
  EXPECT_TRUE(parse({"--debug", "underflow_overflow"}).detect_anomaly);
  EXPECT_EQ(parse({"--torchdynamo", "eager"}).torch_compile_backend, "eager");
  EXPECT_TRUE(contains(parse_error({"--torchdynamo", "nvfuser"}), "refused"));
  EXPECT_EQ(parse({"--log_level", "info"}).log_level, "info");
  EXPECT_TRUE(parse({"--activation_checkpointing"}).gradient_checkpointing);
  const auto train = [](const Words& words) {
    Words all = {"--model_name_or_path", "m", "--train_file", "t.csv", "--overwrite_output_dir"};
    all.insert(all.end(), words.begin(), words.end());
    return parse_arguments(Command::kTrain, all).arguments;
  };
  EXPECT_TRUE(train({}).overwrite_output_dir);
  EXPECT_EQ(train({"--include_num_input_tokens_seen"}).include_num_input_tokens_seen, "all");
  EXPECT_EQ(train({"--include_num_input_tokens_seen", "no"}).include_num_input_tokens_seen, "no");
  EXPECT_EQ(train({"--resume_from_checkpoint"}).resume_from_checkpoint, "true");
  EXPECT_EQ(train({"--resume_from_checkpoint", "True"}).resume_from_checkpoint, "true");
  EXPECT_EQ(train({"--resume_from_checkpoint", "False"}).resume_from_checkpoint, "");
  EXPECT_EQ(train({"--resume_from_checkpoint", "out/checkpoint-3"}).resume_from_checkpoint,
            "out/checkpoint-3");
}

class ArgumentConfig : public testing::Test {
 protected:
  ~ArgumentConfig() override { std::filesystem::remove(path_); }
  std::string write(const std::string& text) {
    std::FILE* file = std::fopen(path_.c_str(), "w");
    EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    return path_;
  }

  std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      ("arguments_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".json");
};

TEST_F(ArgumentConfig, IsOverriddenByTheCommandLine) {
  const std::string path = write(R"({
    "learning_rate": 1e-3, "bf16": true, "max_steps": 10, "weight_decay": 1, "save_total_limit": null,
    "gradient_checkpointing": true, "gradient_checkpointing_kwargs": {"every_n_layers": 2, "use_reentrant": false},
    "lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 2.0, "lr_end": "1e-6"},
    "optim": "sgd", "optim_args": "momentum=0.9,nesterov=true", "skip_pass": ["fuse"], "eval-strategy": "no",
    "group_by_length": true, "debug": [], "memory_budget": 1073741824, "save_steps": "50", "report_to": [],
    "hub_token": null, "fp16": false})");
  const TrainingArguments args = parse({"--no_bf16", "--config", path, "--max_steps=20"});
  EXPECT_EQ(args.learning_rate, 1e-3);
  EXPECT_FALSE(args.bf16);
  EXPECT_EQ(args.max_steps, 20);
  EXPECT_EQ(args.weight_decay, 1.0);
  EXPECT_EQ(recompute_every_n_layers(args), 2);
  EXPECT_EQ(args.lr_scheduler_kwargs, (Kwargs{{"power", 2.0}, {"lr_end", 1e-6}}));
  const auto sgd = std::get<SgdSettings>(optimizer_settings_of(args));
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(args.skip_pass, Words{"fuse"});
  EXPECT_EQ(args.train_sampling_strategy, "group_by_length");
  EXPECT_EQ(args.memory_budget, int64_t{1} << 30);
  EXPECT_EQ(args.save_steps, 50);
  EXPECT_EQ(parse({path}).max_steps, 10) << "a lone file is a configuration";
}

TEST_F(ArgumentConfig, OldSpellingsOverrideItToo) {
  for (const char* precision : {"bf16", "fp16"}) {
    const std::string path = write(fmt::format(R"({{"{}": true}})", precision));
    for (const Words& off : std::vector<Words>{{"--mixed_precision", "no"}, {"--precision", "32"}}) {
      const TrainingArguments args = parse({path, off[0], off[1]});
      EXPECT_FALSE(args.bf16 || args.fp16) << precision << " " << off[0];
    }
    EXPECT_TRUE(parse({path, "--mixed_precision", "fp16"}).fp16);
    EXPECT_FALSE(parse({path, "--mixed_precision", "fp16"}).bf16);
    EXPECT_TRUE(parse({path, "--precision", "bf16-mixed"}).bf16);
    EXPECT_FALSE(parse({path, "--precision", "bf16-mixed"}).fp16);
  }
  std::string path =
      write(R"({"group_by_length": true, "adafactor": true, "evaluate_during_training": true})");
  EXPECT_EQ(parse({path}).optim, "adafactor");
  const TrainingArguments args =
      parse({path, "--no_group_by_length", "--adafactor", "false", "--no_evaluate_during_training"});
  EXPECT_EQ(args.train_sampling_strategy, "random");
  EXPECT_EQ(args.optim, TrainingArguments().optim);
  EXPECT_EQ(args.eval_strategy, "no");
  path = write(R"({"train_sampling_strategy": "sequential", "optim": "sgd"})");
  EXPECT_EQ(parse({path, "--no_group_by_length"}).train_sampling_strategy, "sequential");
  EXPECT_EQ(parse({path, "--no_adafactor"}).optim, "sgd") << "what was not said is not taken back";
}

TEST_F(ArgumentConfig, NamesTheFileAndTheKey) {
  const auto error_with = [&](const std::string& text) { return parse_error({"--config", write(text)}); };
  EXPECT_TRUE(contains(error_with(R"({"lerning_rate": 1})"),
                       path_.string() + ": lerning_rate] expected a known flag"));
  EXPECT_TRUE(contains(error_with(R"({"learning_rate": "x"})"),
                       path_.string() + ": learning_rate] expected a number"));
  EXPECT_TRUE(contains(error_with(R"({"learning_rate": [1]})"), "expected a single value"));
  EXPECT_TRUE(
      contains(error_with(R"({"learning_rate": NaN})"), "learning_rate] expected a number, got 'NaN'"));
  EXPECT_TRUE(
      contains(error_with(R"({"eval_steps": -Infinity})"), "eval_steps] expected a number, got '-Infinity'"));
  EXPECT_TRUE(contains(error_with(R"({"optim_args": {"eps": Infinity}})"),
                       "optim_args: eps] expected a boolean, a number"));
  EXPECT_TRUE(contains(error_with(R"({"max_steps": 1.5})"), "expected an integer, got '1.5'"));
  EXPECT_TRUE(contains(error_with(R"({"max_steps": true})"), "expected an integer"));
  EXPECT_TRUE(contains(error_with(R"({"max_steps": 18446744073709551615})"), "expected an integer"));
  for (const char* budget : {"500", "-5", "1.5", "\"500\"", "1e3", "true"}) {
    EXPECT_TRUE(contains(error_with(fmt::format(R"({{"memory_budget": {}}})", budget)),
                         path_.string() + ": memory_budget] expected a number of bytes such as"))
        << budget;
  }
  EXPECT_TRUE(contains(error_with(R"({"bf16": "maybe"})"), "expected true or false"));
  EXPECT_TRUE(contains(error_with(R"({"tf32": true})"), "not in this version yet"));
  EXPECT_TRUE(contains(error_with(R"({"config": "b.json"})"), "another configuration file"));
  EXPECT_TRUE(contains(error_with(R"({"gradient_checkpointing_kwargs": {"every_n_layer": 2}})"),
                       "did you mean every_n_layers?"));
  EXPECT_TRUE(contains(error_with("[1]"), "expected a JSON object of flags"));
  EXPECT_TRUE(contains(error_with("{\"a\": "), path_.string()));
  EXPECT_TRUE(contains(parse_error({"--config", "/nonexistent.json"}), "/nonexistent.json"));
}

TEST_F(ArgumentConfig, RowsThatACommandSetsAreRefusedFromBothPlaces) {
  constexpr std::string_view kNames[] = {"output_dir", "seed"};
  const auto refusal = [&](Words words) {
    words.insert(words.begin(), {"--model_name_or_path", "bert"});
    return refusal_of([&] { refuse_set_rows(parse_arguments(Command::kPlan, words), kNames, "it sets it"); });
  };
  EXPECT_EQ(refusal({"--learning_rate", "1e-3"}), "");
  EXPECT_EQ(refusal({"--seed", "7"}), "[--seed] expected no value, because it sets it, got one");
  EXPECT_EQ(refusal({"--config", write(R"({"seed": 7})")}),
            "[--seed] expected no value, because it sets it, got one from the configuration file");
}

TEST(ArgumentTable, KwargsAsTextOrJson) {
  const Kwargs expected = {{"every_n_layers", 2}, {"use_reentrant", false}};
  EXPECT_EQ(parse({"--gradient_checkpointing_kwargs", R"({"every_n_layers": "2", "use_reentrant": "false"})"})
                .gradient_checkpointing_kwargs,
            expected);
  EXPECT_EQ(parse({"--gradient_checkpointing_kwargs=every_n_layers=2, use_reentrant=false"})
                .gradient_checkpointing_kwargs,
            expected);
}

}  // namespace
}  // namespace shoehorn
