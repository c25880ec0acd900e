#include <gtest/gtest.h>

#include "io/test_directory.h"
#include "train/memory_forecast.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;

// Wide batches of a small model: activations are most of it.
constexpr BatchCapacity kWide = {2048, 64, 24};

SessionOptions training(const BatchCapacity& batch) {
  SessionOptions options;
  options.train = batch;
  return options;
}

SessionOptions evaluating(const BatchCapacity& batch) {
  SessionOptions options;
  options.kind = RunKind::kEvaluate;
  options.evaluation = batch;
  return options;
}

int64_t arenas_of(const Model& model, const SessionOptions& options) {
  return Session(model, options).plan().arena_bytes();
}

// What is found where the arenas may take `budget` bytes.
std::vector<Alternative> alternatives(const Model& model, const SessionOptions& options, int64_t budget,
                                      int64_t micro_batch_size) {
  Session session(model, options);
  MemoryForecast forecast = forecast_memory(session, std::nullopt);
  forecast.budget_bytes = forecast.process_overhead_bytes + budget;
  EXPECT_FALSE(forecast.fits());
  return find_alternatives(model, options, forecast, micro_batch_size);
}

bool any_has(const std::vector<Alternative>& found, const std::string& flag) {
  return std::any_of(found.begin(), found.end(),
                     [&](const Alternative& one) { return contains(one.flags, flag); });
}

TEST(MemoryForecastAlternatives, RecomputeOfFewerLayersBecomesThatOfAll) {
  BertConfig config = tiny_bert(0.1F);
  config.num_hidden_layers = 4;
  const BertForSequenceClassification model(config);
  SessionOptions options = training(kWide);
  options.step.recompute_every_n_layers = 1;
  const int64_t least = arenas_of(model, options);
  for (const int64_t layers : {int64_t{2}, kRootOfLayers}) {
    options.step.recompute_every_n_layers = layers;
    ASSERT_GT(arenas_of(model, options), least);
    const std::vector<Alternative> found = alternatives(model, options, least, 64);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].flags, "--gradient_checkpointing_kwargs every_n_layers=1") << layers;
  }
  options.step.recompute_every_n_layers = 1;
  const std::vector<Alternative> found = alternatives(model, options, least - 1, 64);
  EXPECT_FALSE(found.empty());
  EXPECT_FALSE(any_has(found, "gradient_checkpointing")) << "it is on already";
}

// A step in one program that holds more than 32 micro-batches' nodes is neither planned nor offered.
TEST(MemoryForecastAlternatives, LayerMajorHasALimit) {
  BertConfig config = tiny_bert();
  config.hidden_size = 192;
  config.intermediate_size = 768;
  const BertForSequenceClassification model(config);
  for (const int64_t steps : {32, 33}) {
    SessionOptions options = training({16, 1, 16});
    options.step.gradient_accumulation_steps = steps;
    options.step.recompute_every_n_layers = 1;
    SessionOptions unrolled = options;
    unrolled.step.accumulation_order = AccumulationOrder::kLayer;
    unrolled.step.max_grad_norm = 0;
    unrolled.step.update_in_backward = true;
    const int64_t least = arenas_of(model, unrolled);
    ASSERT_LT(least, arenas_of(model, options)) << "gradients are more than what all micro-batches save";
    EXPECT_EQ(any_has(alternatives(model, options, least, 1), "layer_major"), steps == 32) << steps;
  }
}

TEST(MemoryForecastAlternatives, OrderIsNamedOnce) {
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options = training({2048, 2, 24});
  options.step.gradient_accumulation_steps = 2;
  const int64_t whole = arenas_of(model, options);
  int64_t recomputed_in_backward = 0;
  for (const int64_t eighths : {3, 5}) {
    for (const Alternative& one : alternatives(model, options, whole * eighths / 8, 2)) {
      EXPECT_EQ(one.flags.find("--accumulation_order"), one.flags.rfind("--accumulation_order")) << one.flags;
      const bool both = contains(one.flags, "update_in_backward") && contains(one.flags, "checkpointing");
      recomputed_in_backward += both ? 1 : 0;
    }
  }
  EXPECT_GT(recomputed_in_backward, 0) << "what has both is among them";
}

TEST(MemoryForecastAlternatives, AnEvaluationIsMadeSmallerByItsOwnFlags) {
  const BertForSequenceClassification model(tiny_bert());
  const SessionOptions options = evaluating(kWide);
  const std::vector<Alternative> found = alternatives(model, options, arenas_of(model, options) * 3 / 5, 8);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].flags, "--per_device_eval_batch_size 32");
  EXPECT_FALSE(found[0].changes_numerics);
  for (const Alternative& one : found) {
    for (const char* flag : {"train", "gradient", "max_grad_norm", "update", "master_weights"})
      EXPECT_FALSE(contains(one.flags, flag));
  }
}

// Padded to more than the longest sequence, a batch of half the sequences takes half the tokens and not
// fewer.
TEST(MemoryForecastAlternatives, APaddedEvaluationStaysPadded) {
  const BertForSequenceClassification model(tiny_bert());
  const SessionOptions whole = evaluating({64 * 24, 64, 3});
  const SessionOptions half = evaluating({32 * 24, 32, 3});
  const int64_t enough = arenas_of(model, half);
  EXPECT_EQ(alternatives(model, whole, enough, 8)[0].flags, "--per_device_eval_batch_size 32");
  EXPECT_EQ(alternatives(model, whole, enough - 1, 8)[0].flags, "--per_device_eval_batch_size 16");
}

TEST(MemoryForecastAlternatives, TrainingBesideALargeEvaluation) {
  const BertForSequenceClassification model(tiny_bert());
  const SessionOptions without = training({64, 4, 16});
  SessionOptions options = without;
  options.evaluation = kWide;
  const int64_t all = arenas_of(model, options);
  const int64_t least = arenas_of(model, without);
  ASSERT_LT(2 * least, all) << "evaluation is what needs most";
  const std::vector<Alternative> found = alternatives(model, options, (all + least) / 2, 4);
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found[0].flags.starts_with("--per_device_eval_batch_size ")) << found[0].flags;
  EXPECT_FALSE(contains(found[0].flags, "train_batch"));
}

TEST(MemoryForecastAlternatives, TheDumpIsOfTheRunThatWasAskedFor) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options = training(kWide);
  Session session(model, options);
  MemoryForecast forecast = forecast_memory(session, std::nullopt);
  forecast.budget_bytes = forecast.process_bytes() - 1;
  const std::filesystem::path dump = directory.path() / "dump";
  options.step.dump_directory = dump.string();
  EXPECT_FALSE(find_alternatives(model, options, forecast, 64).empty());
  EXPECT_FALSE(std::filesystem::exists(dump));
}

}  // namespace
}  // namespace shoehorn
