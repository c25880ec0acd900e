// The public API in the words of a user's program, and the examples that need a model's directory.
#include "shoehorn.h"

#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

class PublicApi : public CliTest {
 protected:
  ProgramRun run_example(const std::string& name, const std::vector<std::string>& words) const {
    return StartedProgram(words, directory_.path(), {}, std::string(SHOEHORN_EXAMPLES) + "/example_" + name)
        .wait();
  }

  // 120 lines in texts.txt, and the directory of a tokenizer of these.
  void write_texts_and_tokenizer() const {
    std::string texts;
    for (int i = 0; i < 120; ++i)
      texts += i % 2 == 0 ? "the cat sat on the mat\n" : "the dog ran to the park\n";
    directory_.write("texts.txt", texts);
    succeed({"tokenizer", "train", "--output_dir", path("tokenizer"), "--vocab_size", "280",
             "--special_tokens", "<|endoftext|>", path("texts.txt")});
  }

  // A Llama of two layers that has learned texts.txt for so many steps.
  void train_decoder(const std::vector<std::string>& more) const {
    succeed(joined(
        {"train", "--model_type", "llama", "--config_overrides",
         "hidden_size=32,intermediate_size=64,num_hidden_layers=2,num_attention_heads=4,"
         "num_key_value_heads=2,max_position_embeddings=32,vocab_size=280,bos_token_id=0,eos_token_id=0",
         "--tokenizer_name", path("tokenizer"), "--train_file", path("texts.txt"), "--learning_rate", "1e-2",
         "--save_strategy", "no"},
        more));
  }

  ProgramRun succeed(const std::vector<std::string>& words) const {
    ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result;
  }
};

