#include "exec/cpu/optimizers/outer_update.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "exec/cpu/optimizers/optimizer_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;

constexpr int64_t kRanks = 3;
constexpr OuterUpdateAttributes kPlain = {.ranks = kRanks, .learning_rate = 1};
constexpr OuterUpdateAttributes kDiLoCo = {.ranks = kRanks, .learning_rate = 0.7F, .momentum = 0.9F};

// A weight, plain or split, with what the outer update keeps of it; all of about 1.
struct OuterWeight {
  OuterWeight(int64_t elements, bool is_split)
      : count(elements),
        split(is_split),
        weight(random_tensor(DType::kF32, count, 1)),
        start(random_tensor(DType::kF32, count, 2)),
        momentum(random_tensor(DType::kF32, count, 3)),
        sum(random_tensor(DType::kF32, count, 4)),
        high(static_cast<size_t>(count)),
        rest(static_cast<size_t>(count)) {
    split_master(weight.floats(), count, high.data(), rest.data());
  }
  OuterTensor tensor(bool has_momentum = true) {
    OuterTensor made{.count = count, .weight = {.value = weight.floats()}, .start = start.floats()};
    if (split) made.weight = {.value = nullptr, .high = high.data(), .rest = rest.data()};
    if (has_momentum) made.momentum = momentum.floats();
    return made;
  }
  float value(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return split ? join_float({high[at], rest[at]}) : weight[i];
  }

  int64_t count;
  bool split;
  Tensor weight, start, momentum, sum;
  std::vector<bfloat16> high;
  std::vector<int16_t> rest;
};

class OuterUpdate : public test_support::EveryTarget {};

TEST_P(OuterUpdate, StartsAtTheWeightAndTakesWhatItMoved) {
  for (const bool split : {false, true}) {
    for (const int64_t count : {1, 17, 70001}) {
      OuterWeight outer(count, split);
      const Tensor start = outer.start;
      std::vector<float> gradient(static_cast<size_t>(count));
      outer_gradient(outer.tensor(), gradient.data());
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(gradient[static_cast<size_t>(i)], start[i] - outer.value(i)) << i;
      outer_start(outer.tensor());
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(outer.start[i], outer.value(i)) << i;
    }
  }
}

// Each of the six operations rounds once, of numbers of at most 4.
TEST_P(OuterUpdate, IsNesterovsInDouble) {
  constexpr double kTolerance = 6 * 4 * 0x1p-24;
  for (const bool split : {false, true}) {
    for (const OuterUpdateAttributes& attributes : {kPlain, kDiLoCo}) {
      const bool has_momentum = attributes.momentum != 0;
      for (const int64_t count : {1, 17, 70001}) {
        OuterWeight outer(count, split);
        const OuterWeight before = outer;
        outer_update(outer.tensor(has_momentum), outer.sum.floats(), attributes);
        for (int64_t i = 0; i < count; ++i) {
          const double g = double{before.sum[i]} / kRanks;
          const double m = has_momentum ? double{attributes.momentum} * before.momentum[i] + g : g;
          const double direction = has_momentum ? g + double{attributes.momentum} * m : g;
          ASSERT_NEAR(outer.start[i], before.start[i] - double{attributes.learning_rate} * direction,
                      kTolerance);
          ASSERT_EQ(outer.value(i), outer.start[i]) << "the weight, to the bit";
          if (has_momentum) {
            ASSERT_NEAR(outer.momentum[i], m, kTolerance);
          }
        }
        EXPECT_EQ(outer.sum.bytes(), before.sum.bytes());
        if (!has_momentum) {
          EXPECT_EQ(outer.momentum.bytes(), before.momentum.bytes());
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, OuterUpdate, test_support::every_target(), test_support::target_name);

TEST(OuterUpdateOfThreads, LeavesNoTraceOfTheirNumber) {
  OuterWeight one(70001, true);
  OuterWeight three = one;
  with_threads(1, [&] { outer_update(one.tensor(), one.sum.floats(), kDiLoCo); });
  with_threads(3, [&] { outer_update(three.tensor(), three.sum.floats(), kDiLoCo); });
  EXPECT_EQ(one.start.bytes(), three.start.bytes());
  EXPECT_EQ(one.momentum.bytes(), three.momentum.bytes());
  EXPECT_EQ(one.rest, three.rest);
}

TEST(OuterUpdateOfForms, NeedsAMaster) {
  const uint32_t step = 0;
  OuterWeight outer(4, true);
  OuterTensor tensor = outer.tensor();
  tensor.weight = {.value = nullptr, .high = outer.high.data(), .rounding = {.step = &step}};
  EXPECT_THROW(outer_start(tensor), InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
