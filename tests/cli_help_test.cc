// What the program says of itself, and of flags and names that people bring from other trainers.
#include <nlohmann/json.hpp>
#include <regex>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

class CliHelp : public CliTest {
 protected:
  std::string output_of(const std::vector<std::string>& words) const {
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return result.output;
  }
};

TEST_F(CliHelp, Layers) {
  const std::string first = output_of({"train", "--help"});
  EXPECT_TRUE(contains(first, "shoehorn train --model_name_or_path DIR"));
  EXPECT_TRUE(contains(first, "\n  --learning_rate X "));
  EXPECT_FALSE(contains(first, "--adam_beta2"));
  EXPECT_TRUE(contains(first, "shoehorn train --help all shows "));
  EXPECT_FALSE(contains(first, "\x1b")) << "bold text is for terminals";
  const std::string all = output_of({"train", "--help", "all"});
  EXPECT_TRUE(contains(all, "--adam_beta2"));
  EXPECT_GT(all.size(), 3 * first.size());
  EXPECT_TRUE(contains(output_of({"train", "--help", "galore"}), "--optim "));
  EXPECT_EQ(output_of({"train", "--help=all"}), all);
  EXPECT_EQ(output_of({"help", "train", "all"}), all);
  EXPECT_EQ(output_of({"help", "train"}), first);
  EXPECT_EQ(output_of({"--help", "train"}), first);
  EXPECT_EQ(output_of({"help", "bench", "step"}), output_of({"bench", "step", "-h"}));
  EXPECT_EQ(output_of({"help", "bench"}), output_of({"bench", "--help"}));
  EXPECT_EQ(output_of({"help"}), output_of({"--help"}));
  expect_failure({"help", "trian"}, 2, {"[shoehorn]", "did you mean train?"});
  EXPECT_TRUE(contains(output_of({"bench", "ladder", "--help"}), "bert-large"));
}

TEST_F(CliHelp, CommandsShowTheirOwnFlagsOnly) {
  const std::string eval = output_of({"eval", "--help"});
  for (const char* name :
       {"--torch_compile ", "--full_determinism", "--use_cpu", "--learning_rate", "--save_steps"})
    EXPECT_FALSE(contains(eval, name)) << name;
  EXPECT_TRUE(contains(eval, "--validation_file"));
  EXPECT_TRUE(contains(output_of({"eval", "--help", "all"}), "--full_determinism"));
}

TEST_F(CliHelp, Version) {
  const std::string text = output_of({"--version"});
  const json version = parse_json(output_of({"--version", "--json"}), "version");
  for (const char* name : {"version", "commit", "compiler"}) {
    const std::string value = version[name];
    EXPECT_FALSE(value.empty()) << name;
    EXPECT_TRUE(contains(text, value)) << name;
  }
  for (const auto& [name, value] : version["libraries"].items()) {
    EXPECT_TRUE(std::regex_search(value.get<std::string>(), std::regex("[0-9]"))) << name;
    EXPECT_TRUE(contains(text, name));
  }
  EXPECT_TRUE(version["libraries"].contains("oneDNN"));
  expect_failure({"--version", "--yaml"}, 2, {"[--version]", "'--yaml'"});
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"version"}, {"-V"}, {"-v"}, {"train", "--version"}, {"bench", "step", "--version"}})
    EXPECT_EQ(output_of(words), text) << words[0];
}

