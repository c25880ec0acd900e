// Weights go from their files into their place, and back, in pieces: a process that loads a model takes the model's bytes and
// 64 MiB, whatever the files are, and saving takes nothing more than the run did.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"
#include "io/safetensors_writer.h"
#include "nested_cgroups.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

constexpr int64_t kLlamaVocabulary = 32768;
constexpr int64_t kLlamaHidden = 768;
// Of a process that loads a model, beside the model.
constexpr int64_t kBeside = 64 * kMebibyte;

// A Llama of one layer. The table and the head, 96 MiB each in float32, are more than what a process may take beside the
// model: one copy of either shows.
std::vector<TensorSpec> llama_tensors(DType dtype) {
  const auto tensor = [&](const std::string& name, std::vector<int64_t> shape) {
    return TensorSpec{name, dtype, std::move(shape)};
  };
  const std::string layer = "model.layers.0.";
  std::vector<TensorSpec> tensors = {tensor("model.embed_tokens.weight", {kLlamaVocabulary, kLlamaHidden}),
                                     tensor("model.norm.weight", {kLlamaHidden}),
                                     tensor("lm_head.weight", {kLlamaVocabulary, kLlamaHidden})};
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
    tensors.push_back(tensor(layer + norm + ".weight", {kLlamaHidden}));
  for (const char* linear : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    tensors.push_back(tensor(layer + linear + ".weight", {kLlamaHidden, kLlamaHidden}));
  return tensors;
}

int64_t parameters() {
  int64_t total = 0;
  for (const TensorSpec& tensor : llama_tensors(DType::kF32)) total += tensor_bytes(tensor) / 4;
  return total;
}

// Small numbers of both signs in any float type: an exponent, and other bits that differ.
void fill(DType dtype, int64_t offset, std::span<std::byte> chunk) {
  const auto mixed = [&](size_t at) {
    return static_cast<uint32_t>((static_cast<uint64_t>(offset) + at) * 2654435761U >> 3);
  };
  if (dtype == DType::kF32) {
    for (size_t at = 0; at < chunk.size(); at += 4) {
      const uint32_t bits = 0x3C000000U | (mixed(at) & 0x807FFFFFU);
      std::memcpy(chunk.data() + at, &bits, 4);
    }
    return;
  }
  const uint32_t exponent = dtype == DType::kBF16 ? 0x3C00U : 0x2000U;
  const uint32_t others = dtype == DType::kBF16 ? 0x807FU : 0x83FFU;
  for (size_t at = 0; at < chunk.size(); at += 2) {
    const auto bits = static_cast<uint16_t>(exponent | (mixed(at) & others));
    std::memcpy(chunk.data() + at, &bits, 2);
  }
}

class CliLoadingMemory : public CliTest {
 protected:
  CliLoadingMemory() { directory_.write("texts.txt", "the cat sat on the mat and looked at a dog\n"); }

  std::string llama() const { return path("llama").string(); }

  void write_llama(DType dtype, int64_t max_shard_bytes) const {
    std::filesystem::create_directory(llama());
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy_file(golden("language_small") / name, path("llama") / name);
    const json config = {{"architectures", {"LlamaForCausalLM"}},
                         {"model_type", "llama"},
                         {"vocab_size", kLlamaVocabulary},
                         {"hidden_size", kLlamaHidden},
                         {"intermediate_size", kLlamaHidden},
                         {"num_hidden_layers", 1},
                         {"num_attention_heads", 12},
                         {"max_position_embeddings", 64},
                         {"tie_word_embeddings", false}};
    directory_.write("llama/config.json", config.dump());
    SafetensorsModelWriter writer(llama(), llama_tensors(dtype), max_shard_bytes);
    std::vector<std::byte> staging(size_t{1} << 18);
    for (const TensorSpec& tensor : writer.order()) {
      writer.append_filled(tensor.name, staging,
                           [&](int64_t offset, std::span<std::byte> chunk) { fill(dtype, offset, chunk); });
    }
    writer.commit();
  }

  std::vector<std::string> eval_words(const std::string& model,
                                      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"eval",
                                      "--model_name_or_path",
                                      model,
                                      "--validation_file",
                                      path("texts.txt").string(),
                                      "--block_size",
                                      "8",
                                      "--per_device_eval_batch_size",
                                      "1",
                                      "--output_dir",
                                      path("evaluated").string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // `width` bytes a parameter in memory.
  void expect_loads(const std::string& model, int64_t width, const std::vector<std::string>& more = {},
                    const ProgramLimits& limits = {}) const {
    const ProgramRun evaluated = run(eval_words(model, more), limits);
    ASSERT_EQ(evaluated.exit_code, 0) << evaluated.error;
    expect_peak_below(evaluated, parameters() * width + kBeside, model);
  }
};

struct Stored {
  const char* name;
  DType dtype;
  int64_t max_shard_bytes;
};

class CliLoadsStored : public CliLoadingMemory, public testing::WithParamInterface<Stored> {};

TEST_P(CliLoadsStored, TakesTheModelsBytesAndSixtyFourMebibytes) {
  write_llama(GetParam().dtype, GetParam().max_shard_bytes);
  expect_loads(llama(), 4);
  expect_loads(llama(), 2, {"--bf16_full_eval"});
}

INSTANTIATE_TEST_SUITE_P(Files, CliLoadsStored,
                         testing::Values(Stored{"float32", DType::kF32, kDefaultMaxShardBytes},
                                         Stored{"float32_shards", DType::kF32, 40 * kMebibyte},
                                         Stored{"bfloat16", DType::kBF16, kDefaultMaxShardBytes},
                                         Stored{"float16_shards", DType::kF16, 40 * kMebibyte}),
                         [](const auto& info) { return info.param.name; });

// The pages of files that the kernel keeps count in a cgroup, and it drops them: no page is mapped.
TEST_F(CliLoadingMemory, InACgroupOfThatSize) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  NestedCgroups groups;
  if (const std::string why = groups.make_version1(); !why.empty()) GTEST_SKIP() << why;
  write_llama(DType::kF32, 40 * kMebibyte);
  ASSERT_TRUE(groups.set_limit(parameters() * 4 + kBeside));
  expect_loads(llama(), 4, {}, {.cgroup = groups.inner()});
}

// Saved by a run that is larger than its weights by little: what it took is what was planned, and its checksums are
// verified in the same pieces.
TEST_F(CliLoadingMemory, SavingTakesNothingMore) {
  write_llama(DType::kBF16, kDefaultMaxShardBytes);
  const ProgramRun trained = run({"train",
                                  "--model_name_or_path",
                                  llama(),
                                  "--train_file",
                                  path("texts.txt").string(),
                                  "--block_size",
                                  "8",
                                  "--per_device_train_batch_size",
                                  "1",
                                  "--max_steps",
                                  "1",
                                  "--validation_split_percentage",
                                  "0",
                                  "--bf16",
                                  "--master_weights",
                                  "none",
                                  "--optim",
                                  "sgd",
                                  "--update_in_backward",
                                  "--max_grad_norm",
                                  "0",
                                  "--save_strategy",
                                  "no",
                                  "--output_dir",
                                  output().string()});
  ASSERT_EQ(trained.exit_code, 0) << trained.error;
  const json results = read_json(output() / "all_results.json");
  // A piece, and the pages of code that writes.
  expect_peak_below(trained, results["memory_process_predicted_bytes"].get<int64_t>() + 4 * kMebibyte);
  ASSERT_TRUE(std::filesystem::exists(output() / "shoehorn_manifest.json"));
  expect_loads(output().string(), 4);
}

}  // namespace
}  // namespace shoehorn
