// Training of bf16 weights without masters: it follows the run with masters, also where a step is far smaller
// than what bf16 can show, and what it writes is bf16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/safetensors.h"
#include "io/test_directory.h"
#include "session/precision_report.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

TrainingArguments bf16_arguments(const std::string& masters) {
  TrainingArguments args = quiet_arguments(4);
  args.bf16 = true;
  args.master_weights = masters;
  args.max_steps = 40;
  return args;
}

std::vector<double> losses_of(const TrainingArguments& args) {
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, args, tiny_samples(28, 3));
  trainer.train();
  return logged(trainer.state(), "loss");
}

// An optimizer, and a learning rate at which 40 steps learn something.
class WithoutMasters : public testing::TestWithParam<std::pair<const char*, double>> {};

// The largest difference between two curves.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// The same samples in the same order. How far bf16 moves a curve is measured on the run with masters, from fp32's. The
// one without may be as far to the other side, and has weights that were rounded stochastically.
TEST_P(WithoutMasters, FollowsTheCurveWithMasters) {
  const auto with = [](const std::string& masters, bool bf16 = true) {
    TrainingArguments args = bf16_arguments(masters);
    args.bf16 = bf16;
    args.optim = GetParam().first;
    args.learning_rate = GetParam().second;
    if (args.optim.ends_with("8bit")) args.optim_args["min_8bit_size"] = int64_t{64};
    return losses_of(args);
  };
  const std::vector<double> a = with("none");
  const std::vector<double> b = with("fp32");
  const double of_bf16 = largest_difference(b, with("fp32", false));
  std::printf("  %s: at most %.4f apart (with masters from fp32: %.4f), from %.4f to %.4f\n",
              GetParam().first, largest_difference(a, b), of_bf16, a.front(), a.back());
  EXPECT_NE(a, b);
  // On the way to a loss are 11 matrices (4 a layer). A stochastic rounding has up to three times the variance of one
  // to nearest. The loss went down as far as the weights matter to it.
  const double of_weights =
      rounding_error(3 * 11, b.front() - *std::min_element(b.begin(), b.end()), DType::kBF16);
  EXPECT_LE(largest_difference(a, b), 2 * of_bf16 + of_weights);
  EXPECT_LT(a.back(), 0.9 * a.front());
}

INSTANTIATE_TEST_SUITE_P(Optimizers, WithoutMasters,
                         testing::Values(std::pair{"adamw_torch", 3e-3}, std::pair{"adamw_8bit", 3e-3},
                                         std::pair{"lion_32bit", 3e-3}, std::pair{"lion_8bit", 3e-3},
                                         std::pair{"adafactor", 3e-3}, std::pair{"rmsprop", 1e-3},
                                         std::pair{"adagrad", 1e-2}, std::pair{"sgd", 0.3}),
                         [](const auto& info) { return info.param.first; });

// The distance of the bf16 numbers around a weight.
double bf16_spacing(float weight) {
  return std::ldexp(dtype_epsilon(DType::kBF16), std::ilogb(weight));
}

