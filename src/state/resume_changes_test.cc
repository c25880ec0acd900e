#include "state/resume_changes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "state/checkpoint_record.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;
using nlohmann::json;

// A checkpoint of step 5 as far as it is compared, and the run that goes on from it.
class ResumeChangesTest : public testing::Test {
 protected:
  ResumeChangesTest() : model_(tiny_bert(), R"({"hidden_dropout_prob": 0.1})") {
    args_.per_device_train_batch_size = 4;
    identity_ = {.training_samples = 28,
                 .training_data = "00000000aa",
                 .evaluation_data = "11111111aa",
                 .companions = {{"vocab.txt", "22222222aa"}},
                 .base_weights = "33333333aa",
                 .machine = "AVX2, a library"};
    write(run_state_at(20));
    TrainerState state;
    state.global_step = 5;
    write_json_atomic(path("trainer_state.json"), to_json(state));
    write_json_atomic(path("config.json"), parse_json(model_.config_json(), "config.json"));
    write_arguments(args_);
  }

  fs::path path(const char* file) const { return directory_.path() / file; }
  json run_state_at(const json& samples_consumed) const {
    json state = to_json(ResumeState{.identity = identity_, .position = {}});
    state["position"]["samples_consumed"] = samples_consumed;
    return state;
  }
  // Of an older version, which recorded less of what decides the numbers.
  json run_state_at(const json& samples_consumed, const json& identity) const {
    json state = run_state_at(samples_consumed);
    state["identity"] = identity;
    return state;
  }
  void write(const json& run_state) { write_json_atomic(path("shoehorn_state.json"), run_state); }
  void write_arguments(const TrainingArguments& args) {
    write_json_atomic(path("training_args.json"), to_json(args));
  }

  ResumeChanges changes() const {
    const WindowSchedule schedule({.samples = identity_.training_samples,
                                   .micro_batch_size = args_.per_device_train_batch_size,
                                   .gradient_accumulation_steps = args_.gradient_accumulation_steps,
                                   .drop_last = args_.dataloader_drop_last});
    return compare_with_checkpoint(directory_.path(), {args_, model_, identity_, schedule});
  }

  // The one change there is, as "what before → now, role".
  std::string change() const {
    const ResumeChanges found = changes();
    if (found.list.size() != 1) return fmt::format("{} changes", found.list.size());
    static const std::map<ResumeRole, std::string> roles = {{ResumeRole::kSamples, "samples"},
                                                            {ResumeRole::kState, "state"},
                                                            {ResumeRole::kNumerics, "numerics"},
                                                            {ResumeRole::kFree, "free"}};
    const ResumeChange& one = found.list[0];
    return fmt::format("{} {} -> {}, {}", one.what, one.before, one.now, roles.at(one.role));
  }

  // The same after `alter`, which is taken back.
  template <typename Alter>
  std::string change_of(const Alter& alter) {
    const TrainingArguments args = args_;
    const RunIdentity identity = identity_;
    alter();
    std::string text = change();
    args_ = args;
    identity_ = identity;
    return text;
  }

  const TestDirectory directory_;
  BertForSequenceClassification model_;
  TrainingArguments args_;
  RunIdentity identity_;
};

TEST_F(ResumeChangesTest, TheSameRunHasNone) {
  EXPECT_TRUE(changes().list.empty());
  EXPECT_TRUE(changes().unrecorded.empty());
  EXPECT_FALSE(changes().forgets_best);
}

