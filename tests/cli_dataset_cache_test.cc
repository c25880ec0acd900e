// --dataset_cache: texts are tokenized once, to files, and training reads its samples from there.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

class CliDatasetCache : public CliTest {
 protected:
  std::vector<std::string> cached(std::vector<std::string> words) const {
    words.insert(words.end(), {"--dataset_cache", path("cache")});
    return words;
  }
  ProgramRun succeed(const std::vector<std::string>& words, const ProgramLimits& limits = {}) const {
    ProgramRun result = run(words, limits);
    EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
    return result;
  }
  // The weights and the losses of the run in output().
  std::string trained() const {
    return read_text_file(output() / "model.safetensors") +
           read_json(output() / "trainer_state.json")["log_history"][0]["loss"].dump();
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> all;
    for (const std::string& name : list_directory(path("cache"))) all.push_back(path("cache") / name);
    return all;
  }
};

// From files that the same run has written, from those of an earlier one, and from memory: the same bits.
TEST_F(CliDatasetCache, TrainsAsFromMemory) {
  for (const char* workers : {"0", "1"}) {
    const std::vector<std::string> words =
        train_words({"--overwrite_output_dir", "--validation_file", path("validation.csv"),
                     "--dataloader_num_workers", workers});
    succeed(words);
    const std::string from_memory = trained();
    const nlohmann::json evaluated = read_json(output() / "eval_results.json")["eval_loss"];
    for (int turn = 0; turn < 2; ++turn) {
      const ProgramRun result = succeed(cached(words));
      EXPECT_TRUE(contains(result.output, "train.csv: tokenized samples are read from"));
      EXPECT_TRUE(trained() == from_memory) << "workers " << workers << ", turn " << turn;
      EXPECT_EQ(read_json(output() / "eval_results.json")["eval_loss"], evaluated);
    }
    EXPECT_EQ(entries().size(), 2U) << "a data set to train on and one to evaluate on";
  }
}

// What a run in memory has begun goes on from files, and the other way round.
TEST_F(CliDatasetCache, ARunGoesOnFromEither) {
  const std::vector<std::string> words = train_words({"--save_steps", "2"});
  succeed(words);
  const std::string whole = read_text_file(output() / "model.safetensors");
  std::vector<std::string> on = words;
  on.insert(on.end(), {"--resume_from_checkpoint", "true"});
  for (const bool from_files : {true, false}) {
    remove_path(output() / "checkpoint-4");
    const ProgramRun result = succeed(from_files ? cached(on) : on);
    EXPECT_TRUE(contains(result.output + result.error, "resumed from"));
    EXPECT_TRUE(read_text_file(output() / "model.safetensors") == whole);
  }
}

TEST_F(CliDatasetCache, EvaluatesAsFromMemory) {
  succeed(train_words({"--save_strategy", "no"}));
  const auto command = [&](const char* name, const char* file) {
    return std::vector<std::string>{
        name,           "--model_name_or_path", output(), file, path("validation.csv"),
        "--output_dir", path("elsewhere")};
  };
  const std::vector<std::string> eval = command("eval", "--validation_file");
  succeed(eval);
  const nlohmann::json expected = read_json(path("elsewhere") / "eval_results.json");
  succeed(cached(eval));
  for (const char* metric : {"eval_loss", "eval_accuracy"})
    EXPECT_EQ(read_json(path("elsewhere") / "eval_results.json")[metric], expected[metric]);
  EXPECT_EQ(entries().size(), 1U);
  // Predictions are made as the file is read.
  const std::vector<std::string> predict = command("predict", "--test_file");
  succeed(predict);
  expect_failure(cached(predict), 2, {"[--dataset_cache]", "predict"});
}

TEST_F(CliDatasetCache, WhatIsDamagedIsNamedAndMadeAnew) {
  const std::vector<std::string> words = cached(train_words({"--overwrite_output_dir"}));
  succeed(words);
  ASSERT_EQ(entries().size(), 1U);
  flip_bit(entries()[0] / "shard-00000.tokens", 8 * 100);
  expect_failure(words, 2, {"shard-00000.tokens", "--overwrite_cache"});
  std::vector<std::string> anew = words;
  anew.push_back("--overwrite_cache");
  succeed(anew);
  succeed(words);
  directory_.write("file", "");
  expect_failure(train_words({"--overwrite_output_dir", "--dataset_cache", path("file")}), 2, {"file"});
}

// Another text, another tokenizer, another length: another data set.
TEST_F(CliDatasetCache, AnotherTextOrTokenizerIsTokenized) {
  const std::vector<std::string> words = cached(train_words({"--overwrite_output_dir"}));
  succeed(words);
  directory_.write("train.csv", labelled_csv(48, 5));
  succeed(words);
  EXPECT_EQ(entries().size(), 2U);
  std::vector<std::string> shorter = words;
  shorter.insert(shorter.end(), {"--max_seq_length", "8"});
  succeed(shorter);
  EXPECT_EQ(entries().size(), 3U);
  const fs::path config = model() / "tokenizer_config.json";
  nlohmann::json changed = read_json(config);
  changed["model_max_length"] = 9;
  write_json_atomic(config, changed);
  succeed(words);
  EXPECT_EQ(entries().size(), 4U);
}

// Neither tokenizing nor training takes the memory that texts and tokens would take.
TEST_F(CliDatasetCache, TrainsOnMoreThanItMayHold) {
  constexpr int64_t kRows = 40000;
  std::string csv = "text,label\n";
  for (int64_t row = 0; row < kRows; ++row) {
    for (int word = 0; word < 60; ++word) csv += (row + word) % 7 == 0 ? "glea " : "stat ";
    csv += row % 2 == 0 ? ",up\n" : ",down\n";
  }
  directory_.write("train.csv", csv);
  const std::vector<std::string> words = train_words(
      {"--overwrite_output_dir", "--save_strategy", "no", "--train_sampling_strategy", "sequential"});
  const ProgramRun in_memory = succeed(words);
  const std::string expected = read_text_file(output() / "model.safetensors");
  // 60 tokens of 4 bytes a row. The text is gone before the steps, which may need more than it.
  constexpr int64_t kHeldBytes = kRows * 60 * 4;
  // While it tokenizes it holds one shard, of which this data set has no more.
  const ProgramRun tokenizing = succeed(cached(words));
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") == expected);
  expect_peak_below(tokenizing, in_memory.peak_bytes, "while it tokenizes");
  const ProgramRun from_files = succeed(cached(words));
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") == expected);
  expect_peak_below(from_files, in_memory.peak_bytes - kHeldBytes / 2, "from files");
}

}  // namespace
}  // namespace shoehorn
