#include "exec/cpu/optimizers/optimizer_8bit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "exec/cpu/optimizers/eight_bit_testing.h"
#include "exec/cpu/simd/dynamic_map.h"

namespace shoehorn::cpu {
namespace {

using test_support::EightBitMoments;
using test_support::floats_in;
using test_support::golden_8bit;
using test_support::GoldenModel;
using test_support::hex;
using test_support::kGoldenSteps;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;

struct EightBitUpdate {
  std::string name;
  size_t states;
  std::function<void(std::span<const EightBitTensor>, const UpdateScalars&, uint32_t applied)> run;
};

std::vector<EightBitUpdate> eight_bit_updates() {
  return {{"adamw_8bit", 2,
           [](auto list, const auto& scalars, uint32_t applied) {
             adamw_8bit_update(list, {}, scalars, &applied);
           }},
          {"lion_8bit", 1,
           [](auto list, const auto& scalars, uint32_t) { lion_8bit_update(list, {}, scalars); }}};
}

// ---- Against bitsandbytes: codes byte for byte, scales to what numbers lose each step, weights to their own
// rounding.

void check_golden_8bit(const EightBitUpdate& update, bool split) {
  const auto& golden = golden_8bit().at(update.name);
  GoldenModel model({{1, 1}, {1, 255}, {1, 257}, {1, 700}}, split);
  std::vector<EightBitMoments> moments;
  for (const auto& shape : model.shapes) moments.emplace_back(shape.count());
  for (int step = 0; step < kGoldenSteps; ++step) {
    const float learning_rate =
        0.01F * static_cast<float>(static_cast<double>(kGoldenSteps - step) / kGoldenSteps);
    model.set_gradients(step);
    std::vector<EightBitTensor> list;
    for (size_t t = 0; t < model.shapes.size(); ++t) {
      list.push_back({.count = model.shapes[t].count(),
                      .weight = model.weight(t),
                      .gradient_dtype = DType::kF32,
                      .gradient = model.gradients[t].data(),
                      .weight_decay = GoldenModel::decay(t)});
      moments[t].lend(list.back(), update.states);
    }
    update.run(list, {.learning_rate = &learning_rate}, static_cast<uint32_t>(step));
  }
  for (size_t t = 0; t < model.shapes.size(); ++t) {
    for (size_t i = 0; i < update.states; ++i) {
      EXPECT_EQ(hex(moments[t].codes[i]), golden.at("codes")[t][i].get<std::string>())
          << update.name << " " << t;
      const std::vector<float> scales = floats_in(golden.at("scales")[t][i]);
      ASSERT_EQ(moments[t].scales[i].size(), scales.size());
      for (size_t block = 0; block < scales.size(); ++block)
        ASSERT_NEAR(moments[t].scales[i][block], scales[block], kGoldenSteps * kNumberError * scales[block])
            << update.name << " " << t;
    }
    const std::vector<float> expected = floats_in(golden.at("weights")[t]);
    // Weights are at most about 1. A step there rounds them twice, one here once, each by up to 2^-25 either way.
    const double tolerance = std::sqrt(3.0 * kGoldenSteps) * 0x1p-24;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(model.result(t, static_cast<int64_t>(i)), expected[i], tolerance) << update.name << t;
  }
}

class Optimizer8bitGolden : public test_support::EveryTarget {};

TEST_P(Optimizer8bitGolden, AdamW) {
  for (const bool split : {false, true}) check_golden_8bit(eight_bit_updates()[0], split);
}
TEST_P(Optimizer8bitGolden, Lion) {
  for (const bool split : {false, true}) check_golden_8bit(eight_bit_updates()[1], split);
}

INSTANTIATE_TEST_SUITE_P(Targets, Optimizer8bitGolden, test_support::every_target(),
                         test_support::target_name);

// ---- Properties

// One tensor whose moments are what some steps left.
struct EightBitWeight {
  EightBitWeight(const EightBitUpdate& of, DType dtype, int64_t count)
      : update(of),
        weight(random_tensor(DType::kF32, count, 1)),
        gradient(random_tensor(dtype, count, 2)),
        moments(count) {
    for (uint32_t step = 0; step < 3; ++step) {
      const Tensor before = gradient;
      gradient = random_tensor(dtype, count, 5 + step);
      run({.learning_rate = &rate});
      gradient = before;
    }
  }
  EightBitTensor tensor(int64_t from = 0) {
    EightBitTensor made{
        .count = weight.count() - from,
        .weight = {.value = weight.floats() + from},
        .gradient_dtype = gradient.dtype(),
        .gradient = static_cast<std::byte*>(gradient.data()) + from * dtype_bytes(gradient.dtype()),
        .weight_decay = 0.05F};
    moments.lend(made, update.states, from);
    return made;
  }
  void run(const UpdateScalars& scalars) { run({tensor()}, scalars); }
  void run(const std::vector<EightBitTensor>& list, const UpdateScalars& scalars) {
    update.run(list, scalars, 4);
  }
  bool same(const EightBitWeight& other) const {
    return weight.bytes() == other.weight.bytes() && moments == other.moments;
  }

