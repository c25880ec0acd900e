// Adapters on the command line: train, resume, eval and predict with an adapter, merge, and what is refused.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

class CliLora : public CliTest {
 protected:
  std::vector<std::string> adapter_words(std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"--lora_rank", "4", "--lora_alpha", "16", "--learning_rate", "1e-2"};
    words.insert(words.end(), more.begin(), more.end());
    return train_words(words);
  }
  ProgramRun predict(const fs::path& model, const std::string& output) const {
    return run({"predict", "--model_name_or_path", model.string(), "--test_file", path("test.jsonl").string(),
                "--output_file", path(output).string(), "--logits"});
  }
  void write_texts() const {
    directory_.write("test.jsonl", R"({"text": "stat glea hust"}
{"text": "chai trou prea vous"}
)");
  }
  // The logits of all lines.
  std::vector<double> logits(const std::string& output) const {
    std::ifstream file(path(output));
    std::vector<double> all;
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json prediction = parse_json(line, "line");
      for (const auto& logit : prediction.at("logits")) all.push_back(logit.get<double>());
    }
    return all;
  }
};

TEST_F(CliLora, TrainsSavesAndAnswersFromTheAdapter) {
  write_texts();
  const ProgramRun trained =
      run(adapter_words({"--save_steps", "2", "--validation_file", path("validation.csv").string()}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, " trained"));
  for (const std::string where : {"", "checkpoint-2/", "checkpoint-4/"}) {
    EXPECT_TRUE(fs::exists(output() / (where + "adapter_config.json"))) << where;
    EXPECT_TRUE(fs::exists(output() / (where + "adapter_model.safetensors"))) << where;
    EXPECT_TRUE(fs::exists(output() / (where + "tokenizer.json"))) << where;
    EXPECT_TRUE(fs::exists(output() / (where + "trainer_state.json"))) << where;
    EXPECT_TRUE(fs::exists(output() / (where + "model_config.json"))) << where;
    for (const std::string name : {"model.safetensors", "config.json"})
      EXPECT_FALSE(fs::exists(output() / (where + name)))
          << where << name << " would be taken for a whole model";
  }
  const ProgramRun evaluated =
      run({"eval", "--model_name_or_path", output().string(), "--validation_file",
           path("validation.csv").string(), "--output_dir", path("evaluated").string()});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.error;
  EXPECT_EQ(read_json(path("evaluated") / "eval_results.json")["eval_loss"],
            read_json(output() / "eval_results.json")["eval_loss"])
      << "the adapter that was saved is the one that was trained";
  const ProgramRun predicted = predict(output(), "labels.jsonl");
  ASSERT_EQ(predicted.exit_code, 0) << predicted.error;
  EXPECT_EQ(logits("labels.jsonl").size(), 4U);
  EXPECT_TRUE(contains(read_text_file(path("labels.jsonl")), "\"down\"") ||
              contains(read_text_file(path("labels.jsonl")), "\"up\""));
}

TEST_F(CliLora, MergedModelAnswersAsTheAdapter) {
  write_texts();
  ASSERT_EQ(run(adapter_words({"--save_strategy", "no"})).exit_code, 0);
  ASSERT_EQ(predict(output(), "adapter.jsonl").exit_code, 0);
  const fs::path merged = path("merged");
  ASSERT_EQ(run(adapter_words({"--save_strategy", "no", "--lora_merge", "--output_dir", merged.string()}))
                .exit_code,
            0);
  EXPECT_TRUE(fs::exists(merged / "model.safetensors"));
  EXPECT_FALSE(fs::exists(merged / "adapter_config.json"));
  ASSERT_EQ(predict(merged, "merged.jsonl").exit_code, 0);
  const std::vector<double> expected = logits("adapter.jsonl");
  const std::vector<double> found = logits("merged.jsonl");
  ASSERT_EQ(expected.size(), 4U);
  ASSERT_EQ(found.size(), 4U);
  // Two fp32 programs of one function: sums of up to 64 terms, 2 layers deep.
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 64 * 0x1p-23 * std::max(1.0, std::abs(expected[i])));
}

// The config names the type of the weights that are written, and not of those that were trained.
TEST_F(CliLora, MergedWeightsAreOfTheTypeThatTheConfigNames) {
  ASSERT_EQ(
      run(adapter_words({"--save_strategy", "no", "--lora_merge", "--bf16", "--master_weights", "none"}))
          .exit_code,
      0);
  EXPECT_EQ(read_json(output() / "config.json").at("dtype"), "float32");
}

