// Decoders on several ranks, which are processes of one thread, against one rank with the same micro-batches: at each stage of
// sharing, with tied and untied heads, by optimizer and precision.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "train/rank_runs_testing.h"
#include "train/tiny_decoder_testing.h"

namespace shoehorn {
namespace {

using namespace test_support;

using DecoderRanks = Ranks;

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
    expect_alike(one, many[0], what, form.dtype, kTinyLlama);
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
    expect_divides_by_all_targets(CausalLanguageModel(tiny_llama(true, 0)), args, texts(3), texts(1),
                                  kTinyLlama);
  }
}

TEST_F(DecoderRanks, OfATiedHeadTrainAsOneRankDoes) {
  const CausalLanguageModel model(tiny_llama(true));
  for (const Form& form : forms()) expect_as_one_rank(model, form, 2);
}

// Three ranks cut the sizes unevenly.
TEST_F(DecoderRanks, OfAnUntiedHeadTrainAsOneRankDoes) {
  const CausalLanguageModel model(tiny_llama(false));
  for (const Form& form : forms()) expect_as_one_rank(model, form, 3);
}

}  // namespace
}  // namespace shoehorn
