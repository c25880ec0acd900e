// Adapters of language models on the command line: the tokenizer that lies beside one, and a table that is the head too.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace test_support;
namespace fs = std::filesystem;
using nlohmann::json;

// A tied Llama in base(), with a tokenizer of 280 tokens.
class CliDecoderLora : public CliTest {
 protected:
  CliDecoderLora() {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += i % 3 == 0 ? "the cat sat on the mat\n" : "a dog ran to the park, and back\n";
    directory_.write("texts.txt", lines);
    expect_success({"tokenizer", "train", "--output_dir", path("tokenizer").string(), "--vocab_size", "280",
                    "--special_tokens", "<|endoftext|>", texts()});
    expect_success(train(base(), {"--model_type", "llama", "--tokenizer_name", path("tokenizer").string(),
                                  "--config_overrides",
                                  "hidden_size=32,intermediate_size=48,num_hidden_layers=2,"
                                  "num_attention_heads=4,num_key_value_heads=2,vocab_size=280,"
                                  "max_position_embeddings=32,tie_word_embeddings=true"}));
  }

  fs::path base() const { return path("base"); }
  std::string texts() const { return path("texts.txt").string(); }

  std::vector<std::string> train(const fs::path& to, const std::vector<std::string>& more) const {
    return joined({"train", "--train_file", texts(), "--block_size", "16", "--max_steps", "3",
                   "--learning_rate", "1e-2", "--save_strategy", "no", "--output_dir", to.string()},
                  more);
  }
  std::vector<std::string> train_adapter(const std::vector<std::string>& more = {}) const {
    return train(output(), joined({"--model_name_or_path", base().string(), "--lora_rank", "4"}, more));
  }

  ProgramRun expect_success(const std::vector<std::string>& words) const {
    ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result;
  }

  std::string text_of(const fs::path& model) const {
    return expect_success({"generate", "--model_name_or_path", model.string(), "--prompt", "the cat",
                           "--no_do_sample", "--max_new_tokens", "12", "--json"})
        .output;
  }
};

// One parameter under either name, which its file has under both.
TEST_F(CliDecoderLora, ATableThatIsTheHeadIsOneParameter) {
  std::string file;
  for (const char* modules : {"embed_tokens", "lm_head", "embed_tokens,lm_head"}) {
    expect_success(train_adapter({"--lora_modules_to_save", modules, "--overwrite_output_dir"}));
    EXPECT_EQ(read_json(output() / "adapter_config.json").value("ensure_weight_tying", json()), true);
    const std::string now = read_text_file(output() / "adapter_model.safetensors");
    EXPECT_TRUE(file.empty() || now == file) << modules;
    file = now;
  }
  const std::string text = text_of(output());
  expect_success(train(path("on"), {"--model_name_or_path", output().string(), "--learning_rate", "0"}));
  EXPECT_EQ(text_of(path("on")), text);

  json config = read_json(output() / "adapter_config.json");
  for (const bool is_there : {true, false}) {
    config["ensure_weight_tying"] = false;
    if (!is_there) config.erase("ensure_weight_tying");
    write_json_atomic(output() / "adapter_config.json", config);
    fs::remove(output() / "shoehorn_manifest.json");
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"generate", "--model_name_or_path", output().string(), "--prompt", "the"},
          train(path("again"), {"--model_name_or_path", output().string()})}) {
      expect_failure(words, 2,
                     {"adapter_config.json: ensure_weight_tying] expected true for 'embed_tokens'",
                      "let PEFT train with ensure_weight_tying=True"});
    }
  }
}

TEST_F(CliDecoderLora, TheVocabularyAndMergesBesideAnAdapterAreItsTokenizer) {
  expect_success(train_adapter());
  const std::string text = text_of(output());
  const json tokenizer = read_json(output() / "tokenizer.json")["model"];
  std::string merges;
  for (const json& pair : tokenizer["merges"])
    merges += pair[0].get<std::string>() + " " + pair[1].get<std::string>() + "\n";
  directory_.write("out/vocab.json", tokenizer["vocab"].dump());
  directory_.write("out/merges.txt", merges);
  directory_.write("out/tokenizer_config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
  for (const fs::path& of_before : {output() / "tokenizer.json", base() / "tokenizer.json"})
    fs::remove(of_before);
  for (const fs::path& directory : {output(), base()}) fs::remove(directory / "shoehorn_manifest.json");
  EXPECT_EQ(text_of(output()), text);
}

}  // namespace
}  // namespace shoehorn
