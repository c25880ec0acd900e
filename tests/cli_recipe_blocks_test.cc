// The commands of examples/recipes/README.md.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace test_support;
using nlohmann::json;

// The blocks of the recipes' README that need no download, as they stand there. `shoehorn` adds to them what makes them small: of a flag
// that comes twice the last value counts, and so of a key of --config_overrides.
class CliRecipeBlocks : public CliTest {
 protected:
  CliRecipeBlocks() {
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += i % 3 == 0 ? "the cat sat on the mat\n" : "a dog ran to the park, and back\n";
    for (const char* name : {"train.txt", "validation.txt", "corpus.txt", "shakespeare/input.txt"})
      directory_.write(name, lines);
    std::string rows;
    for (int i = 0; i < 30; ++i)
      rows += fmt::format("{{\"text\": \"the cat ran to the park\", \"id\": {}}}\n", i);
    directory_.write("texts.jsonl", rows);
  }

  ProgramRun run_block(const std::string& section, const std::string& small_model,
                       const std::string& train_flags = "") const {
    directory_.write("bin/shoehorn", R"(#!/bin/sh
last=
for word; do
  shift
  [ "$last" != --config_overrides ] || word=$word,)" +
                                         small_model + R"(
  set -- "$@" "$word"
  last=$word
done
case $1 in
  tokenizer) set -- "$@" --vocab_size 280 ;;
  train) set -- "$@" --block_size 16 --max_steps 2 )" +
                                         train_flags + R"( ;;
esac
exec )" SHOEHORN_PROGRAM R"( "$@"
)");
    std::filesystem::permissions(path("bin/shoehorn"), std::filesystem::perms::owner_all);
    std::filesystem::create_directory_symlink(SHOEHORN_SOURCE_DIR "/examples", path("examples"));
    directory_.write("block.sh", fmt::format("cd '{0}'\nPATH='{0}/bin':$PATH\n{1}",
                                             directory_.path().string(), block_of(section)));
    ProgramRun result =
        StartedProgram({"-e", path("block.sh").string()}, directory_.path(), {}, "/bin/sh").wait();
    EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
    return result;
  }

 private:
  // The section's only block with a fence.
  static std::string block_of(const std::string& section) {
    const std::string text = read_text_file(SHOEHORN_SOURCE_DIR "/examples/recipes/README.md");
    const std::string fence = "```sh\n";
    const size_t heading = text.find("\n## " + section + "\n");
    const size_t begin = text.find(fence, heading);
    EXPECT_LT(begin, text.find("\n## ", heading + 1)) << section;
    return text.substr(begin + fence.size(), text.find("```", begin + 1) - begin - fence.size());
  }
};

TEST_F(CliRecipeBlocks, Gpt2) {
  const ProgramRun result =
      run_block("GPT-2 on WikiText-2", "n_layer=2,n_head=2,n_embd=32,n_positions=32,vocab_size=280");
  EXPECT_TRUE(contains(result.output, "\nThe"));
  const json config = read_json(path("gpt2-finetuned/config.json"));
  EXPECT_EQ(config["architectures"][0], "GPT2LMHeadModel");
  EXPECT_EQ(config["eos_token_id"], 0) << "as the block says";
  EXPECT_EQ(config["n_layer"], 2);
  EXPECT_TRUE(read_json(path("gpt2-finetuned/eval_results.json")).contains("eval_perplexity"));
}

TEST_F(CliRecipeBlocks, LlamaLora) {
  const ProgramRun result = run_block("LoRA on a model of Llama's kind",
                                      "hidden_size=32,intermediate_size=64,num_hidden_layers=2,"
                                      "num_attention_heads=4,max_position_embeddings=32,vocab_size=280");
  EXPECT_TRUE(contains(result.output, "\nThe"));
  EXPECT_EQ(read_json(path("small-llama/config.json"))["num_key_value_heads"], 2) << "as the block says";
  const json adapter = read_json(path("llama-lora/adapter_config.json"));
  EXPECT_EQ(adapter["r"], 16);
  EXPECT_TRUE(std::filesystem::equivalent(adapter["base_model_name_or_path"].get<std::string>(),
                                          path("small-llama")));
}

TEST_F(CliRecipeBlocks, GptShakespeare) {
  const ProgramRun result = run_block(
      "A GPT of one's own", "",
      "--config_overrides n_layer=2,n_head=2,n_embd=32,n_positions=32,vocab_size=280,eos_token_id=0 "
      "--eval_steps 1 --save_steps 1 --per_device_train_batch_size 4");
  EXPECT_TRUE(contains(result.output, "\nROMEO:"));
  EXPECT_TRUE(std::filesystem::exists(path("shakespeare/model/model.safetensors")));
}

}  // namespace
}  // namespace shoehorn