TEST_F(ResumeChangesTest, FlagsByWhatTheyDecide) {
  EXPECT_EQ(change_of([&] { args_.seed = 7; }), "--seed 42 -> 7, samples");
  EXPECT_EQ(change_of([&] { args_.data_seed = 7; }), "--data_seed nothing -> 7, samples");
  EXPECT_EQ(change_of([&] { args_.world_size = 2; }), "--world_size 1 -> 2, samples");
  EXPECT_EQ(change_of([&] { args_.local_sgd_steps = 8; }), "--local_sgd_steps 0 -> 8, state");
  EXPECT_EQ(change_of([&] { args_.effective_batch_size = 8; }),
            "--effective_batch_size nothing -> 8, samples");
  EXPECT_EQ(change_of([&] { args_.effective_batch_size = 4; }), "--effective_batch_size nothing -> 4, free");
  EXPECT_EQ(change_of([&] { args_.train_sampling_strategy = "sequential"; }),
            "--train_sampling_strategy 'random' -> 'sequential', samples");
  EXPECT_EQ(change_of([&] { args_.batch_size_ramp = {"0:4"}; }), "--batch_size_ramp nothing -> 0:4, samples");
  EXPECT_EQ(change_of([&] { args_.dataloader_drop_last = true; }),
            "--dataloader_drop_last false -> true, samples");
  EXPECT_EQ(change_of([&] { args_.optim = "sgd"; }), "--optim 'adamw' -> 'sgd', state");
  EXPECT_EQ(change_of([&] { args_.freeze = {"bias"}; }), "--freeze nothing -> bias, state");
  EXPECT_EQ(change_of([&] { args_.lora_rank = 4; }), "--lora_rank 0 -> 4, state");
  EXPECT_EQ(change_of([&] { args_.bf16 = true; }), "--bf16 false -> true, numerics");
  EXPECT_EQ(change_of([&] { args_.fp16 = true; }), "--fp16 false -> true, numerics");
  EXPECT_EQ(change_of([&] { args_.master_weights = "none"; }), "--master_weights 'fp32' -> 'none', numerics");
  EXPECT_EQ(change_of([&] { args_.z_loss = 0.5; }), "--z_loss 0 -> 0.5, numerics");
  EXPECT_EQ(change_of([&] { args_.label_smoothing_factor = 0.1; }),
            "--label_smoothing_factor 0 -> 0.1, numerics");
  EXPECT_EQ(change_of([&] { args_.lora_dropout = 0.5; }), "--lora_dropout 0 -> 0.5, numerics");
  EXPECT_EQ(change_of([&] { args_.optim_args["eps"] = 0.5; }), "--optim_args nothing -> eps=0.5, numerics");
  EXPECT_EQ(change_of([&] { args_.learning_rate = 1; }), "--learning_rate 5e-05 -> 1, free");
  EXPECT_EQ(change_of([&] { args_.max_steps = 9; }), "--max_steps -1 -> 9, free");
  EXPECT_EQ(change_of([&] { args_.lr_scheduler_type = "cosine"; }),
            "--lr_scheduler_type 'linear' -> 'cosine', free");
  EXPECT_EQ(change_of([&] { args_.max_grad_norm = 0; }), "--max_grad_norm 1 -> 0, free");
  EXPECT_EQ(change_of([&] { args_.gradient_checkpointing = true; }),
            "--gradient_checkpointing false -> true, free");
  EXPECT_EQ(change_of([&] { args_.update_in_backward = true; }), "--update_in_backward false -> true, free");
  EXPECT_EQ(change_of([&] { args_.validation_file = "b.csv"; }),
            "--validation_file nothing -> 'b.csv', free");
  EXPECT_EQ(change_of([&] { args_.output_dir = "elsewhere"; }), "0 changes");
  EXPECT_EQ(change_of([&] { args_.optim = "adamw_torch"; }), "0 changes") << "the same optimizer";
}

TEST_F(ResumeChangesTest, ABatchIsCutOtherwiseOrIsAnother) {
  args_.per_device_train_batch_size = 2;
  EXPECT_EQ(change(), "--per_device_train_batch_size 4 -> 2, samples");
  args_.gradient_accumulation_steps = 2;
  ASSERT_EQ(changes().list.size(), 2U);
  for (const ResumeChange& one : changes().list) EXPECT_EQ(one.role, ResumeRole::kFree) << one.what;
  // An incomplete micro-batch that is dropped is another one.
  args_.dataloader_drop_last = true;
  TrainingArguments before = args_;
  before.per_device_train_batch_size = 4;
  before.gradient_accumulation_steps = 1;
  write_arguments(before);
  ASSERT_EQ(changes().list.size(), 2U);
  for (const ResumeChange& one : changes().list) EXPECT_EQ(one.role, ResumeRole::kSamples) << one.what;
}

