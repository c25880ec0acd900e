// Weights without masters: an update makes of them what it makes of the same weights in float32, rounded with
// the bits that base/philox.h defines.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/philox.h"
#include "exec/cpu/optimizers/optimizer_updates_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::GoldenShape;
using test_support::optimizer_updates;
using test_support::OptimizerUpdate;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;
using test_support::workspace;

constexpr uint64_t kSeed = 0x123456789abcdef0U;
constexpr uint32_t kStream = 17;

// One update by `optimizer` with a gradient that is the same in every call.
void update(const OptimizerUpdate& optimizer, const WeightView& weight, const GoldenShape& shape,
            float learning_rate) {
  optimizer.update(weight, random_tensor(DType::kF32, shape.count(), 2), shape,
                   {.learning_rate = &learning_rate});
}

// Random bfloat16s, and the same in float32.
struct Weight {
  explicit Weight(int64_t count, float mean = 0, float deviation = 1)
      : wide(random_tensor(DType::kF32, count, 1, mean, deviation)), bits(static_cast<size_t>(count)) {
    for (int64_t i = 0; i < count; ++i) {
      bits[static_cast<size_t>(i)] = to_bfloat16(wide[i]);
      wide.set(i, to_float(bits[static_cast<size_t>(i)]));
    }
  }
  WeightView plain() { return {.value = wide.floats()}; }
  WeightView rounded(const uint32_t* step, int64_t first_element = 0, uint32_t stream_id = kStream) {
    return {
        .value = nullptr,
        .high = bits.data(),
        .rounding = {.seed = kSeed, .stream_id = stream_id, .first_element = first_element, .step = step}};
  }
  float value(int64_t i) const { return to_float(bits[static_cast<size_t>(i)]); }

  Tensor wide;
  std::vector<bfloat16> bits;
};

class RoundedWeight : public test_support::EveryTarget {};