TEST_F(CliHelp, FlagsOfOtherTrainersNameTheWay) {
  struct Case {
    std::vector<std::string> words;
    std::string said;
  };
  const std::vector<Case> cases = {
      {{"--load_in_4bit"}, "not in this version yet: base models are not quantized; --lora_rank"},
      {{"--load_in_8bit", "true"}, "--optim adamw_8bit"},
      {{"--torch_dtype", "auto"}, "give float32 or bfloat16 for what is saved"},
      {{"--dtype=float16"}, "--fp16 computes in it"},
      {{"--attn_implementation", "eager"}, "--skip_pass fuse"},
      {{"--fsdp", "full_shard offload"}, "states and weights stay in the rank's memory"},
      {{"--fsdp_transformer_layer_cls_to_wrap", "BertLayer"},
       "got one of Accelerate; give --fsdp full_shard"},
      {{"--use_deepspeed"}, "got one of Accelerate; give --deepspeed"},
      {{"--fsdp_of_the_future", "1"},
       "expected a known flag, got 'fsdp_of_the_future'; give --fsdp full_shard"},
      {{"--device_map", "auto"}, "the one device"},
      {{"--use_unsloth"}, "our own"},
      {{"--max_epochs", "3"}, "expected a flag of Shoehorn, got one of Lightning; give --num_train_epochs"},
      {{"--gradient_clip_val", "1.0"}, "--max_grad_norm"},
      {{"--zero3_of_the_future", "3"},
       "ranks share states, gradients and weights by --zero_stage or --deepspeed"},
      {{"--optimizer_in_bwd"}, "got one of torchtune; give --update_in_backward"},
      {{"--val_set_size", "0.1"}, "axolotl; give --validation_split_percentage"},
      {{"--optim", "galore_adamw"}, "adafactor and adamw_8bit have small states"},
      {{"--optim", "schedule_free_adamw"}, "constant_with_warmup"},
      {{"--lr", "1e-3"}, "give --learning_rate"},
  };
  for (const Case& one : cases)
    expect_failure(train_words(one.words), 2,
                   {"[" + one.words[0].substr(0, one.words[0].find('=')) + "]", one.said});
  // What asks for nothing passes, and so does what means the same here.
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--no_load_in_4bit"},
                                                {"--torch_dtype", "float32"},
                                                {"--dtype", "bfloat16"},
                                                {"--attn_implementation", "sdpa"},
                                                {"--target_modules", "query", "value", "--lora_rank", "2"},
                                                {"--cutoff_len", "16"},
                                                {"--optim", "lomo", "--max_grad_norm", "0"},
                                                {"--optim", "adamw_apex_fused"},
                                                {"--optim", "rmsprop"},
                                                {"--use_unsloth", "false"},
                                                {"--num_processes", "1"}}) {
    std::vector<std::string> plan = train_words(words);
    plan[0] = "plan";
    EXPECT_EQ(run(plan).exit_code, 0) << words[0];
  }
}

TEST_F(CliHelp, NamesOfTheHubSayHowToFetchThem) {
  for (const char* command : {"train", "plan"}) {
    std::vector<std::string> words = train_words({"--model_name_or_path", "google-bert/bert-base-uncased"});
    words[0] = command;
    expect_failure(
        words, 2,
        {"not downloaded", "hf download google-bert/bert-base-uncased --local-dir bert-base-uncased",
         "git lfs", "give bert-base-uncased"});
  }
  const ProgramRun absent =
      expect_failure(train_words({"--model_name_or_path", path("absent")}), 2, {"absent"});
  EXPECT_FALSE(contains(absent.error, "hf download")) << "a path is no name of the hub";
  expect_failure({"train", "--model_name_or_path", model(), "--task_name", "mrpc"}, 2,
                 {"[--train_file]", "GLUE is not downloaded", "load_dataset('nyu-mll/glue', 'mrpc')",
                  "--validation_file mrpc_validation.csv"});
  expect_failure({"train", "--model_name_or_path", model(), "--task_name", "mnli"}, 2,
                 {"mnli_validation_matched.csv"});
}

// "1 threads" reads as if nobody had looked.
TEST_F(CliHelp, OneIsSingular) {
  directory_.write("one.csv", "text,label\nglea stat,up\nhust,down\n");
  std::vector<std::string> common = {"--model_name_or_path", model(),        "--train_file", path("one.csv"),
                                     "--validation_file",    path("one.csv")};
  const auto with = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), common.begin(), common.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<std::vector<std::string>> commands = {
      with({"train"}, {"--max_train_samples", "2", "--max_eval_samples", "1", "--max_steps", "1", "--profile",
                       "1", "--gradient_accumulation_steps", "2", "--output_dir", output()}),
      with({"plan"}, {"--max_train_samples", "2", "--max_eval_samples", "1"}),
      {"bench", "step", "--model", "bert-mini", "--max_seq_length", "8", "--max_steps", "1", "--no_limits"}};
  // A number 1 with a noun in the plural behind it; not 0.1, 11 or "1 is".
  const std::regex plural(
      R"((^|[^0-9.,:/])1 (thread|block|sample|step|token|class|text|parameter|layer|epoch|batch|file|seed|time|value|prediction|checkpoint|setting|process)e?s\b)");
  for (const std::vector<std::string>& words : commands) {
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    std::smatch found;
    const std::string all = result.output + result.error;
    EXPECT_FALSE(std::regex_search(all, found, plural)) << words[0] << ": " << found.str();
  }
}

}  // namespace
}  // namespace shoehorn