TEST_F(ResumeChangesTest, WhatArgumentsDoNotSay) {
  EXPECT_EQ(change_of([&] { identity_.training_data = "99999999aa"; }),
            "training data 28 samples of content 00000000 -> 28 samples of content 99999999, samples");
  EXPECT_EQ(change_of([&] { identity_.base_weights = "99999999aa"; }),
            "weights of the base model 33333333 -> 99999999, numerics");
  EXPECT_EQ(change_of([&] { identity_.companions["vocab.txt"] = "99999999aa"; }),
            "vocab.txt 22222222 -> 99999999, free");
  EXPECT_EQ(change_of([&] { identity_.machine = "AVX-512, a library"; }),
            "machine, whose products round differently AVX2, a library -> AVX-512, a library, free");
  json config = parse_json(model_.config_json(), "config.json");
  config["hidden_dropout_prob"] = 0.2;
  config["dtype"] = "bfloat16";
  write_json_atomic(path("config.json"), config);
  EXPECT_EQ(change(), "config.json: hidden_dropout_prob 0.2 -> 0.1, numerics");
  model_.set_labels({.names = {"down", "up"}});
  config = parse_json(model_.config_json(), "config.json");
  write_json_atomic(path("config.json"), config);
  model_.set_labels({.names = {"up", "down"}});
  EXPECT_EQ(change(), R"(config.json: id2label {"0":"down","1":"up"} -> {"0":"up","1":"down"}, numerics)");
}

// A flag of the data decides by what it makes of them.
TEST_F(ResumeChangesTest, FlagsOfTheDataDecideThroughTheirContent) {
  args_.max_seq_length = 64;
  EXPECT_EQ(change(), "--max_seq_length 128 -> 64, free");
  identity_.training_data = "99999999aa";
  const ResumeChanges found = changes();
  ASSERT_EQ(found.list.size(), 2U);
  for (const ResumeChange& one : found.list) EXPECT_EQ(one.role, ResumeRole::kSamples) << one.what;
}

TEST_F(ResumeChangesTest, TheBestModelIsForgottenWhereItCannotBeCompared) {
  EXPECT_EQ(change_of([&] { identity_.evaluation_data = "99999999aa"; }),
            "evaluation data 11111111 -> 99999999, free");
  identity_.evaluation_data = "99999999aa";
  EXPECT_TRUE(changes().forgets_best);
  identity_.evaluation_data = "11111111aa";
  args_.metric_for_best_model = "accuracy";
  EXPECT_FALSE(changes().forgets_best) << "there was none";
  write_arguments(args_);
  args_.metric_for_best_model = "f1";
  EXPECT_TRUE(changes().forgets_best);
}

// What an older checkpoint does not say is named and not compared; its number of samples is.
TEST_F(ResumeChangesTest, OlderCheckpoints) {
  json old_arguments = to_json(args_);
  old_arguments.erase("data_seed");
  write_json_atomic(path("training_args.json"), old_arguments);
  json before_identities = run_state_at(20);
  before_identities.erase("identity");
  before_identities["position"]["training_samples"] = 28;
  write(before_identities);
  args_.data_seed = 5;
  EXPECT_TRUE(changes().list.empty());
  EXPECT_EQ(changes().unrecorded,
            (std::vector<std::string>{"--data_seed", "the content of the training data"}));
  identity_.training_samples = 29;
  EXPECT_EQ(change(), "training data 28 samples -> 29 samples, samples");
  write(run_state_at(20, json::object()));
  EXPECT_TRUE(changes().list.empty());
  write(run_state_at(19, {{"seed", 42}}));
  EXPECT_EQ(change(), "samples consumed by step 5 19 -> 20, samples");
}