// A whole model that is saved where an adapter was is the one that is loaded from there.
TEST_F(CliLora, AWholeModelTakesTheAdaptersPlace) {
  ASSERT_EQ(run(adapter_words({"--save_strategy", "no"})).exit_code, 0);
  ASSERT_EQ(run(adapter_words({"--save_strategy", "no", "--lora_merge"})).exit_code, 0);
  EXPECT_TRUE(fs::exists(output() / "model.safetensors"));
  EXPECT_FALSE(fs::exists(output() / "adapter_config.json"));
  EXPECT_FALSE(fs::exists(output() / "adapter_model.safetensors"));
}

TEST_F(CliLora, ResumesWithAdaptersOnly) {
  ASSERT_EQ(run(adapter_words({"--save_steps", "2"})).exit_code, 0);
  const std::string whole = read_text_file(output() / "checkpoint-4/adapter_model.safetensors");
  fs::remove_all(output() / "checkpoint-4");
  const ProgramRun resumed = run(adapter_words({"--save_steps", "2", "--resume_from_checkpoint", "true"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_TRUE(whole == read_text_file(output() / "checkpoint-4/adapter_model.safetensors"));
  expect_failure(adapter_words({"--lora_rank", "8", "--resume_from_checkpoint", "true"}), 2,
                 {"--lora_rank 4 → 8"});
  expect_failure(train_words({"--resume_from_checkpoint", "true"}), 2, {"--lora_"});
}

TEST_F(CliLora, AnAdapterIsTrainedOn) {
  const std::string validation = path("validation.csv").string();
  ASSERT_EQ(run(adapter_words({"--save_strategy", "no", "--validation_file", validation})).exit_code, 0);
  const std::vector<std::string> words = {"train",
                                          "--model_name_or_path",
                                          output().string(),
                                          "--train_file",
                                          path("train.csv").string(),
                                          "--validation_file",
                                          validation,
                                          "--max_steps",
                                          "2",
                                          "--eval_on_start",
                                          "--output_dir",
                                          path("on").string()};
  const ProgramRun trained = run(words);
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_EQ(read_json(path("on") / "trainer_state.json")["log_history"][0]["eval_loss"],
            read_json(output() / "eval_results.json")["eval_loss"])
      << "it begins with the adapter and its head";
  const nlohmann::json config = read_json(path("on") / "adapter_config.json");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["lora_alpha"], 16);
  EXPECT_EQ(config["base_model_name_or_path"],
            read_json(output() / "adapter_config.json")["base_model_name_or_path"]);
  EXPECT_NE(read_text_file(path("on") / "adapter_model.safetensors"),
            read_text_file(output() / "adapter_model.safetensors"));
  EXPECT_TRUE(fs::exists(path("on") / "tokenizer.json"));

  std::vector<std::string> other = words;
  other.insert(other.end(), {"--lora_rank", "8", "--overwrite_output_dir"});
  expect_failure(other, 2, {"[--lora_rank] expected 4, which the adapter in", "got 8", "its base model ("});
}

TEST_F(CliLora, PlansWithoutWeights) {
  const std::vector<std::string> words = {"plan", "--model_name_or_path", "bert-mini", "--json"};
  const ProgramRun full = run(words);
  std::vector<std::string> with = words;
  with.insert(with.end(), {"--lora_rank", "8", "--lora_target", "all-linear"});
  const ProgramRun adapted = run(with);
  ASSERT_EQ(adapted.exit_code, 0) << adapted.error;
  const auto a = parse_json(full.output, "output");
  const auto b = parse_json(adapted.output, "output");
  EXPECT_LT(b["process_peak_bytes"].get<int64_t>(), a["process_peak_bytes"].get<int64_t>());
  EXPECT_LT(b["trainable_parameters"].get<int64_t>() * 10, a["trainable_parameters"].get<int64_t>());
}

TEST_F(CliLora, MistakesAreNamed) {
  expect_failure(train_words({"--lora_alpha", "16"}), 2, {"[lora_alpha] expected lora_rank"});
  expect_failure(adapter_words({"--lora_target", "qeury"}), 2,
                 {"[lora_target qeury]", "did you mean query?"});
  ASSERT_EQ(run(adapter_words({"--save_strategy", "no"})).exit_code, 0);
  expect_failure(
      {"plan", "--model_name_or_path", output().string()}, 2,
      {"[--model_name_or_path", "got an adapter", "train, eval, predict and generate", "--lora_rank"});
  write_texts();
  nlohmann::json config = read_json(output() / "adapter_config.json");
  config["base_model_name_or_path"] = "not-here";
  write_json_atomic(output() / "adapter_config.json", config);
  const std::vector<std::string> words = {"predict",         "--model_name_or_path",      output().string(),
                                          "--test_file",     path("test.jsonl").string(), "--output_file",
                                          path("x").string()};
  expect_failure(words, 2, {"base_model_name_or_path]", "not-here"});
  config["use_dora"] = true;
  write_json_atomic(output() / "adapter_config.json", config);
  expect_failure(words, 2, {"use_dora]"});
}

}  // namespace
}  // namespace shoehorn
