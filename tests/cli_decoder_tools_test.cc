// What looks at a step (plan, anatomy, bench step, the ladder, fit) takes a decoder as it takes an encoder: any directory with a
// config.json, and the length of its blocks.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace test_support;
using nlohmann::json;

class CliDecoderTools : public CliTest {
 protected:
  CliDecoderTools() {
    setenv("XDG_CACHE_HOME", path("cache").c_str(),
           1);  // times are lower bounds, whatever was calibrated here
    const json gpt2 = {{"model_type", "gpt2"}, {"n_embd", 32},      {"n_layer", 2},
                       {"n_head", 2},          {"vocab_size", 300}, {"n_positions", 64}};
    const json llama = {{"model_type", "llama"},    {"hidden_size", 32},
                        {"intermediate_size", 48},  {"num_hidden_layers", 2},
                        {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                        {"vocab_size", 300},        {"max_position_embeddings", 64}};
    for (const auto& [name, config] : {std::pair{"gpt2", gpt2}, {"llama", llama}}) {
      std::filesystem::create_directory(path(name));
      write_json_atomic(path(name) / "config.json", config);
    }
  }
  ~CliDecoderTools() override { unsetenv("XDG_CACHE_HOME"); }

  json result_of(const std::vector<std::string>& words) const {
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return parse_json(result.output, "output");
  }
};

TEST_F(CliDecoderTools, TakeTheLengthOfABlock) {
  for (const char* name : {"gpt2", "llama"}) {
    const std::vector<std::string> flags = {"--model_name_or_path",
                                            path(name).string(),
                                            "--block_size",
                                            "24",
                                            "--per_device_train_batch_size",
                                            "2",
                                            "--json"};
    const auto with = [&](std::vector<std::string> command) {
      command.insert(command.end(), flags.begin(), flags.end());
      return command;
    };
    const json planned = result_of(with({"plan"}));
    const json anatomy = result_of(with({"anatomy", "--steps", "1", "--no_limits"}));
    EXPECT_TRUE(contains(anatomy["step"].get<std::string>(), "2 sequences of 24 tokens")) << anatomy["step"];
    int64_t sum = 0;
    for (const json& part : anatomy["memory"]["parts"]) sum += part["bytes"].get<int64_t>();
    EXPECT_EQ(sum, anatomy["memory"]["total_bytes"]);
    const json step = result_of(with({"bench", "step", "--max_steps", "2", "--no_limits"}));
    EXPECT_TRUE(contains(step["step"].get<std::string>(), "2 sequences of 24 tokens")) << step["step"];
    EXPECT_EQ(step["memory_arena_predicted_bytes"], planned["arena_bytes"])
        << "the step that is planned is the one that is run";
    EXPECT_EQ(step["memory_arena_measured_bytes"], planned["arena_bytes"]);
  }
  expect_failure({"bench", "step", "--model_name_or_path", "bert-mini", "--block_size", "24"}, 2,
                 {"[--block_size] expected a language model"});
  expect_failure({"bench", "step", "--model_name_or_path", path("gpt2").string(), "--block_size", "65"}, 2,
                 {"[--block_size] expected at most 64, the model's positions, got 65"});
}

// Once, on standard error, where a plan was found.
TEST_F(CliDecoderTools, SizesThatTheHardwareDislikesAreTold) {
  const auto told = [&](const std::vector<std::string>& words) {
    const ProgramRun result = run(joined(words, {"--per_device_train_batch_size", "2", "--json"}));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    parse_json(result.output, "output");
    return result.error;
  };
  const auto count_of = [](const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  };
  const std::vector<std::string> gpt2 = {"--model_name_or_path", path("gpt2").string(), "--block_size", "24"};
  for (const char* command : {"plan", "fit"}) {
    const std::string here = told(joined({command}, gpt2));
    EXPECT_EQ(count_of(here, "vocabulary 300 (next: 304)"), 1) << command << ": " << here;
    const std::string there = told(joined(joined({command}, gpt2), {"--bf16", "--machine_profile", "a100"}));
    EXPECT_EQ(count_of(there,
                       "multiples of 64 (Tensor Cores of an A100), which these are not: "
                       "hidden 32 (next: 64), head 16 (next: 64), vocabulary 300 (next: 320)\n"),
              1)
        << command << ": " << there;
    EXPECT_EQ(count_of(told(joined(joined({command}, gpt2), {"--log_level", "error"})), "multiples"), 0);
    // A classifier has no products with a vocabulary.
    EXPECT_EQ(
        count_of(told({command, "--model", "bert-mini", "--bf16", "--machine_profile", "a100"}), "multiples"),
        0);
  }
}

// --task says the head of a size that has a name, as it does that of a directory.
TEST_F(CliDecoderTools, TakeTheTaskOfANamedSize) {
  const auto parameters_of = [&](const std::vector<std::string>& more) {
    const std::vector<std::string> plan = {"plan", "--per_device_train_batch_size", "1", "--json"};
    return result_of(joined(plan, more))["parameters"].get<int64_t>();
  };
  const int64_t language_model = parameters_of({"--model_name_or_path", "gpt2", "--block_size", "16"});
  const int64_t classifier = parameters_of(
      {"--model_name_or_path", "gpt2", "--task", "text-classification", "--max_seq_length", "16"});
  EXPECT_EQ(classifier - language_model, 2 * 768)
      << "a head of two classes, where the other one is the table";
  for (const char* model : {"bert-base", "distilbert-base"}) {
    expect_failure(
        {"plan", "--task", "causal-lm", "--model_name_or_path", model}, 2,
        {fmt::format("[{}] expected 'model_type' to be one of gpt2", model), "for a language model"});
  }
}

TEST_F(CliDecoderTools, SayThatAClassHasNoHead) {
  json config = read_json(path("llama") / "config.json");
  config["architectures"] = {"LlamaModel"};
  write_json_atomic(path("llama") / "config.json", config);
  const std::vector<std::string> plan = {"plan", "--model_name_or_path", path("llama").string()};
  const ProgramRun planned = run(plan);
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_TRUE(contains(planned.output, R"('architectures' is ["LlamaModel"], which says no head)"));
  for (const char* task : {"causal-lm", "text-classification"})
    EXPECT_FALSE(contains(run(joined(plan, {"--task", task})).output, "which says no head")) << task;
}

// A config as transformers 5 writes it has them in an object.
TEST_F(CliDecoderTools, AnOverrideOfTheRopeCounts) {
  json config = read_json(path("llama") / "config.json");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500}, {"partial_rotary_factor", 1}};
  write_json_atomic(path("llama") / "config.json", config);
  const auto plan = [&](const char* overrides) -> std::vector<std::string> {
    return {"plan",   "--config_name", path("llama").string(), "--block_size", "16", "--config_overrides",
            overrides};
  };
  EXPECT_EQ(run(plan("rope_theta=10000")).exit_code, 0);
  expect_failure(plan("rope_theta=0"), 2, {"'rope_theta' of 'rope_parameters' to be from 0.001", "got 0"});
  expect_failure(plan("partial_rotary_factor=0.5"), 2, {"'partial_rotary_factor' to be 1, got 0.5"});
}

