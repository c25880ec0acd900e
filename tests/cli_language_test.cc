// Language models by the program alone: a tokenizer of one's own texts, a model from scratch, its loss, its texts.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace test_support;
using nlohmann::json;

class CliLanguageTest : public CliTest {
 protected:
  CliLanguageTest() {
    std::string texts;
    for (int i = 0; i < 60; ++i)
      texts += i % 3 == 0 ? "the cat sat on the mat\n" : "a dog ran to the park, and back\n";
    directory_.write("texts.txt", texts);
    directory_.write("held_out.txt", "the cat ran to the park\na dog sat on the mat\n");
    const ProgramRun made = run({"tokenizer", "train", "--output_dir", tokenizer(), "--vocab_size", "280",
                                 "--special_tokens", "<|endoftext|>", path("texts.txt").string()});
    EXPECT_EQ(made.exit_code, 0) << made.error;
  }

  std::string tokenizer() const { return path("tokenizer").string(); }

  // A new model of 280 entries; later flags override these.
  std::vector<std::string> new_model_words(const std::string& command,
                                           const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        command,
        "--task",
        "causal-lm",
        "--model_type",
        "gpt2",
        "--config_overrides",
        "n_layer=2,n_head=2,n_embd=32,n_positions=32,vocab_size=280,eos_token_id=0",
        "--tokenizer_name",
        tokenizer(),
        "--train_file",
        path("texts.txt").string(),
        "--validation_file",
        path("held_out.txt").string(),
        "--block_size",
        "16",
        "--max_steps",
        "12",
        "--learning_rate",
        "1e-2",
        "--logging_steps",
        "1",
        "--output_dir",
        output().string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

// The guides' way: a directory says what it is, and its training file is split where an evaluation is asked for.
TEST_F(CliLanguageTest, ADirectoryOfADecoderNeedsNoValidationFile) {
  ASSERT_EQ(run(new_model_words("train", {"--save_strategy", "no"})).exit_code, 0);
  EXPECT_EQ(read_json(output() / "generation_config.json")["eos_token_id"], 0);
  for (const std::vector<std::string>& asked :
       {std::vector<std::string>{"--do_eval"}, {"--eval_strategy", "steps", "--eval_steps", "2"}}) {
    std::vector<std::string> words = {"train",
                                      "--model_name_or_path",
                                      output().string(),
                                      "--train_file",
                                      path("texts.txt").string(),
                                      "--block_size",
                                      "16",
                                      "--do_train",
                                      "--max_steps",
                                      "2",
                                      "--save_strategy",
                                      "no",
                                      "--output_dir",
                                      path("again").string()};
    words.insert(words.end(), asked.begin(), asked.end());
    const ProgramRun trained = run(words);
    ASSERT_EQ(trained.exit_code, 0) << trained.error;
    EXPECT_TRUE(read_json(path("again") / "all_results.json").contains("perplexity")) << asked[0];
  }
  expect_failure({"train", "--model_name_or_path", model().string(), "--train_file",
                  path("train.csv").string(), "--do_eval", "--output_dir", path("classifier").string()},
                 2, {"[--validation_file]", "do_eval needs an evaluation set"});
}

// A file's other columns do not become what the model is measured on.
TEST_F(CliLanguageTest, TheColumnThatWasTrainedIsEvaluated) {
  std::string rows = "text,content\n";
  for (int i = 0; i < 40; ++i) rows += "zzzz qqqq,the cat sat on the mat\n";
  directory_.write("table.csv", rows);
  const std::string table = path("table.csv").string();
  const ProgramRun trained =
      run(new_model_words("train", {"--save_strategy", "no", "--train_file", table, "--validation_file",
                                    table, "--text_column_names", "content"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  const ProgramRun evaluated = run({"eval", "--model_name_or_path", output().string(), "--validation_file",
                                    table, "--json", "--output_dir", path("again").string()});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.error;
  EXPECT_EQ(json::parse(evaluated.output)["eval_loss"],
            read_json(output() / "eval_results.json")["eval_loss"]);
  // A file of lines has no columns.
  const ProgramRun lines = run({"eval", "--model_name_or_path", output().string(), "--validation_file",
                                path("held_out.txt").string(), "--output_dir", path("again").string()});
  EXPECT_EQ(lines.exit_code, 0) << lines.error;
}

TEST_F(CliLanguageTest, ANewModelLearnsIsMeasuredAndWrites) {
  const ProgramRun planned = run(new_model_words("plan", {"--json"}));
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  const ProgramRun trained = run(new_model_words("train", {"--save_strategy", "no"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, "blocks of"));
  const json log = read_json(output() / "trainer_state.json")["log_history"];
  EXPECT_LT(log[11]["loss"].get<double>(), 0.7 * log[0]["loss"].get<double>());
  const json results = read_json(output() / "eval_results.json");
  EXPECT_NEAR(results["eval_perplexity"].get<double>(), std::exp(results["eval_loss"].get<double>()), 1e-6);
  const json all = read_json(output() / "all_results.json");
  EXPECT_EQ(all["perplexity"], results["eval_perplexity"]) << "as run_clm names it";
  EXPECT_GT(all["eval_samples"], 0);
  EXPECT_GT(all["train_samples"], all["eval_samples"]);
  EXPECT_GT(results["eval_accuracy"].get<double>(), 0.1)
      << "the next token is found more often than by chance";
  EXPECT_LE(results["eval_accuracy"].get<double>(), 1);
  const json config = read_json(output() / "config.json");
  EXPECT_EQ(config["architectures"][0], "GPT2LMHeadModel");
  EXPECT_EQ(config["n_embd"], 32);

  // What was saved says by itself what it is.
  const ProgramRun evaluated = run({"eval", "--model_name_or_path", output().string(), "--validation_file",
                                    path("held_out.txt").string(), "--block_size", "16", "--json",
                                    "--output_dir", path("again").string()});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.error;
  const json again = json::parse(evaluated.output);
  EXPECT_EQ(again["eval_loss"], results["eval_loss"]);
  EXPECT_EQ(again["eval_accuracy"], results["eval_accuracy"]);

  const std::vector<std::string> words = {"generate",
                                          "--model_name_or_path",
                                          output().string(),
                                          "--prompt",
                                          "the cat",
                                          "--max_new_tokens",
                                          "6",
                                          "--num_return_sequences",
                                          "2"};
  const ProgramRun written = run(words);
  ASSERT_EQ(written.exit_code, 0) << written.error;
  EXPECT_TRUE(written.output.starts_with("the cat"));
  EXPECT_EQ(run(words).output, written.output) << "the same seed";
  std::vector<std::string> greedy = words;
  greedy.insert(greedy.end(), {"--no_do_sample", "--json"});
  const ProgramRun likely = run(greedy);
  const size_t end = likely.output.find('\n');
  ASSERT_NE(end, std::string::npos) << likely.output << likely.error;
  EXPECT_EQ(likely.output.substr(0, end + 1) + likely.output.substr(0, end + 1), likely.output)
      << "nothing is drawn";
}

TEST_F(CliLanguageTest, AWriterThatIsStoppedEndsItsLine) {
  ASSERT_EQ(run(new_model_words("train", {"--save_strategy", "no", "--max_steps", "1"})).exit_code, 0);
  StartedProgram program({"generate", "--model_name_or_path", output().string(), "--prompt", "the cat",
                          "--num_return_sequences", "10000000"},
                         directory_.path());
  while (program.output().size() < 1000) usleep(5000);
  kill(program.pid(), SIGINT);
  const ProgramRun stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.error;
  EXPECT_TRUE(stopped.output.ends_with("\n"));
  EXPECT_EQ(stopped.error, "stopped by Ctrl-C (SIGINT)\n");
}

TEST_F(CliLanguageTest, RowsWithoutATokenAreNoText) {
  ASSERT_EQ(run(new_model_words("train", {"--save_strategy", "no", "--max_steps", "1", "--config_overrides",
                                          "n_layer=1,n_head=2,n_embd=32,n_positions=32,vocab_size=28000"}))
                .exit_code,
            0);
  const ProgramRun written = run({"generate", "--model_name_or_path", output().string(), "--prompt",
                                  "the cat", "--top_k", "0", "--max_new_tokens", "20", "--json"});
  ASSERT_EQ(written.exit_code, 0) << written.error;
  const std::vector<int32_t> ids = json::parse(written.output)["ids"];
  EXPECT_TRUE(std::any_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 280; })) << written.output;
}

// Arenas to the byte, and the process within its promise, for decoders on packed documents as for classifiers.
TEST_F(CliLanguageTest, DecodersTakeTheMemoryThatWasPlanned) {
  const std::string llama =
      "hidden_size=64,intermediate_size=128,num_hidden_layers=2,num_attention_heads=4,num_key_value_heads=2,"
      "max_position_embeddings=32,vocab_size=280";
  const std::vector<std::vector<std::string>> settings = {
      {},
      {"--model_type", "llama", "--config_overrides", llama},
      {"--model_type", "qwen3", "--config_overrides", llama + ",head_dim=32", "--bf16"},
      {"--gradient_accumulation_steps", "2"},
      {"--model_type", "llama", "--config_overrides", llama, "--gradient_accumulation_steps", "2",
       "--accumulation_order", "layer_major"}};
  for (std::vector<std::string> words : settings) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(words, " ")));
    words.insert(words.end(), {"--packing", "documents", "--per_device_train_batch_size", "4", "--max_steps",
                               "3", "--save_strategy", "no", "--overwrite_output_dir"});
    const ProgramRun trained = run(new_model_words("train", words));
    ASSERT_EQ(trained.exit_code, 0) << trained.error;
    const json results = read_json(output() / "all_results.json");
    EXPECT_EQ(results["memory_arena_predicted_bytes"], results["memory_arena_measured_bytes"]);
    const auto predicted = results["memory_process_predicted_bytes"].get<double>();
    if (measures_memory()) {
      EXPECT_NEAR(results["memory_process_measured_bytes"].get<double>(), predicted,
                  std::max(0.02 * predicted, 8.0 * (1 << 20)));
    }
  }
}

// `make demo-lm`, with a few fortunes in place of the package's, a small model and few steps.
TEST_F(CliLanguageTest, TheDemoLearnsAndWrites) {
  std::string fortunes;
  for (int i = 0; i < 100; ++i) fortunes += fmt::format("The cat \"sat\" on mat {}.\n\t-- A dog\n%\n", i % 7);
  directory_.write("fortunes/cats", fortunes);
  directory_.write("fortunes/cats.dat", "an index, which is no fortune");
  const std::string environment = "FORTUNES_DIR=" + path("fortunes").string();
  const ProgramRun shown =
      StartedProgram({environment, "DEMO_DIR=" + path("demo").string(),
                      SHOEHORN_SOURCE_DIR "/demo/language_model.sh", SHOEHORN_PROGRAM, "--config_overrides",
                      "n_layer=1,n_head=2,n_embd=32,n_positions=128,vocab_size=2048,"
                      "bos_token_id=0,eos_token_id=0",
                      "--max_steps", "4"},
                     directory_.path(), {}, "/usr/bin/env")
          .wait();
  ASSERT_EQ(shown.exit_code, 0) << shown.output << shown.error;
  for (const char* part :
       {"== A tokenizer of 95 fortunes", "== What it will take", "== Training", "== What it writes"})
    EXPECT_TRUE(contains(shown.output, part)) << part;
  EXPECT_TRUE(contains(read_text_file(path("demo/fortunes.jsonl")),
                       R"({"text": "The cat \"sat\" on mat 0.\n\t-- A dog"})"));
  EXPECT_EQ(read_json(path("demo/model/trainer_state.json"))["global_step"], 4);
  EXPECT_TRUE(std::filesystem::exists(path("demo/model/model.safetensors")));
}

// One metric is drawn alone: nobody has to guess which.
TEST_F(CliLanguageTest, ThePageNamesWhatItDraws) {
  const ProgramRun trained =
      run(new_model_words("train", {"--save_strategy", "no", "--eval_strategy", "steps", "--eval_steps", "6",
                                    "--report_to", "html"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  const std::string page = read_text_file(output() / "report.html");
  for (const char* part :
       {">Accuracy</text>", ">Perplexity</text>", "share of tokens that the model finds most likely"})
    EXPECT_TRUE(contains(page, part)) << part;
  EXPECT_FALSE(contains(page, ">Metrics"));
}

// Each recipe with its own flags, but for what makes it small: the model, the texts, the number of steps.
class CliRecipes : public CliLanguageTest {
 protected:
  ProgramRun run_recipe(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train",
                                      "--config",
                                      SHOEHORN_SOURCE_DIR "/examples/recipes/" + name,
                                      "--train_file",
                                      path("texts.txt").string(),
                                      "--block_size",
                                      "16",
                                      "--max_steps",
                                      "2",
                                      "--output_dir",
                                      output().string()};
    words.insert(words.end(), more.begin(), more.end());
    ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result;
  }

  std::string new_model(const std::string& type, const std::string& overrides) const {
    const std::string directory = path(type).string();
    const ProgramRun made =
        run(new_model_words("train", {"--model_type", type, "--config_overrides", overrides, "--max_steps",
                                      "1", "--save_strategy", "no", "--output_dir", directory}));
    EXPECT_EQ(made.exit_code, 0) << made.error;
    return directory;
  }
};

TEST_F(CliRecipes, Gpt2Finetune) {
  const std::string model =
      new_model("gpt2", "n_layer=2,n_head=2,n_embd=32,n_positions=32,vocab_size=280,eos_token_id=0");
  run_recipe("gpt2-finetune.json",
             {"--model_name_or_path", model, "--validation_file", path("held_out.txt").string()});
  EXPECT_EQ(read_json(output() / "config.json")["architectures"][0], "GPT2LMHeadModel");
  EXPECT_TRUE(read_json(output() / "eval_results.json").contains("eval_perplexity"));
}

TEST_F(CliRecipes, LlamaLora) {
  const std::string model =
      new_model("llama",
                "hidden_size=32,intermediate_size=64,num_hidden_layers=2,num_attention_heads=4,"
                "num_key_value_heads=2,max_position_embeddings=32,vocab_size=280");
  run_recipe("llama-lora.json", {"--model_name_or_path", model, "--validation_split_percentage", "10"});
  const json adapter = read_json(output() / "adapter_config.json");
  EXPECT_EQ(adapter["r"], 16);
  EXPECT_EQ(adapter["task_type"], "CAUSAL_LM");
  EXPECT_TRUE(std::filesystem::exists(output() / "adapter_model.safetensors"));
}

TEST_F(CliRecipes, AnAdapterGoesOnWithATextAsTheMergedModelDoes) {
  const std::string model =
      new_model("llama",
                "hidden_size=32,intermediate_size=64,num_hidden_layers=2,num_attention_heads=4,"
                "num_key_value_heads=2,max_position_embeddings=32,vocab_size=280");
  const auto train_into = [&](const std::string& directory, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--model_name_or_path",
                                      model,
                                      "--validation_split_percentage",
                                      "10",
                                      "--output_dir",
                                      path(directory).string(),
                                      "--learning_rate",
                                      "0.1",
                                      "--max_steps",
                                      "8",
                                      "--bf16",
                                      "false",
                                      "--master_weights",
                                      "fp32"};
    words.insert(words.end(), more.begin(), more.end());
    run_recipe("llama-lora.json", words);
  };
  const auto text_of = [&](const std::string& directory) {
    const ProgramRun result = run({"generate", "--model_name_or_path", directory, "--prompt", "once upon",
                                   "--no_do_sample", "--max_new_tokens", "12", "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.output;
  };
  train_into("adapter", {});
  train_into("merged", {"--lora_merge"});
  ASSERT_FALSE(std::filesystem::exists(path("merged") / "adapter_config.json"));
  const std::string text = text_of(path("adapter").string());
  EXPECT_EQ(text, text_of(path("merged").string()));
  EXPECT_NE(text, text_of(model));
}

TEST_F(CliRecipes, GptShakespeare) {
  run_recipe("gpt-shakespeare.json",
             {"--tokenizer_name", tokenizer(), "--config_overrides",
              "n_layer=2,n_head=2,n_embd=32,n_positions=32,vocab_size=280,eos_token_id=0", "--eval_steps",
              "1", "--save_steps", "1", "--logging_steps", "1", "--per_device_train_batch_size", "4"});
  EXPECT_TRUE(std::filesystem::exists(output() / "model.safetensors"));
  EXPECT_EQ(read_json(output() / "trainer_state.json")["best_metric"].is_number(), true);
}

TEST_F(CliLanguageTest, AResumedRunEqualsOneThatWasNotInterrupted) {
  const std::vector<std::string> saves = {"--save_strategy", "steps", "--save_steps", "5"};
  ASSERT_EQ(run(new_model_words("train", saves)).exit_code, 0);
  const std::string whole = read_text_file(output() / "model.safetensors");
  std::filesystem::remove_all(output() / "checkpoint-10");
  std::filesystem::remove_all(output() / "checkpoint-12");
  std::vector<std::string> more = saves;
  more.insert(more.end(), {"--resume_from_checkpoint", "true"});
  const ProgramRun resumed = run(new_model_words("train", more));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_TRUE(contains(resumed.output + resumed.error, "at step 5"));
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") == whole);
}

TEST_F(CliLanguageTest, ATokenizerThatIsNotThereIsNamed) {
  expect_failure(new_model_words("train", {"--tokenizer_name", "no/tokenizer"}), 2,
                 {"[--tokenizer_name no/tokenizer] expected a directory with tokenizer.json, vocab.txt"});
}

TEST_F(CliLanguageTest, ANewDecoderIsALanguageModelUnlessToldOtherwise) {
  std::vector<std::string> words = new_model_words("plan", {"--json"});
  words.erase(words.begin() + 1, words.begin() + 3);  // --task causal-lm
  const ProgramRun planned = run(words);
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_EQ(json::parse(planned.output)["parameters"],
            json::parse(run(new_model_words("plan", {"--json"})).output)["parameters"]);
}

// transformers' attribute_map.
TEST_F(CliLanguageTest, KeysMayHaveTheNamesThatAllModelsShare) {
  const std::string overrides =
      "num_hidden_layers=1,num_attention_heads=2,hidden_size=32,max_position_embeddings=32,vocab_size=280";
  ASSERT_EQ(run(new_model_words(
                    "train", {"--save_strategy", "no", "--max_steps", "1", "--config_overrides", overrides}))
                .exit_code,
            0);
  const json config = read_json(output() / "config.json");
  EXPECT_EQ(config["n_layer"], 1);
  EXPECT_EQ(config["n_embd"], 32);
  EXPECT_EQ(config["n_positions"], 32);
  EXPECT_FALSE(config.contains("hidden_size"));
}

TEST_F(CliLanguageTest, ALengthOfTextsIsSaidNotToCount) {
  const auto said = [&](const std::vector<std::string>& more) {
    const ProgramRun planned = run(new_model_words("plan", more));
    EXPECT_EQ(planned.exit_code, 0) << planned.error;
    return contains(planned.output, "max_seq_length: 20 is not used");
  };
  EXPECT_TRUE(said({"--max_seq_length", "20"}));
  EXPECT_FALSE(said({}));
  EXPECT_FALSE(said({"--max_seq_length", "16"})) << "as the block is";
}

TEST_F(CliLanguageTest, MistakesAreNamed) {
  expect_failure(new_model_words("train", {"--config_overrides", "n_embdd=32"}), 2,
                 {"n_embdd", "did you mean 'n_embd'"});
  expect_failure(new_model_words("train", {"--config_overrides", "type_vocab_size=2"}), 2,
                 {"type_vocab_size", "expected a key that the model reads"});
  expect_failure(new_model_words("train", {"--config_overrides", "n_embd"}), 2, {"key=value"});
  expect_failure(new_model_words("train", {"--model_name_or_path", model().string()}), 2,
                 {"--model_type", "no weights"});
  expect_failure(new_model_words("train", {"--model_type", "t5"}), 2, {"one of gpt2, llama", "t5"});
  expect_failure({"train", "--task", "causal-lm", "--model_name_or_path", model().string(), "--train_file",
                  path("texts.txt").string(), "--output_dir", output().string()},
                 2, {"for a language model, got \"bert\""});
  expect_failure({"plan", "--config_overrides", "n_embd=3", "--model_name_or_path", "gpt2"}, 2,
                 {"--model_type or --config_name"});
  ASSERT_EQ(run(new_model_words("train", {"--save_strategy", "no", "--max_steps", "1"})).exit_code, 0);
  expect_failure(
      {"predict", "--model_name_or_path", output().string(), "--test_file", path("train.csv").string()}, 2,
      {"shoehorn generate"});
  expect_failure({"generate", "--model_name_or_path", output().string(), "--temperature", "0"}, 2,
                 {"--temperature"});
  expect_failure({"generate", "--model_name_or_path", model().string(), "--prompt", "x"}, 2,
                 {"for a language model"});
  const std::vector<std::string> long_text = {
      "generate", "--model_name_or_path", output().string(),    "--prompt",
      "the cat",  "--max_new_tokens",     "9223372036854775807"};
  EXPECT_EQ(run(long_text).exit_code, 0) << "as long as the model's positions";
  directory_.write("out/generation_config.json", R"({"eos_token_id": -1})");
  expect_failure(long_text, 2, {"generation_config.json", "eos_token_id"});
}

// Files of one directory, and a tokenizer, that disagree about what the model's tables hold.
TEST_F(CliLanguageTest, SizesOfTablesThatDisagreeAreNamed) {
  ASSERT_EQ(run(new_model_words("train", {"--save_strategy", "no", "--max_steps", "1"})).exit_code, 0);
  const std::filesystem::path config = output() / "config.json";
  const json whole = read_json(config);
  const auto refuses = [&](const char* key, int64_t size, const std::vector<std::string>& parts) {
    json changed = whole;
    changed[key] = size;
    directory_.write("out/config.json", changed.dump());
    expect_failure({"train", "--task", "causal-lm", "--model_name_or_path", output().string(), "--train_file",
                    path("texts.txt").string(), "--output_dir", path("other").string()},
                   2, parts);
  };
  refuses("vocab_size", 300, {"model.safetensors: transformer.wte.weight", "[300, 32]", "got [280, 32]"});
  refuses("vocab_size", 100, {"expected token ids below 100", "is the tokenizer the model's?"});
  refuses("n_positions", 64, {"model.safetensors: transformer.wpe.weight", "[64, 32]", "got [32, 32]"});
}

}  // namespace
}  // namespace shoehorn