TEST_P(RoundedWeight, IsTheUpdateInFloat32RoundedByItsDefinition) {
  const uint32_t step = 77;
  const PhiloxKey key = philox_key(kSeed, step, kStream);

  for (const OptimizerUpdate& optimizer : optimizer_updates()) {
    for (const GoldenShape& shape : {GoldenShape{1, 1}, {1, 17}, {3, 131}, {70, 19}, {1, 2049}, {7, 5003}}) {
      for (const int64_t first : {0, 5, 4096}) {
        Weight plain(shape.count());
        Weight rounded = plain;
        update(optimizer, plain.plain(), shape, 0.01F);
        with_threads(shape.rows > 5 ? 3 : 1,
                     [&] { update(optimizer, rounded.rounded(&step, first), shape, 0.01F); });
        for (int64_t i = 0; i < shape.count(); ++i) {
          ASSERT_EQ(rounded.bits[static_cast<size_t>(i)].bits,
                    round_stochastically(plain.wide[i], rounding_bits(key, first + i)).bits)
              << optimizer.name << " " << shape.rows << " x " << shape.columns << " at " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RoundedWeight, test_support::every_target(), test_support::target_name);

// Adafactor sums, in an order of its own on each instruction set; the others treat every element alone.
TEST(RoundedWeight, Avx512GivesTheBitsOfAvx2) {
  if ((hwy::SupportedTargets() & HWY_AVX3) == 0) GTEST_SKIP() << "this processor has no AVX3";
  const GoldenShape shape{3, 4099};
  const uint32_t step = 3;
  const auto updated = [&](const OptimizerUpdate& optimizer, int64_t target) {
    test_support::hold_to_target(target);
    Weight weight(shape.count());
    update(optimizer, weight.rounded(&step), shape, 0.01F);
    test_support::hold_to_target(0);
    std::vector<float> values;
    for (int64_t i = 0; i < shape.count(); ++i) values.push_back(weight.value(i));
    return values;
  };
  for (const OptimizerUpdate& optimizer : optimizer_updates()) {
    if (optimizer.name == "adafactor") continue;
    EXPECT_TRUE(updated(optimizer, HWY_AVX3) == updated(optimizer, HWY_AVX2)) << optimizer.name;
  }
}

TEST(RoundedWeight, SeedStepAndStreamSelectTheBits) {
  const GoldenShape shape{1, 4000};
  const auto updated = [&](uint64_t seed, uint32_t step, uint32_t stream_id) {
    Weight weight(shape.count());
    WeightView view = weight.rounded(&step, 0, stream_id);
    view.rounding.seed = seed;
    update(optimizer_updates()[0], view, shape, 0.01F);
    std::vector<float> values;
    for (int64_t i = 0; i < shape.count(); ++i) values.push_back(weight.value(i));
    return values;
  };
  const auto once = updated(1, 2, 3);
  EXPECT_TRUE(updated(1, 2, 3) == once);
  EXPECT_FALSE(updated(2, 2, 3) == once);
  EXPECT_FALSE(updated(1, 3, 3) == once);
  EXPECT_FALSE(updated(1, 2, 4) == once);
}

// A hundred steps, each a fortieth of the distance of two bfloat16s, against a gradient of 1: to nearest no
// weight would ever move. Stochastically their mean moves as in exact arithmetic: a step of probability p
// between neighbours d apart has variance p (1 - p) d^2, and steps are independent.
TEST(RoundedWeight, MovesOnAverageWhereRoundingToNearestWouldStall) {
  constexpr int64_t kCount = 8192;
  constexpr int kSteps = 100;
  constexpr double kDistance = 0x1p-8;  // of bfloat16s in [1/2, 1)
  const float learning_rate = 1e-4F;
  Weight weight(kCount, 0.75F, 0.02F);
  const Weight before = weight;
  Tensor gradient(DType::kF32, kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    gradient.set(i, 1);
    ASSERT_EQ(to_float(to_bfloat16(before.value(i) - learning_rate)), before.value(i)) << "it would move";
  }
  for (uint32_t step = 0; step < kSteps; ++step) {
    const std::vector<StatefulTensor> list{{.count = kCount,
                                            .weight = weight.rounded(&step),
                                            .gradient_dtype = DType::kF32,
                                            .gradient = gradient.data()}};
    sgd_update(list, {}, {.learning_rate = &learning_rate});
  }
  double moved = 0;
  for (int64_t i = 0; i < kCount; ++i)
    moved += (static_cast<double>(weight.value(i)) - static_cast<double>(before.value(i))) / kCount;
  const double expected = -kSteps * static_cast<double>(learning_rate);
  const double p = static_cast<double>(learning_rate) / kDistance;
  const double standard_error = std::sqrt(kSteps * p * (1 - p) / kCount) * kDistance;
  EXPECT_NEAR(moved, expected, 5 * standard_error);
  EXPECT_LT(5 * standard_error, -expected / 10) << "the test could not tell";
}

TEST(RoundedWeight, NanShowsAndAWeightHasOneForm) {
  const uint32_t step = 0;
  const float learning_rate = 0.01F;
  Weight weight(20);
  Tensor gradient = random_tensor(DType::kF32, 20, 2);
  gradient.set(7, NAN);
  std::vector<StatefulTensor> list{{.count = 20,
                                    .weight = weight.rounded(&step),
                                    .gradient_dtype = DType::kF32,
                                    .gradient = gradient.data()}};
  sgd_update(list, {}, {.learning_rate = &learning_rate});
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(weight.value(i)), i == 7);
  int16_t rest[20] = {};
  list[0].weight.rest = rest;
  EXPECT_THROW(sgd_update(list, {}, {.learning_rate = &learning_rate}), InternalError) << "and a rest";
  list[0].weight = {.value = nullptr, .high = weight.bits.data()};
  EXPECT_THROW(sgd_update(list, {}, {.learning_rate = &learning_rate}), InternalError) << "neither";
  list[0].weight = weight.rounded(&step, kMaxRoundedElements);
  EXPECT_THROW(sgd_update(list, {}, {.learning_rate = &learning_rate}), InternalError) << "no bits left";
}

}  // namespace
}  // namespace shoehorn::cpu
