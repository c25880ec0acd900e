// What a checkpoint holds and what of it is checked; that training goes on from one exactly is
// tests/train_resume_test.cc.
#include "state/checkpoint.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/checkpoint_directory.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "io/model_directory.h"
#include "io/test_directory.h"
#include "state/checkpoint_record.h"
#include "state/weights.h"
#include "tokenize/tokenizer.h"
#include "tokenize/vocab_merges_files.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;
using nlohmann::json;

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() : model_(tiny_bert()), session_(model_, options()) {
    session_.reserve();
    initialize_weights(session_.state(), session_.executor(), 4);
    args_.output_dir = directory_.path().string();
    state_.global_step = 7;
    state_.max_steps = 9;
    position_ = {.applied_updates = 6,
                 .samples_consumed = 55,
                 .loss_since_log = 0.1,
                 .last_logged_step = 5,
                 .loss_total = 1e-300,
                 .nonfinite_losses = 1};
    companions_ = {directory_.write("vocab.txt", "words")};
  }

  static SessionOptions options() {
    SessionOptions options;
    options.train = {64, 4, 20};
    return options;
  }

  fs::path save() {
    return save_checkpoint({model_, session_, args_, state_, position_, companions_}, session_.executor());
  }

  std::string refusal(const fs::path& checkpoint) {
    return message_of<UserError>([&] { load_checkpoint(checkpoint, args_, session_); });
  }

  const TestDirectory directory_;
  BertForSequenceClassification model_;
  Session session_;
  TrainingArguments args_;
  TrainerState state_;
  RunPosition position_;
  std::vector<fs::path> companions_;
};

TEST_F(Checkpoint, HoldsTheTrainersFiles) {
  const fs::path saved = save();
  EXPECT_EQ(saved, directory_.path() / "checkpoint-7");
  for (const char* name : {"config.json", "model.safetensors", "optimizer.safetensors", "trainer_state.json",
                           "training_args.json", "shoehorn_state.json", "vocab.txt"}) {
    EXPECT_TRUE(fs::exists(saved / name)) << name;
  }
  EXPECT_EQ(checkpoint_defect(saved), "");
  EXPECT_EQ(training_arguments_from_json(read_json(saved / "training_args.json"), "training_args.json"),
            args_);
}

TEST_F(Checkpoint, GivesBackWhereTheRunStood) {
  const fs::path saved = save();
  const NamedWeights before = weights_of(session_);
  initialize_weights(session_.state(), session_.executor(), 5);
  const ResumedRun run = load_checkpoint(saved, args_, session_);
  EXPECT_TRUE(weights_of(session_) == before);
  EXPECT_EQ(run.state, state_);
  EXPECT_EQ(run.position.applied_updates, 6);
  EXPECT_EQ(run.position.samples_consumed, 55);
  EXPECT_EQ(run.position.loss_since_log, 0.1);
  EXPECT_EQ(run.position.last_logged_step, 5);
  EXPECT_EQ(run.position.loss_total, 1e-300);
  EXPECT_EQ(run.position.nonfinite_losses, 1);
}

// Also before the first evaluation, when the best is infinite.
TEST_F(Checkpoint, GivesBackThePlateau) {
  args_.lr_scheduler_type = "reduce_lr_on_plateau";
  const double infinity = std::numeric_limits<double>::infinity();
  for (const PlateauState& plateau :
       {PlateauState{.learning_rate = 0.1, .best = infinity},
        PlateauState{.learning_rate = 1e-3 * 0.1, .best = -infinity, .bad_evaluations = 3},
        PlateauState{.learning_rate = 0, .best = 0.1, .cooldown_left = 2}}) {
    position_.plateau = plateau;
    EXPECT_EQ(load_checkpoint(save(), args_, session_).position.plateau, plateau);
  }
  const fs::path file = save() / "shoehorn_state.json";
  json state = read_json(file);
  state["reduce_lr_on_plateau"]["learning_rate"] = -1;
  write_json_atomic(file, state);
  EXPECT_TRUE(contains(refusal(file.parent_path()), "expected a learning_rate of 0 or more, got -1"));
  state.erase("reduce_lr_on_plateau");
  write_json_atomic(file, state);
  EXPECT_TRUE(contains(refusal(file.parent_path()), "expected the state of lr_scheduler_type"));
  args_.lr_scheduler_type = "linear";
  EXPECT_FALSE(load_checkpoint(file.parent_path(), args_, session_).position.plateau.has_value());
}