// null is no text, and takes away what the architecture has: here a window of 4,096 tokens.
TEST_F(CliDecoderTools, AnOverrideMayBeNull) {
  for (const char* null : {"null", "None"}) {
    result_of({"plan", "--model_type", "mistral", "--config_overrides",
               "hidden_size=32,intermediate_size=48,num_hidden_layers=1,num_attention_heads=4,"
               "num_key_value_heads=2,vocab_size=300,sliding_window=" +
                   std::string(null),
               "--block_size", "16", "--json"});
  }
}

TEST_F(CliDecoderTools, LadderOfADecoder) {
  const json ladder =
      result_of({"bench", "ladder", "--model", path("gpt2").string(), "--sequence_length", "24", "--rungs",
                 "batch_4,checkpointing", "--steps", "2", "--repeats", "1", "--json"});
  ASSERT_EQ(ladder["rungs"].size(), 2U);
  for (const json& rung : ladder["rungs"]) {
    EXPECT_EQ(rung["ours"]["outcome"], "measured") << rung;
    EXPECT_GT(rung["ours"]["samples_per_second"].get<double>(), 0);
  }
}

// What is verified are steps as long as those of the run.
TEST_F(CliDecoderTools, FitMeasuresBlocksAsLongAsTheRuns) {
  std::string texts;
  for (int i = 0; i < 60; ++i) texts += "a dog ran to the park, and back\n";
  directory_.write("texts.txt", texts);
  ASSERT_EQ(run({"tokenizer", "train", "--output_dir", path("tokenizer").string(), "--vocab_size", "280",
                 path("texts.txt").string()})
                .exit_code,
            0);
  const std::vector<std::string> flags = {"--config_name",          path("gpt2").string(),
                                          "--tokenizer_name",       path("tokenizer").string(),
                                          "--train_file",           path("texts.txt").string(),
                                          "--block_size",           "16",
                                          "--effective_batch_size", "4",
                                          "--output_dir",           output().string()};
  std::vector<std::string> fit = {"fit", "--verify", "2", "--json"};
  fit.insert(fit.end(), flags.begin(), flags.end());
  const json found = result_of(fit);
  EXPECT_EQ(found["chosen"]["step_seconds_are"], "measured");
  std::vector<std::string> step = {"bench", "step", "--json", "--no_limits", "--max_steps", "2"};
  for (const json& word : found["chosen"]["flags"]) step.push_back(word);
  EXPECT_TRUE(contains(result_of(step)["step"].get<std::string>(), "of 16 tokens"));
  std::vector<std::string> train = {"train", "--fit", "--verify", "0", "--max_steps", "2"};
  train.insert(train.end(), flags.begin(), flags.end());
  const ProgramRun trained = run(train);
  EXPECT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(std::filesystem::exists(output() / "model.safetensors"));
  // Longer blocks than the model has positions are cut, and measured as they are cut.
  std::vector<std::string> too_long = fit;
  too_long.insert(too_long.end(), {"--block_size", "100"});
  EXPECT_EQ(result_of(too_long)["chosen"]["step_seconds_are"], "measured");
}

