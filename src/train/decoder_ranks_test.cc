// Decoders on several ranks, which are processes of one thread, against one rank with the same micro-batches: at each stage of
// sharing, with tied and untied heads, by optimizer and precision.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "models/llama.h"
#include "train/rank_runs_testing.h"

namespace shoehorn {
namespace {

using namespace testing;

using DecoderRanks = Ranks;

constexpr int64_t kVocabulary = 61;

CausalLanguageModel tiny_llama(bool is_tied, float dropout = 0.1F) {
  LlamaConfig config;
  config.vocab_size = kVocabulary;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.num_key_value_heads = 1;
  config.head_dim = 8;
  config.max_position_embeddings = 24;
  config.attention_dropout = dropout;
  config.initializer_range = 0.1F;
  config.tie_word_embeddings = is_tied;
  config.rotary = rotary_from_json(nlohmann::json::object(), {.head_size = 8, .max_positions = 24}, "llama");
  return CausalLanguageModel(make_decoder(config));
}

// Counted as those of tiny_bert(): a layer has two norms (24 each), sums for queries, keys and values (24), two products each
// that rotate them, scores (8), attention (24 tokens), its output (24), the gate and its product (24 and 1) and the
// feed-forward's output (40). Behind the layers are a norm (24), the logit (24) and the sum over the vocabulary.
constexpr double kLlamaRoundings = 2 * (2 * 24 + 24 + 2 + 8 + 24 + 24 + 24 + 1 + 40) + 24 + 24 + kVocabulary;
// Results and matrices of half precision: of a layer 2 norms, queries, keys, values, their rotations, attention, its output,
// gate, up, their product and the feed-forward's output; 7 matrices. Around the layers the table, a norm, the head and its result.
constexpr double kLlamaHalfRoundings = 2 * (13 + 7) + 4;
constexpr LogitRoundings kLlama = {kLlamaRoundings, kLlamaHalfRoundings};

// Texts of 2 to 20 tokens, so that micro-batches have other numbers of targets. Those that are silent have none.
Dataset tiny_texts(int64_t count, uint32_t seed,
                   const std::function<bool(int64_t text)>& is_silent_text = {}) {
  std::mt19937 random(seed);
  Dataset::Rows ids, labels;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t>& row = ids.emplace_back();
    const int64_t length = 2 + static_cast<int64_t>(random()) % 19;
    for (int64_t t = 0; t < length; ++t)
      row.push_back(t % 3 == 2 ? row.back() : static_cast<int64_t>(random()) % kVocabulary);
    const bool has_targets = !is_silent_text || !is_silent_text(i);
    labels.push_back(has_targets ? row : std::vector<int64_t>(row.size(), -100));
  }
  return Dataset::next_token(Dataset::from_columns({{"input_ids", ids}, {"labels", labels}}));
}

// AdamW divides a gradient's mean by the root of its mean square plus epsilon: an error of the gradient moves the step by at most
// twice itself ÷ epsilon. With this epsilon that is no more than what SGD makes of it at the rate of rank_arguments().
void use_adamw(TrainingArguments& args) {
  const double rate_of_sgd = args.learning_rate;
  args.optim = "adamw_torch";
  args.learning_rate = 1e-3;
  args.adam_epsilon = 2 * args.learning_rate / rate_of_sgd;
}

const std::vector<Form>& forms() {
  static const std::vector<Form> all = {
      {"sgd", [](TrainingArguments&) {}},
      {"adamw", use_adamw},
      {"adamw, accumulated",
       [](TrainingArguments& args) {
         use_adamw(args);
         args.gradient_accumulation_steps = 2;
       }},
      {"adamw, layer-major",
       [](TrainingArguments& args) {
         use_adamw(args);
         args.gradient_accumulation_steps = 2;
         args.accumulation_order = "layer_major";
       }},
      {"adamw, fp16",
       [](TrainingArguments& args) {
         use_adamw(args);
         args.fp16 = true;
         args.initial_scale_power = 24;  // the first steps overflow
       },
       DType::kF16},
      {"adamw, bf16",
       [](TrainingArguments& args) {
         use_adamw(args);
         args.bf16 = true;
       },
       DType::kBF16},
      {"adamw, adapters",
       [](TrainingArguments& args) {
         use_adamw(args);
         args.lora_rank = 2;
         args.lora_dropout = 0.1;
       }},
  };
  return all;
}

// 28 texts are 7 micro-batches an epoch, so that the last window has fewer than there are ranks, or one that is short.
void expect_as_one_rank(const Model& model, const Form& form, int32_t size) {
  const Dataset texts = tiny_texts(28, 5);
  TrainingArguments args = rank_arguments();
  args.zero_persistence_threshold = 0;
  form.set(args);
  const RankRun one = train_model_on(model, 1, on_one_rank(args, size), texts)[0];
  if (args.fp16) {
    EXPECT_FALSE(std::isfinite(one.norms[0])) << "a step is skipped";
    EXPECT_TRUE(std::isfinite(one.norms.back()));
  }
  for (const int64_t stage : {0, 1, 2, 3}) {
    args.zero_stage = stage;
    const std::string what = fmt::format("{}, stage {} on {} ranks", form.name, stage, size);
    const std::vector<RankRun> many = train_model_on(model, size, args, texts);
    expect_alike(one, many[0], what, form.dtype, kLlama);
    for (const RankRun& run : many) {
      expect_same_weights(many[0].weights, run.weights, what);
      EXPECT_EQ(run.losses, many[0].losses) << what;
      EXPECT_EQ(run.measured_bytes, run.planned_bytes) << what;
    }
  }
}

TEST_F(DecoderRanks, DivideByTheTargetsOfAllWhereOneHasNone) {
  for (const int64_t accumulated : {1, 2}) {
    const TrainingArguments args = silent_arguments(accumulated);
    const auto texts = [&](int64_t windows) {
      return tiny_texts(samples_of_windows(args, windows), 5,
                        [&](int64_t text) { return is_silent(args, text); });
    };
    expect_divides_by_all_targets(tiny_llama(true, 0), args, texts(3), texts(1), kLlama);
  }
}

TEST_F(DecoderRanks, OfATiedHeadTrainAsOneRankDoes) {
  const CausalLanguageModel model = tiny_llama(true);
  for (const Form& form : forms()) expect_as_one_rank(model, form, 2);
}

// Three ranks cut the sizes unevenly.
TEST_F(DecoderRanks, OfAnUntiedHeadTrainAsOneRankDoes) {
  const CausalLanguageModel model = tiny_llama(false);
  for (const Form& form : forms()) expect_as_one_rank(model, form, 3);
}

}  // namespace
}  // namespace shoehorn