TEST_F(ResumeChangesTest, FilesOfAnotherShapeAreNamed) {
  const auto refusal = [&] { return message_of<UserError>([&] { changes(); }); };
  write_json_atomic(path("training_args.json"), json::array());
  EXPECT_TRUE(contains(refusal(), "training_args.json] expected a JSON object"));
  write_json_atomic(path("training_args.json"), json{{"seed", "x"}});
  EXPECT_TRUE(contains(refusal(), "training_args.json: seed] expected an integer"));
  write_arguments(args_);
  for (const json& wrong : {json{{"training_data", 3}}, json{{"training_samples", "3"}},
                            json{{"training_samples", -1}}, json{{"training_samples", 1e300}},
                            json{{"companions", {{"vocab.txt", nullptr}}}}, json{{"companions", "a"}}}) {
    write(run_state_at(20, wrong));
    EXPECT_TRUE(contains(refusal(), "shoehorn_state.json: identity")) << wrong;
  }
  for (const json& wrong : {json(-1), json(2.5), json(1e300), json("20"), json()}) {
    write(run_state_at(wrong));
    EXPECT_TRUE(
        contains(refusal(), "shoehorn_state.json: position: samples_consumed] expected a whole number"))
        << wrong;
  }
  fs::remove(path("shoehorn_state.json"));
  EXPECT_TRUE(contains(refusal(), "--save_only_model"));
}

TEST(CheckResumeChanges, RefusesByNamePermitsByOneFlagAndShowsTheRest) {
  const ResumeChange seed = {"--seed", "42", "7", ResumeRole::kSamples};
  const ResumeChange bf16 = {"--bf16", "false", "true", ResumeRole::kNumerics};
  const ResumeChange optim = {"--optim", "'adamw'", "'sgd'", ResumeRole::kState};
  const ResumeChange rate = {"--learning_rate", "5e-05", "1", ResumeRole::kFree};
  std::vector<std::string> lines;
  const auto check = [&](const std::vector<ResumeChange>& list, bool allowed) {
    lines.clear();
    return message_of<UserError>([&] {
      check_resume_changes("out/checkpoint-5/", {.list = list}, allowed,
                           [&](const std::string& line) { lines.push_back(line); });
    });
  };
  EXPECT_NO_THROW(check_resume_changes("out/checkpoint-5", {.list = {rate}}, false, {}));
  const std::string refusal = check({rate, seed, bf16}, false);
  EXPECT_TRUE(contains(refusal, "[--resume_from_checkpoint out/checkpoint-5/] expected the run"));
  EXPECT_TRUE(contains(refusal, "got other samples: --seed 42 → 7; other numerics: --bf16 false → true; "));
  EXPECT_TRUE(contains(refusal, "--allow_resume_changes"));
  EXPECT_FALSE(contains(refusal, "learning_rate"));
  EXPECT_TRUE(lines.empty());
  check_resume_changes("out/checkpoint-5/", {.list = {rate, seed, bf16}}, true,
                       [&](const std::string& line) { lines.push_back(line); });
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "changed since checkpoint-5: --learning_rate 5e-05 → 1");
  EXPECT_EQ(lines[1], "changed since checkpoint-5: --seed 42 → 7");
  EXPECT_EQ(lines[2], "changed since checkpoint-5: --bf16 false → true");
  EXPECT_TRUE(contains(lines[3], "samples go on where the changed run is"));
  // No flag gives a checkpoint the states that it lacks.
  const std::string states = check({seed, optim}, true);
  EXPECT_TRUE(contains(states, "got other states: --optim 'adamw' → 'sgd'; "));
  EXPECT_FALSE(contains(states, "--seed"));
  EXPECT_FALSE(contains(states, "--allow_resume_changes"));
}

}  // namespace
}  // namespace shoehorn
