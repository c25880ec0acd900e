// Flipped bits in what the program wrote: each is found before a step is made or a class predicted, and said.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "io/manifest.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

class CliIntegrity : public CliTest {
 protected:
  static void flip_last_bit(const fs::path& file) {
    flip_bit(file, static_cast<int64_t>(fs::file_size(file)) * 8 - 1);
  }
  ProgramRun succeed(const std::vector<std::string>& words) const {
    ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
    return result;
  }
  std::vector<std::string> words_of(const char* command, const fs::path& trained) const {
    const bool evaluates = std::string(command) == "eval";
    return {command,
            "--model_name_or_path",
            trained,
            evaluates ? "--validation_file" : "--test_file",
            path("validation.csv"),
            "--output_dir",
            path("results")};
  }
};

TEST_F(CliIntegrity, ResumeRefusesADamagedCheckpointAndNamesTheOneBefore) {
  succeed(train_words({"--save_steps", "2"}));
  const std::string whole = read_text_file(output() / "model.safetensors");
  const fs::path newest = output() / "checkpoint-4";
  for (const char* name : {"optimizer.safetensors", "model.safetensors", "trainer_state.json",
                           "shoehorn_state.json", "training_args.json", "config.json", "vocab.txt"}) {
    flip_last_bit(newest / name);
    expect_failure(train_words({"--max_steps", "6", "--resume_from_checkpoint", newest}), 2,
                   {newest, std::string(name) + ": expected the checksum xxh128 ", ", got ",
                    "resume from " + (output() / "checkpoint-2").string()});
    flip_last_bit(newest / name);
  }
  flip_last_bit(newest / "optimizer.safetensors");
  expect_failure(train_words({"--resume_from_checkpoint", path("nosuch")}), 2, {"got nothing of this name"});
  expect_failure(train_words({"--resume_from_checkpoint", output()}), 2,
                 {"got a directory that has some; the newest complete one is", "checkpoint-"});
  const ProgramRun resumed = succeed(train_words({"--resume_from_checkpoint", "--save_steps", "2"}));
  EXPECT_TRUE(
      contains(resumed.output, "checkpoint-4 is skipped: optimizer.safetensors: expected the checksum"));
  EXPECT_TRUE(
      contains(resumed.output, "resumed from " + (output() / "checkpoint-2").string() + " at step 2"));
  EXPECT_EQ(checkpoint_defect(newest, VerifiedFiles::kAll), "");
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") == whole);
}

TEST_F(CliIntegrity, AModelIsVerifiedByWhoeverLoadsIt) {
  succeed(train_words({"--lora_rank", "2", "--output_dir", path("adapter")}));
  succeed(train_words({"--save_steps", "4"}));
  const fs::path files[] = {output() / "model.safetensors", output() / "checkpoint-4/model.safetensors",
                            path("adapter") / "adapter_model.safetensors"};
  for (const fs::path& file : files) {
    const fs::path trained = file.parent_path();
    EXPECT_FALSE(contains(succeed(words_of("predict", trained)).output, "no checksum"));
    flip_last_bit(file);
    const std::vector<std::string> parts = {file.string() + "] expected the checksum xxh128 ", ", got ",
                                            "restore it from a copy", "delete shoehorn_manifest.json"};
    expect_failure(words_of("eval", trained), 2, parts);
    expect_failure(words_of("predict", trained), 2, parts);
    if (trained != path("adapter"))
      expect_failure(train_words({"--model_name_or_path", trained, "--output_dir", path("more")}), 2, parts);
    flip_last_bit(file);
  }
  flip_last_bit(model() / "model.safetensors");  // the adapter's base
  expect_failure(words_of("eval", path("adapter")), 2,
                 {(model() / "model.safetensors").string() + "] expected"});
}

TEST_F(CliIntegrity, WithoutChecksumsThereIsANotice) {
  forget_checksums();
  const std::string notice = model().string() + ": no checksum of model.safetensors, taken as read\n";
  EXPECT_TRUE(contains(succeed(train_words()).output, notice));
  fs::remove(output() / "shoehorn_manifest.json");
  EXPECT_TRUE(contains(succeed(words_of("eval", output())).output, "no checksum of model.safetensors"));
  std::vector<std::string> as_json = words_of("predict", output());
  as_json.emplace_back("--json");
  EXPECT_TRUE(contains(succeed(as_json).error, "no checksum of model.safetensors"));
}

// As they were written before there were checksums of large files.
TEST_F(CliIntegrity, OlderCheckpointsAreResumed) {
  succeed(train_words({"--save_steps", "2"}));
  const fs::path checkpoint = output() / "checkpoint-2";
  nlohmann::json manifest = read_json(checkpoint / kManifestName);
  manifest.erase("xxh128");
  for (auto& facts : manifest["files"]) facts.erase("xxh128");
  write_json_atomic(checkpoint / kManifestName, manifest);
  const ProgramRun resumed = succeed(train_words({"--resume_from_checkpoint", checkpoint}));
  EXPECT_TRUE(contains(
      resumed.output,
      checkpoint.string() + ": no checksum of model.safetensors, optimizer.safetensors, taken as read"))
      << resumed.output;
}

// What says what the weights mean is as much a part of a checkpoint as they are.
TEST_F(CliIntegrity, NothingReadsADamagedDescriptionOfACheckpoint) {
  succeed(train_words({"--save_steps", "4"}));
  const fs::path newest = output() / "checkpoint-4";
  for (const char* command : {"eval", "predict"}) {
    for (const char* name : {"config.json", "vocab.txt"}) {
      flip_last_bit(newest / name);
      expect_failure(words_of(command, newest), 2, {std::string(name) + "] expected the checksum xxh128 "});
      flip_last_bit(newest / name);
    }
    succeed(words_of(command, newest));
    fs::rename(newest / "vocab.txt", path("vocab.txt"));
    expect_failure(words_of(command, newest), 2, {"vocab.txt"});
    fs::rename(path("vocab.txt"), newest / "vocab.txt");
  }
}

TEST_F(CliIntegrity, ADamagedBestModelIsNotLoaded) {
  const std::vector<std::string> best = {"--validation_file",
                                         path("validation.csv"),
                                         "--eval_strategy",
                                         "steps",
                                         "--eval_steps",
                                         "1",
                                         "--save_steps",
                                         "1",
                                         "--save_strategy",
                                         "steps",
                                         "--metric_for_best_model",
                                         "eval_loss",
                                         "--load_best_model_at_end"};
  succeed(train_words(best));
  const fs::path found =
      read_json(output() / "trainer_state.json")["best_model_checkpoint"].get<std::string>();
  flip_last_bit(found / "model.safetensors");
  std::vector<std::string> again = best;
  again.emplace_back("--resume_from_checkpoint");
  const ProgramRun resumed = succeed(train_words(again));
  if (found.filename() == "checkpoint-4") {  // it was skipped and is made anew
    EXPECT_TRUE(contains(resumed.output, "checkpoint-4 is skipped"));
  } else {
    EXPECT_TRUE(contains(resumed.output, "is not whole (model.safetensors: expected the checksum"));
  }
}

}  // namespace
}  // namespace shoehorn