  static constexpr float rate = 0.01F;
  EightBitUpdate update;
  Tensor weight, gradient;
  EightBitMoments moments;
};

std::vector<double> widened(EightBitWeight& one, const DynamicMap& map, size_t state) {
  std::vector<double> values;
  for (size_t i = 0; i < one.moments.codes[state].size(); ++i) {
    values.push_back(static_cast<double>(map.values[one.moments.codes[state][i]]) *
                     static_cast<double>(one.moments.scales[state][i / kStateBlock]));
  }
  return values;
}

class AdamW8bit : public test_support::EveryTarget {};

// Moments of fp32 width move the weight; codes are rounded afterwards, to half a step of the map.
TEST_P(AdamW8bit, OneUpdateInDouble) {
  for (const DType dtype : test_support::kStorages) {
    for (const int64_t count : {1, 15, 256, 16641}) {
      EightBitWeight before(eight_bit_updates()[0], dtype, count);
      const auto m_before = widened(before, signed_dynamic_map(), 0);
      const auto v_before = widened(before, unsigned_dynamic_map(), 1);
      EightBitWeight after = before;
      const float half = 0.5F;
      after.run({.learning_rate = &EightBitWeight::rate, .gradient_scale = &half});
      const auto m_after = widened(after, signed_dynamic_map(), 0);
      const auto v_after = widened(after, unsigned_dynamic_map(), 1);
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        const double g = 0.5 * static_cast<double>(before.gradient[i]);
        const double m = 0.9 * m_before[at] + 0.1 * g;
        const double v = 0.999 * v_before[at] + 0.001 * g * g;
        const double step =
            0.01 / (1.0 - std::pow(0.9, 5)) * m / (std::sqrt(v / (1.0 - std::pow(0.999, 5))) + 1e-8);
        ASSERT_NEAR(static_cast<double>(after.weight[i]),
                    static_cast<double>(before.weight[i]) * (1.0 - 5e-4) - step, 1e-6);
        const double m_scale = static_cast<double>(after.moments.scales[0][at / kStateBlock]);
        const double v_scale = static_cast<double>(after.moments.scales[1][at / kStateBlock]);
        ASSERT_NEAR(m_after[at], m, m_scale * (0.45 / 64 + 0x1p-15));
        ASSERT_NEAR(v_after[at], v, v_scale * (0.45 / 128 + 0x1p-15));
      }
      EXPECT_EQ(after.gradient.bytes(), before.gradient.bytes());
    }
  }
}

// The scale of a block without gradients falls to nothing, and its codes stay what they were.
TEST_P(AdamW8bit, WeightsOutliveTheSmallestMoments) {
  for (float scale = 0x1p-110F; scale > 0; scale /= 8) {
    EightBitWeight one(eight_bit_updates()[0], DType::kF32, 256);
    for (int64_t i = 0; i < 256; ++i) {
      one.gradient.set(i, 0);
      one.moments.codes[0][static_cast<size_t>(i)] = one.moments.codes[1][static_cast<size_t>(i)] =
          static_cast<uint8_t>(i);
    }
    one.moments.scales[0][0] = one.moments.scales[1][0] = scale;
    one.run({.learning_rate = &EightBitWeight::rate});
    for (int64_t i = 0; i < 256; ++i) ASSERT_TRUE(std::isfinite(one.weight[i])) << i << " " << scale;
  }
}

TEST_P(AdamW8bit, ALearningRateOfZeroLeavesEveryBitOfAWeight) {
  EightBitWeight one(eight_bit_updates()[0], DType::kF32, 300);
  one.weight.set(5, 0);
  one.moments.codes[1][6] = 0;  // a second moment of zero
  const std::vector<unsigned char> before = one.weight.bytes();
  const float none = 0;
  one.run({.learning_rate = &none});
  EXPECT_EQ(one.weight.bytes(), before);
}

// A gradient is cut before it enters the moments; where nothing is cut they are those without a limit, to the
// rounding of the gradient's scale.
TEST_P(AdamW8bit, GradientsAreCut) {
  const EightBitWeight original(eight_bit_updates()[0], DType::kF32, 700);
  const float scale = 0.37F;
  const auto after = [&](float most) {
    EightBitWeight one = original;
    one.run({.learning_rate = &EightBitWeight::rate, .gradient_scale = &scale, .max_gradient = most});
    return one;
  };
  EightBitWeight whole = after(std::numeric_limits<float>::infinity());
  EightBitWeight wide = after(1e30F);
  for (int64_t i = 0; i < 700; ++i) ASSERT_NEAR(wide.weight[i], whole.weight[i], 8 * 0x1p-24) << i;
  EightBitWeight cut = after(0.01F);
  EightBitWeight by_hand = original;
  for (int64_t i = 0; i < 700; ++i)
    by_hand.gradient.set(i, std::clamp(scale * by_hand.gradient[i], -0.01F, 0.01F));
  by_hand.run({.learning_rate = &EightBitWeight::rate});
  for (int64_t i = 0; i < 700; ++i) ASSERT_NEAR(cut.weight[i], by_hand.weight[i], 8 * 0x1p-24) << i;
  EXPECT_FALSE(cut.same(whole));
}

INSTANTIATE_TEST_SUITE_P(Targets, AdamW8bit, test_support::every_target(), test_support::target_name);

TEST(Optimizer8bit, ThreadsAndListsLeaveNoTraceAndSkippingChangesNothing) {
  for (const EightBitUpdate& update : eight_bit_updates()) {
    const EightBitWeight original(update, DType::kF32, 70001);
    EightBitWeight whole = original;
    with_threads(1, [&] { whole.run({.learning_rate = &EightBitWeight::rate}); });
    EXPECT_FALSE(whole.same(original)) << update.name;
    for (const int threads : {2, 3}) {
      EightBitWeight parts = original;
      std::vector<EightBitTensor> list;
      int64_t begin = 0;
      for (const int64_t end : {int64_t{256}, 130 * kStateBlock, int64_t{70001}}) {
        list.push_back(parts.tensor(begin));
        list.back().count = end - begin;
        begin = end;
      }
      with_threads(threads, [&] { parts.run(list, {.learning_rate = &EightBitWeight::rate}); });
      EXPECT_TRUE(parts.same(whole)) << update.name << " on " << threads;
    }
    EightBitWeight skipped = original;
    const int32_t skip = 1;
    skipped.run({.learning_rate = &EightBitWeight::rate, .skip = &skip});
    EXPECT_TRUE(skipped.same(original)) << update.name;
  }
}

TEST(Optimizer8bit, NanShowsInItsWeightAndStatesAreCounted) {
  for (const EightBitUpdate& update : eight_bit_updates()) {
    EightBitWeight one(update, DType::kF32, 300);
    one.gradient.set(7, NAN);
    one.run({.learning_rate = &EightBitWeight::rate});
    for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(std::isnan(one.weight[i]), i == 7) << update.name << i;
    std::vector<EightBitTensor> list{one.tensor()};
    list[0].scales[0] = nullptr;
    EXPECT_THROW(one.run(list, {.learning_rate = &EightBitWeight::rate}), InternalError) << update.name;
    list[0] = one.tensor();
    list[0].codes[update.states - 1] = nullptr;
    EXPECT_THROW(one.run(list, {.learning_rate = &EightBitWeight::rate}), InternalError) << update.name;
  }
}

}  // namespace
}  // namespace shoehorn::cpu