TEST_F(Checkpoint, ModelAlone) {
  args_.save_only_model = true;
  const fs::path saved = save();
  EXPECT_FALSE(fs::exists(saved / "optimizer.safetensors"));
  EXPECT_TRUE(contains(refusal(saved), "--save_only_model"));
}

TEST_F(Checkpoint, StateFilesOfAnotherShape) {
  const fs::path saved = save();
  json state = read_json(saved / "shoehorn_state.json");
  const json good = state;
  state["position"]["applied_updates"] = "six";
  write_json_atomic(saved / "shoehorn_state.json", state);
  EXPECT_TRUE(contains(refusal(saved), "applied_updates"));
  state = good;
  state["position"].erase("loss_total");
  write_json_atomic(saved / "shoehorn_state.json", state);
  EXPECT_TRUE(contains(refusal(saved), "loss_total"));
  for (const json& wrong : {json::array(), json{{"identity", good["identity"]}, {"position", 3}}}) {
    write_json_atomic(saved / "shoehorn_state.json", wrong);
    EXPECT_TRUE(contains(refusal(saved), "shoehorn_state.json")) << wrong;
  }
  write_json_atomic(saved / "shoehorn_state.json", json{{"identity", 3}, {"position", good["position"]}});
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_checkpoint_record(saved); }), "'identity'"));
  write_json_atomic(saved / "shoehorn_state.json", good);
  fs::remove(saved / "trainer_state.json");
  EXPECT_TRUE(contains(refusal(saved), "trainer_state.json"));
}

TEST_F(Checkpoint, BestModelIsLookedForBesideIt) {
  const fs::path root = directory_.path();
  for (const char* name : {"new/checkpoint-2", "new/checkpoint-4", "old/checkpoint-2", "old/checkpoint-3"})
    fs::create_directories(root / name);
  const auto found = [&](const char* checkpoint, const fs::path& recorded) {
    return find_best_model(root / checkpoint, recorded.string()).value_or("");
  };
  EXPECT_EQ(found("new/checkpoint-4", "out/checkpoint-2"), root / "new/checkpoint-2");
  EXPECT_EQ(found("new/checkpoint-4/", root / "old/checkpoint-2"), root / "new/checkpoint-2");
  EXPECT_EQ(found("new/checkpoint-4", root / "old/checkpoint-3"), root / "old/checkpoint-3");
  EXPECT_EQ(found("new/checkpoint-4", root / "old/checkpoint-9"), "");
}

TEST_F(Checkpoint, NewestCompleteOneIsFound) {
  args_.resume_from_checkpoint = "true";
  std::vector<std::string> notes;
  EXPECT_THROW(find_checkpoint(args_, notes), UserError);
  save();
  state_.global_step = 8;
  const fs::path newer = save();
  EXPECT_EQ(find_checkpoint(args_, notes), newer);
  EXPECT_TRUE(notes.empty());
  fs::remove(newer / "optimizer.safetensors");
  EXPECT_EQ(find_checkpoint(args_, notes), directory_.path() / "checkpoint-7");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(contains(notes[0], "checkpoint-8 is skipped"));
  args_.resume_from_checkpoint = newer.string();
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { find_checkpoint(args_, notes); }), "optimizer.safetensors"));
}

TEST_F(Checkpoint, AFlippedBitOfAnyFileIsFound) {
  const fs::path saved = save();
  std::vector<std::string> notes;
  args_.resume_from_checkpoint = saved.string();
  const auto resume = [&] {
    resume_checkpoint(args_, notes, [&](const fs::path& from) { load_checkpoint(from, args_, session_); });
  };
  EXPECT_NO_THROW(resume());
  for (const auto& entry : fs::directory_iterator(saved)) {
    const auto bits = static_cast<int64_t>(fs::file_size(entry.path())) * 8;
    for (const int64_t bit : {int64_t{3}, bits / 2, bits - 1}) {
      flip_bit(entry.path(), bit);
      const std::string message = message_of<UserError>(resume);
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(contains(
          message, name == kManifestName ? "shoehorn_manifest.json" : name + ": expected the checksum"));
      EXPECT_TRUE(contains(message, "there is no complete one before it")) << name;
      flip_bit(entry.path(), bit);
    }
  }
  EXPECT_NO_THROW(resume());
}