// The line of `text` that has `part`.
std::string line_with(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return {};
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

// The directory's weights were drawn with seed 42; a run with another seed has them only if it reads them.
TEST_F(PublicApi, FromPretrainedTrainsFromTheDirectorysWeights) {
  const auto tokenizer = Tokenizer::load(model());
  const LoadedDataset texts = load_dataset(path("train.csv"), *tokenizer, 64);
  TrainingArguments args = quiet_arguments(8);
  args.seed = 7;
  args.max_steps = 2;
  const auto losses = [&](const Model& bert, const std::filesystem::path& weights) {
    Trainer trainer(bert, args, texts.dataset, {}, {.weights = weights});
    trainer.train();
    return logged(trainer.state(), "loss");
  };
  const auto bert = BertForSequenceClassification::from_pretrained(model());
  const BertForSequenceClassification fresh(bert.config());
  EXPECT_EQ(losses(bert, {}), losses(fresh, model()));
  EXPECT_NE(losses(bert, {}), losses(fresh, {}));

  Trainer(fresh, args, {}, texts.dataset).save_model(path("other"));
  EXPECT_EQ(losses(bert, path("other")), losses(fresh, {})) << "weights that are named come first";

  Accelerator accelerator(args);
  auto [prepared, optimizer, loader] =
      accelerator.prepare(bert, create_optimizer(args), DataLoader(texts.dataset, {.batch_size = 8}));
  loader.begin();
  Trainer reader(bert, args, {}, texts.dataset);
  reader.evaluate();
  EXPECT_TRUE(weights_of(accelerator.session()) == weights_of(reader.session()));
  EXPECT_THROW(BertForSequenceClassification::from_pretrained(path("nowhere")), UserError);
}

// What the example saved is what the command reads: weights, tokenizer and labels.
TEST_F(PublicApi, FineTuneExampleSavesWhatEvalReads) {
  const ProgramRun tuned =
      run_example("fine_tune", {model(), path("train.csv"), path("validation.csv"), output()});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.error;
  EXPECT_TRUE(contains(tuned.output, "Samples/second: "));
  const ProgramRun evaluated = run({"eval", "--model_name_or_path", output(), "--validation_file",
                                    path("validation.csv"), "--output_dir", path("evaluated")});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.error;
  for (const char* metric : {"eval_loss", "eval_accuracy"}) {
    EXPECT_FALSE(line_with(tuned.output, metric).empty()) << tuned.output;
    EXPECT_EQ(line_with(tuned.output, metric), line_with(evaluated.output, metric));
  }
  EXPECT_EQ(BertForSequenceClassification::from_pretrained(output()).labels(),
            (std::vector<std::string>{"down", "up"}));
}

// A decoder of one's own learns its texts, and its saved weights go on with one as the trained ones do.
TEST_F(PublicApi, OwnDecoderExampleLearnsItsTextsAndIsSaved) {
  write_texts_and_tokenizer();
  const ProgramRun trained =
      run_example("own_decoder", {path("tokenizer").string(), path("texts.txt").string(), output()});
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  EXPECT_TRUE(contains(trained.output, "Memory this run will take")) << trained.output;
  const nlohmann::json config = read_json(output() / "config.json");
  EXPECT_EQ(config["architectures"][0], "ParallelDecoderForCausalLM");
  EXPECT_TRUE(std::filesystem::exists(output() / "tokenizer.json"));
  const SafetensorsFile weights = SafetensorsFile::open(output() / "model.safetensors");
  EXPECT_EQ(weights.tensor("decoder.layers.1.attention.key.weight").shape, (std::vector<int64_t>{32, 64}));
  EXPECT_EQ(weights.tensor("decoder.embeddings.weight").shape, (std::vector<int64_t>{280, 64}));
  EXPECT_TRUE(contains(trained.output, "the cat sat on the mat") ||
              contains(trained.output, "the dog ran to the park"))
      << trained.output;
}

// What the example saved is what the commands read: its evaluation is theirs, and so is the text that it went on with.
TEST_F(PublicApi, FineTuneDecoderExampleSavesWhatTheCommandsRead) {
  write_texts_and_tokenizer();
  train_decoder({"--max_steps", "40", "--output_dir", path("decoder")});
  std::string held_out;
  for (int i = 0; i < 3; ++i) held_out += "the cat sat on the mat\nthe dog ran to the park\n";
  directory_.write("held_out.txt", held_out);
  const ProgramRun tuned =
      run_example("fine_tune_decoder", {path("decoder"), path("texts.txt"), output(), "the cat"});
  ASSERT_EQ(tuned.exit_code, 0) << tuned.error;
  EXPECT_TRUE(contains(tuned.output, "all but the first 6 of 120 texts"));
  EXPECT_TRUE(contains(tuned.output, "Samples/second: "));
  const ProgramRun evaluated = succeed({"eval", "--model_name_or_path", output(), "--validation_file",
                                        path("held_out.txt"), "--output_dir", path("evaluated")});
  for (const char* metric : {"eval_loss", "eval_accuracy"}) {
    EXPECT_FALSE(line_with(tuned.output, metric).empty()) << tuned.output;
    EXPECT_EQ(line_with(tuned.output, metric), line_with(evaluated.output, metric));
  }
  const ProgramRun written = succeed({"generate", "--model_name_or_path", output(), "--prompt", "the cat",
                                      "--max_new_tokens", "40", "--no_do_sample"});
  EXPECT_TRUE(written.output.starts_with("the cat sat on the mat")) << written.output;
  EXPECT_TRUE(tuned.output.ends_with("\n" + written.output)) << tuned.output << written.output;
}

TEST_F(PublicApi, AnAdaptersDirectoryIsNoModel) {
  write_texts_and_tokenizer();
  train_decoder({"--max_steps", "1", "--output_dir", path("decoder")});
  succeed({"train", "--model_name_or_path", path("decoder"), "--train_file", path("texts.txt"), "--lora_rank",
           "2", "--max_steps", "1", "--save_strategy", "no", "--output_dir", path("adapter")});
  const auto refusal = [&] {
    return message_of<UserError>([&] { AutoModelForCausalLM::from_pretrained(path("adapter")); });
  };
  EXPECT_TRUE(contains(refusal(), "[" + path("adapter").string() + "] expected config.json, got an adapter"));
  EXPECT_TRUE(contains(refusal(), "load its base model")) << refusal();

  // As the message says.
  const auto base = AutoModelForCausalLM::from_pretrained(path("decoder"));
  const TextGenerator generator(*base,
                                {.weights = path("decoder"), .adapter = path("adapter"), .max_length = 32});
}

TEST_F(PublicApi, LoadModelCellLoadsADirectory) {
  const ProgramRun drawn = run_example("guide_load_model", {"--small"});
  EXPECT_TRUE(contains(drawn.output, "New weights, drawn at random"));
  const std::vector<std::string> words = {"--model_name_or_path", model()};
  const ProgramRun loaded = run_example("guide_load_model", words);
  ASSERT_EQ(loaded.exit_code, 0) << loaded.error;
  EXPECT_TRUE(contains(loaded.output, "The weights of " + model().string()));
  EXPECT_TRUE(contains(loaded.output, "Memory occupied: "));
  std::filesystem::resize_file(model() / "model.safetensors", 1000);
  const ProgramRun torn = run_example("guide_load_model", words);
  EXPECT_EQ(torn.exit_code, 1);
  EXPECT_TRUE(contains(torn.error, "model.safetensors"));
}

}  // namespace
}  // namespace shoehorn
