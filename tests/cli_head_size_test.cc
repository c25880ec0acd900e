// A classifier's files have a head for another number of labels: refused with the flag that allows it, and with the flag a new
// head is trained, in a whole model and in an adapter.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"
#include "io/safetensors.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

class CliHeadSize : public CliTest {
 protected:
  CliHeadSize() {
    std::string csv = "text,label\n";
    for (int i = 0; i < 24; ++i) csv += "stat chai,low\nglea hust,high\ntrou prea,none\n";
    directory_.write("train.csv", csv);
  }

  std::vector<std::string> ignoring_words(std::vector<std::string> more = {}) const {
    more.emplace_back("--ignore_mismatched_sizes");
    return train_words(std::move(more));
  }

  ProgramRun eval(const std::filesystem::path& model) const {
    return run({"eval", "--model_name_or_path", model.string(), "--validation_file",
                path("train.csv").string(), "--output_dir", path("evaluated").string(), "--json"});
  }
};

TEST_F(CliHeadSize, IsRefusedWithTheFlagThatAllowsIt) {
  expect_failure(
      train_words(), 2,
      {"classifier.bias", "expected shape [3] for the labels", "got [2]", "--ignore_mismatched_sizes"});
}

TEST_F(CliHeadSize, IsMadeAnewAndNamed) {
  const ProgramRun trained = run(ignoring_words({"--validation_file", path("train.csv").string()}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(
      contains(trained.output + trained.error,
               "not read, of another size: classifier.weight has [2, 32] in the files and [3, 32] here, "
               "classifier.bias has [2] in the files and [3] here"));
  EXPECT_TRUE(contains(trained.output + trained.error,
                       "new weights, to be trained: classifier.weight, classifier.bias"));
  EXPECT_FALSE(contains(trained.output + trained.error, "the model has no such parameters"));
  EXPECT_EQ(SafetensorsFile::open(output() / "model.safetensors").tensor("classifier.weight").shape[0], 3);
  EXPECT_EQ(read_json(output() / "config.json")["id2label"].size(), 3U);
  EXPECT_EQ(eval(output()).exit_code, 0);
}

TEST_F(CliHeadSize, OfAnAdapterIsTheAdapters) {
  const std::vector<std::string> adapter = {"--lora_rank", "2", "--save_steps", "2"};
  const ProgramRun trained = run(ignoring_words(adapter));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  const std::string whole = read_text_file(output() / "adapter_model.safetensors");
  // The base's head is not read again, and nothing says that it is.
  const ProgramRun evaluated = eval(output());
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.error;
  EXPECT_FALSE(contains(evaluated.output + evaluated.error, "of another size"));
  std::filesystem::remove_all(output() / "checkpoint-4");
  std::vector<std::string> resumed_words = adapter;
  resumed_words.insert(resumed_words.end(), {"--resume_from_checkpoint", "true"});
  const ProgramRun resumed = run(ignoring_words(resumed_words));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_TRUE(read_text_file(output() / "adapter_model.safetensors") == whole);
  const ProgramRun merged = run(ignoring_words({"--lora_rank", "2", "--lora_merge", "--save_strategy", "no",
                                                "--output_dir", path("merged").string()}));
  ASSERT_EQ(merged.exit_code, 0) << merged.error;
  EXPECT_EQ(eval(path("merged")).exit_code, 0);
}

TEST_F(CliHeadSize, OfTheBodyIsRefusedAllTheSame) {
  json config = read_json(model() / "config.json");
  config["intermediate_size"] = 48;
  write_json_atomic(model() / "config.json", config);
  forget_checksums();
  expect_failure(ignoring_words(), 2, {"intermediate.dense", "config.json says"});
}

TEST_F(CliHeadSize, OfADecoder) {
  const std::string decoder = path("decoder").string();
  directory_.write("two.csv", labelled_csv(24, 1));
  std::vector<std::string> words = {"train",
                                    "--task",
                                    "text-classification",
                                    "--model_type",
                                    "gpt2",
                                    "--config_overrides",
                                    "n_layer=1,n_head=2,n_embd=32,n_positions=32",
                                    "--tokenizer_name",
                                    model().string(),
                                    "--train_file",
                                    path("two.csv").string(),
                                    "--max_steps",
                                    "1",
                                    "--save_strategy",
                                    "no",
                                    "--output_dir",
                                    decoder};
  const ProgramRun made = run(words);
  ASSERT_EQ(made.exit_code, 0) << made.error;
  expect_failure(train_words({"--model_name_or_path", decoder}), 2,
                 {"score.weight", "--ignore_mismatched_sizes"});
  const ProgramRun trained = run(ignoring_words({"--model_name_or_path", decoder}));
  EXPECT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(
      contains(trained.output + trained.error, "score.weight has [2, 32] in the files and [3, 32] here"));
}

}  // namespace
}  // namespace shoehorn