TEST_F(Checkpoint, ADamagedOneIsNeverResumed) {
  save();
  state_.global_step = 8;
  save();
  state_.global_step = 9;
  const fs::path newest = save();
  const auto flip_tensor_bit = [&](const fs::path& file) {
    flip_bit(file, static_cast<int64_t>(fs::file_size(file)) * 8 - 1);
  };
  flip_tensor_bit(newest / "optimizer.safetensors");
  ResumedRun run;
  std::vector<std::string> notes;
  const auto resume = [&](const std::string& from) {
    args_.resume_from_checkpoint = from;
    return resume_checkpoint(args_, notes,
                             [&](const fs::path& path) { run = load_checkpoint(path, args_, session_); });
  };
  const std::string message = message_of<UserError>([&] { resume(newest.string()); });
  EXPECT_TRUE(contains(message,
                       "checkpoint-9] expected a complete checkpoint, got one where optimizer.safetensors: "
                       "expected the checksum xxh128 "));
  EXPECT_TRUE(contains(message, "resume from " + (directory_.path() / "checkpoint-8").string()));

  const NamedWeights saved = weights_of(session_);
  initialize_weights(session_.state(), session_.executor(), 5);
  EXPECT_EQ(resume("true"), directory_.path() / "checkpoint-8");
  EXPECT_EQ(run.state.global_step, 8);
  EXPECT_TRUE(weights_of(session_) == saved);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_TRUE(contains(notes[0], "checkpoint-9 is skipped: optimizer.safetensors: expected the checksum"));

  flip_tensor_bit(directory_.path() / "checkpoint-8/model.safetensors");
  EXPECT_EQ(resume("true"), directory_.path() / "checkpoint-7");
  flip_tensor_bit(directory_.path() / "checkpoint-7/model.safetensors");
  notes.clear();
  const std::string none = message_of<UserError>([&] { resume("true"); });
  for (const char* name : {"checkpoint-9", "checkpoint-8", "checkpoint-7"}) EXPECT_TRUE(contains(none, name));
}

TEST_F(Checkpoint, ChatTemplatesTravelInTheirFolder) {
  const fs::path folder = "additional_chat_templates";
  fs::create_directories(directory_.path() / folder);
  companions_.push_back(directory_.write(folder / "tools.jinja", "{{ tools }}"));
  const fs::path saved = save();
  EXPECT_EQ(read_text_file(saved / folder / "tools.jinja"), "{{ tools }}");
  EXPECT_EQ(checkpoint_defect(saved), "");
  write_text_atomic(saved / folder / "tools.jinja", "{{ slots }}");
  EXPECT_TRUE(contains(message_of<DamagedFile>([&] { verify_companions(saved); }), "tools.jinja"));
}

TEST_F(Checkpoint, VocabularyAndMergesGetATokenizerJson) {
  const fs::path tokenizer = golden("tokenizer_chains/bytes.json");
  const json model = read_json(tokenizer)["model"];
  std::string merges;
  for (const json& merge : model["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  directory_.write("tokenizer/vocab.json", model["vocab"].dump());
  directory_.write("tokenizer/merges.txt", merges);
  directory_.write("tokenizer/tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  const fs::path source = directory_.path() / "tokenizer";
  companions_ = list_companions(source);
  const fs::path saved = save();
  EXPECT_EQ(read_text_file(saved / "tokenizer.json"),
            read_vocab_and_merges(TokenizerSideFiles(source)).tokenizer_json);
  const std::string text = "It's 12 ferries\u0301<|endoftext|>";
  EXPECT_EQ(Tokenizer::load(saved)->encode(text).input_ids, Tokenizer::load(source)->encode(text).input_ids);
  EXPECT_EQ(checkpoint_defect(saved), "");
  // One of a class that is not known travels as it is.
  directory_.write("tokenizer/tokenizer_config.json", R"({"tokenizer_class": "CLIPTokenizer"})");
  fs::remove_all(saved);
  EXPECT_FALSE(fs::exists(save() / "tokenizer.json"));
}

TEST_F(Checkpoint, ASavedModelHasChecksums) {
  const fs::path saved = directory_.path() / "model";
  const auto load = [&] { start_weights(saved, session_.state(), session_.executor(), 0); };
  for (int turn = 0; turn < 2; ++turn) {
    save_model_directory({model_, session_, args_, state_, position_, companions_}, session_.executor(),
                         saved);
    EXPECT_TRUE(has_checksum(saved / "model.safetensors"));
    EXPECT_NO_THROW(load());
  }
  flip_bit(saved / "model.safetensors",
           static_cast<int64_t>(fs::file_size(saved / "model.safetensors")) * 8 - 1);
  EXPECT_TRUE(contains(message_of<DamagedFile>(load), "model.safetensors] expected the checksum"));
  fs::remove(saved / kManifestName);
  EXPECT_NO_THROW(load());
}

}  // namespace
}  // namespace shoehorn