// From the same bf16 weights, at a learning rate whose steps rounding to nearest would drop: what the run
// without masters moved, projected on what the one with masters did.
TEST(WithoutMastersAtATinyRate, MovesAsTheMasters) {
  constexpr double kRate = 1e-5;
  constexpr int64_t kSteps = 10;
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(), R"({"model_type": "bert"})");
  Trainer(model, bf16_arguments("none"), tiny_samples(8, 3)).save_model(directory.path());
  const auto train = [&](const std::string& masters, NamedWeights& before) {
    TrainingArguments args = bf16_arguments(masters);
    args.learning_rate = kRate;
    args.lr_scheduler_type = "constant";
    args.max_steps = kSteps;
    Trainer trainer(model, args, tiny_samples(28, 3), {}, {.weights = directory.path()});
    const TestDirectory copy;
    trainer.save_model(copy.path());
    before = weights_of(trainer.session());
    trainer.train();
    return weights_of(trainer.session());
  };
  NamedWeights before, same;
  const NamedWeights masters = train("fp32", before);
  const NamedWeights none = train("none", same);
  ASSERT_TRUE(before == same) << "bf16 in files is bf16 in memory";
  double along = 0;
  double square = 0;
  double variance = 0;  // of `along`
  int64_t stalled = 0;
  int64_t counted = 0;
  for (const auto& [name, start] : before) {
    if (name.ends_with("bias") || name.find("LayerNorm") != std::string::npos) continue;  // fp32 in both
    for (size_t i = 0; i < start.size(); ++i) {
      const double master = static_cast<double>(masters.at(name)[i]) - static_cast<double>(start[i]);
      along += master * (static_cast<double>(none.at(name)[i]) - static_cast<double>(start[i]));
      square += master * master;
      variance += master * master * kSteps * kRate * bf16_spacing(start[i]);
      stalled += to_float(to_bfloat16(start[i] + static_cast<float>(master / 10))) == start[i] ? 1 : 0;
      ++counted;
    }
  }
  std::printf("  %.3f of the masters' way; to nearest %.2f of the weights would stay\n", along / square,
              static_cast<double>(stalled) / static_cast<double>(counted));
  // Of a step that is the share p of a weight's spacing, stochastic rounding has the variance p (1 - p) spacing^2,
  // which is at most the step times the spacing; a step of AdamW is the rate at most. Five standard deviations.
  EXPECT_NEAR(along / square, 1, 5 * std::sqrt(variance) / square);
  EXPECT_GT(static_cast<double>(stalled), 0.5 * static_cast<double>(counted));
}

TEST(WithoutMastersFiles, AreBfloat16AndLoadExactly) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(),
                                            R"({"model_type": "bert", "torch_dtype": "float32"})");
  TrainingArguments args = bf16_arguments("none");
  args.max_steps = 3;
  Trainer trainer(model, args, tiny_samples(28, 3));
  trainer.train();
  trainer.save_model(directory.path());
  const nlohmann::json config = read_json(directory.path() / "config.json");
  EXPECT_EQ(config["dtype"], "bfloat16");
  EXPECT_FALSE(config.contains("torch_dtype"));
  const SafetensorsModel files = SafetensorsModel::open(directory.path());
  for (const std::string& name : files.names()) {
    const TensorEntry& entry = files.tensor(name);
    EXPECT_EQ(entry.dtype, entry.shape.size() == 2 ? DType::kBF16 : DType::kF32) << name;
  }
  for (const char* masters : {"none", "fp32"}) {
    Trainer again(model, bf16_arguments(masters), tiny_samples(8, 3), {}, {.weights = directory.path()});
    const TestDirectory copy;
    again.save_model(copy.path());
    EXPECT_TRUE(weights_of(again.session()) == weights_of(trainer.session())) << masters;
    EXPECT_EQ(read_json(copy.path() / "config.json")["dtype"],
              masters == std::string("none") ? "bfloat16" : "float32");
  }
}

TEST(WithoutMastersFiles, TakeTwoBytesAWeightLess) {
  const BertForSequenceClassification model(tiny_bert());
  const auto weight_bytes = [&](const std::string& masters) {
    const Trainer trainer(model, bf16_arguments(masters), tiny_samples(8, 3));
    const std::map<std::string, int64_t>& roles = trainer.forecast().by_role;
    return roles.at("weight") + (masters == "fp32" ? roles.at("master_weight") : 0);
  };
  int64_t matrices = 0;
  const Trainer trainer(model, bf16_arguments("none"), tiny_samples(8, 3));
  for (const Parameter& parameter : trainer.session().state().parameters())
    matrices += parameter.shape.size() == 2 ? parameter.global_elements() : 0;
  EXPECT_EQ(weight_bytes("fp32") - weight_bytes("none"), 2 * matrices);
}

TEST(PrecisionReport, SaysThatThereAreNoMasters) {
  EXPECT_TRUE(contains(format_precision(bf16_arguments("none")), "no master weights"));
  EXPECT_FALSE(contains(format_precision(bf16_arguments("fp32")), "no master weights"));
}

}  // namespace
}  // namespace shoehorn
