#include "analysis/pass_explanation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

constexpr MachineLimits kRoundRates = {1e11, 1e11, 1e10};

SessionOptions options_skipping(const std::set<std::string>& skipped = {}) {
  SessionOptions options;
  options.train = {64, 8, 24};
  options.step.skip_passes = skipped;
  return options;
}

std::vector<PassEffect> effects_of(const SessionOptions& options, int64_t layers = 2,
                                   const MachineLimits& limits = kRoundRates) {
  BertConfig config = tiny_bert();
  config.num_hidden_layers = layers;
  return explain_passes(BertForSequenceClassification(config), options, limits);
}

const PassEffect& effect_of(const std::vector<PassEffect>& effects, std::string_view name) {
  const auto found = std::find_if(effects.begin(), effects.end(),
                                  [&](const PassEffect& effect) { return effect.name == name; });
  EXPECT_NE(found, effects.end()) << name;
  return *found;
}

TEST(ExplainPasses, EveryPassThatCanBeSkippedIsThereInItsOrder) {
  std::vector<std::string> expected, names;
  for (const Pass& pass : pass_list()) {
    if (pass.can_skip) expected.push_back(pass.name);
  }
  for (const PassEffect& effect : effects_of(options_skipping())) names.push_back(effect.name);
  EXPECT_EQ(names, expected);
}

TEST(ExplainPasses, FusionsSaveNodesBytesAndTime) {
  const auto effects = effects_of(options_skipping());
  for (const char* name : {"fuse_attention", "fuse_residual_norm", "fuse_bias_activation", "fuse_bias"}) {
    const PassEffect& effect = effect_of(effects, name);
    EXPECT_TRUE(effect.does_something()) << name;
    EXPECT_LT(effect.with.nodes, effect.without.nodes) << name;
    EXPECT_LT(effect.with.bytes, effect.without.bytes) << name;
    EXPECT_LT(effect.with.seconds, effect.without.seconds) << name;
  }
  EXPECT_FALSE(effect_of(effects, "recompute").does_something());
  EXPECT_FALSE(effect_of(effects, "mixed_precision").does_something());
}

TEST(ExplainPasses, WithoutIsTheStepThatSkipsIt) {
  const auto all = effects_of(options_skipping());
  const auto skipping = effects_of(options_skipping({"fuse_attention"}));
  EXPECT_EQ(effect_of(skipping, "fuse_attention").with, effect_of(all, "fuse_attention").without);
  EXPECT_TRUE(effect_of(skipping, "fuse_attention").is_skipped);
  EXPECT_TRUE(effect_of(effects_of(options_skipping({"fuse"})), "fuse_bias").is_skipped);
}

// Where bytes cost nothing, bf16 saves time by its products alone, and only where these are faster.
TEST(ExplainPasses, TimesAreAtTheRateOfTheOperands) {
  constexpr MachineLimits kNative = {1e11, 4e11, 1e30};
  constexpr MachineLimits kAlike = {1e11, 1e11, 1e30};
  SessionOptions options = options_skipping();
  const auto seconds = [&](const MachineLimits& limits) {
    return effect_of(effects_of(options, 2, limits), "mixed_precision").with.seconds;
  };
  EXPECT_EQ(seconds(kNative), seconds(kAlike)) << "a step in fp32 has no bf16 product";
  options.step.precision = Precision::kBfloat16;
  EXPECT_LT(seconds(kNative), seconds(kAlike));
  const auto effects = effects_of(options, 2, kNative);
  const PassEffect& bf16 = effect_of(effects, "mixed_precision");
  EXPECT_LT(bf16.with.seconds, bf16.without.seconds);
}

TEST(ExplainPasses, RecomputePaysFlopsForMemory) {
  SessionOptions options = options_skipping();
  options.train = {4096, 64, 64};
  options.step.recompute_every_n_layers = 1;
  const auto effects = effects_of(options, 6);
  const PassEffect& recompute = effect_of(effects, "recompute");
  EXPECT_GT(recompute.with.flops, recompute.without.flops);
  EXPECT_LT(recompute.with.arena_bytes, recompute.without.arena_bytes);
  const nlohmann::json json = to_json(effects);
  EXPECT_EQ(json["recompute"]["exactness"], "exact");
  EXPECT_EQ(json["recompute"]["with"]["arena_bytes"], recompute.with.arena_bytes);
}

}  // namespace
}  // namespace shoehorn
