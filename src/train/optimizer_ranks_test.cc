// Each family of optimizers on several ranks, which are processes of one thread, against one rank with the same micro-batches:
// where each rank has all of it, and where each has a part of states, gradients and weights.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "train/rank_runs_testing.h"

namespace shoehorn {
namespace {

using namespace test_support;

using OptimizerRanks = Ranks;

constexpr double kLionRate = 1e-4;

struct OptimizerFamily {
  std::string name;
  std::function<void(TrainingArguments&)> set;
  // How far what is rounded to one of two neighbours, a sign or a code of 8 bits, may move a weight in a run. 0: nothing is.
  double leap = 0;
};

// What keeps no gradients needs them.
void use_updates_in_backward(TrainingArguments& args) {
  args.accumulation_order = "layer_major";
  args.max_grad_norm = 0;
}

// Of those whose epsilon no argument of its own says.
void use_with_epsilon(TrainingArguments& args, const std::string& optimizer) {
  args.optim_args = {{"eps", use_optimizer_with_epsilon(args, optimizer)}};
}

// An error of a gradient moves weights by no more than SGD does at the rate of rank_arguments(), but where a leap is said.
const std::vector<OptimizerFamily>& optimizer_families() {
  constexpr double kCodesOfADecade = 64;  // of moments between a tenth of a block's largest and that
  static const std::vector<OptimizerFamily> all = {
      {"AdamW", use_adamw},
      // Momentum adds up 1 / (1 - 0.9) gradients.
      {"SGD with momentum",
       [](TrainingArguments& args) {
         args.optim_args = {{"momentum", 0.9}};
         args.learning_rate /= 10;
       }},
      {"Adafactor",
       [](TrainingArguments& args) {
         args.optim = "adafactor";
         args.learning_rate = 1e-3;
       }},
      // SGD that updates in the backward and keeps no gradients.
      {"LOMO",
       [](TrainingArguments& args) {
         args.optim = "lomo";
         use_updates_in_backward(args);
       }},
      {"AdaLOMO",
       [](TrainingArguments& args) {
         args.optim = "adalomo";
         args.learning_rate = 1e-3;
         use_updates_in_backward(args);
       }},
      // A step is the sign of an average, whatever its size.
      {"Lion",
       [](TrainingArguments& args) {
         args.optim = "lion_32bit";
         args.learning_rate = kLionRate;
       },
       2 * kLionRate * kRankSteps},
      {"8-bit Lion",
       [](TrainingArguments& args) {
         args.optim = "lion_8bit";
         args.learning_rate = kLionRate;
         args.optim_args = {{"min_8bit_size", 500.0}, {"embedding_bits", 8.0}};
       },
       2 * kLionRate * kRankSteps},
      // These divide a gradient by a root of squares plus epsilon, as AdamW does.
      {"Adagrad", [](TrainingArguments& args) { use_with_epsilon(args, "adagrad"); }},
      {"RMSprop", [](TrainingArguments& args) { use_with_epsilon(args, "rmsprop"); }},
      // A step is at most half of that rate times a moment, which is no more than the norm of the gradient, clipped to 1.
      {"8-bit AdamW",
       [](TrainingArguments& args) {
         use_adamw(args);
         args.optim = "adamw_bnb_8bit";
         args.optim_args = {{"min_8bit_size", 500.0}, {"embedding_bits", 8.0}};
       },
       rank_arguments().learning_rate / 2 / kCodesOfADecade * kRankSteps},
  };
  return all;
}

// But for the keys' bias, whose gradient is zero but for rounding, of which some families make whole steps; and for one weight
// in a hundred, which may leap.
void expect_weights_alike(const RankRun& one, const RankRun& many, const OptimizerFamily& family,
                          const std::string& what) {
  const double rounding = bound(one.losses.size(), 1, DType::kF32);
  size_t weights = 0, leaps = 0;
  for (const auto& [name, values] : one.weights) {
    if (name.ends_with("key.bias")) continue;
    const std::vector<float>& others = many.weights.at(name);
    for (size_t i = 0; i < values.size(); ++i) {
      const double off = std::abs(static_cast<double>(values[i]) - others[i]);
      ASSERT_LE(off, rounding + family.leap) << what << ", " << name << "[" << i << "]";
      leaps += off > rounding ? 1 : 0;
    }
    weights += values.size();
  }
  EXPECT_LE(leaps, weights / 100) << what;
}

// 28 samples are 7 micro-batches an epoch, so that in an epoch's last window two of three ranks have none.
TEST_F(OptimizerRanks, TrainAsOneRankDoes) {
  const Dataset samples = tiny_samples(28, 5);
  for (const OptimizerFamily& family : optimizer_families()) {
    TrainingArguments args = rank_arguments();
    args.zero_persistence_threshold = 0;
    family.set(args);
    const RankRun one = train_on(1, on_one_rank(args, 3), samples)[0];
    for (const int64_t stage : {0, 3}) {
      args.zero_stage = stage;
      const std::string what = fmt::format("{}, stage {}", family.name, stage);
      const RankRun many = train_on(3, args, samples)[0];
      expect_weights_alike(one, many, family, what);
      RankRun without_weights = one;
      without_weights.weights.clear();
      expect_alike(without_weights, many, what, DType::kF32);
    }
  }
}

}  // namespace
}  // namespace shoehorn