// A config that ties a head which is apart in the files stands for the model that is trained: with a head of its own.
TEST_F(CliDecoderTools, CountAHeadThatIsApartInTheFiles) {
  const auto copy_with = [&](const char* name, bool ties, bool has_weights) {
    std::filesystem::copy(golden("decoders") / "gpt2_untied", path(name));
    json config = read_json(path(name) / "config.json");
    config["tie_word_embeddings"] = ties;
    write_json_atomic(path(name) / "config.json", config);
    if (!has_weights) std::filesystem::remove(path(name) / "model.safetensors");
  };
  copy_with("apart", true, true);
  copy_with("untied", false, false);
  copy_with("tied", true, false);
  const auto number_of = [&](std::vector<std::string> words, const char* model,
                             const json::json_pointer& at) {
    words.insert(words.end(), {"--model_name_or_path", path(model).string(), "--block_size", "16", "--json"});
    return result_of(words).at(at).get<int64_t>();
  };
  for (const auto& [words, at] :
       {std::pair<std::vector<std::string>, const char*>{{"plan"}, "/arena_bytes"},
        {{"anatomy", "--steps", "1", "--no_limits"}, "/memory/parameters"},
        {{"bench", "step", "--max_steps", "2", "--no_limits"}, "/memory_arena_measured_bytes"}}) {
    const json::json_pointer place(at);
    const int64_t untied = number_of(words, "untied", place);
    EXPECT_EQ(number_of(words, "apart", place), untied) << words[0];
    EXPECT_LT(number_of(words, "tied", place), untied) << words[0];
  }
}

}  // namespace
}  // namespace shoehorn
