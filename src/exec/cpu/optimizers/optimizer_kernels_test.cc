#include "exec/cpu/optimizers/optimizer_kernels.h"

#include "exec/cpu/optimizers/optimizer_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::check_golden;
using test_support::GoldenModel;
using test_support::kGoldenMatrices;
using test_support::kGoldenVectors;
using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;

// ---- Against torch.optim

class OptimizerGolden : public test_support::EveryTarget {};

TEST_P(OptimizerGolden, AdamW) {
  for (const auto& [name, constants] : {std::pair<std::string, AdamWSettings>{"adamw", {}},
                                        {"adamw_betas", {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6}}}) {
    check_golden(name, kGoldenVectors, 4,
                 [&](GoldenModel& model, const UpdateScalars& scalars, uint32_t applied) {
                   adamw_update(model.tensors(2), constants, scalars, &applied);
                 });
  }
}

TEST_P(OptimizerGolden, Sgd) {
  for (const auto& [name, constants] : {std::pair<std::string, SgdSettings>{"sgd", {}},
                                        {"sgd_momentum", {.momentum = 0.9F}},
                                        {"sgd_nesterov", {.momentum = 0.9F, .nesterov = true}}}) {
    check_golden(name, kGoldenVectors, 4, [&](GoldenModel& model, const UpdateScalars& scalars, uint32_t) {
      sgd_update(model.tensors(constants.momentum != 0 ? 1 : 0), constants, scalars);
    });
  }
  // LOMO takes the decay first: two roundings of 2^-26 a step and side, fifty steps.
  check_golden("lomo", kGoldenMatrices, 50, [&](GoldenModel& model, const UpdateScalars& scalars, uint32_t) {
    sgd_update(model.tensors(0), {}, scalars);
  });
}

INSTANTIATE_TEST_SUITE_P(Targets, OptimizerGolden, test_support::every_target(), test_support::target_name);

// ---- Properties

struct TrainedWeight {
  TrainedWeight(DType gradient_dtype, int64_t count)
      : weight(random_tensor(DType::kF32, count, 1)),
        gradient(random_tensor(gradient_dtype, count, 2)),
        m(random_tensor(DType::kF32, count, 3)),
        v(random_tensor(DType::kF32, count, 4, 5.0F, 0.5F)) {}
  StatefulTensor adamw() {
    return {.count = weight.count(),
            .weight = {.value = weight.floats()},
            .gradient_dtype = gradient.dtype(),
            .gradient = gradient.data(),
            .states = {m.floats(), v.floats()},
            .weight_decay = 0.05F};
  }
  Tensor weight, gradient, m, v;
};

class AdamW : public test_support::EveryTarget {};

TEST_P(AdamW, OneUpdateInDouble) {
  for (const DType dtype : kStorages) {
    for (const int64_t count : {0, 1, 15, 16385, 40001}) {
      TrainedWeight before(dtype, count);
      TrainedWeight after = before;
      const float learning_rate = 0.01F, coefficient = 0.5F;
      const uint32_t applied = 4;
      const std::vector<StatefulTensor> list{after.adamw()};
      adamw_update(list, {}, {.learning_rate = &learning_rate, .gradient_scale = &coefficient}, &applied);
      for (int64_t i = 0; i < count; ++i) {
        const double g = 0.5 * static_cast<double>(before.gradient[i]);
        const double m = 0.9 * static_cast<double>(before.m[i]) + 0.1 * g;
        const double v = 0.999 * static_cast<double>(before.v[i]) + 0.001 * g * g;
        const double divisor = std::sqrt(v / (1.0 - std::pow(0.999, 5))) + 1e-8;
        const double rate = 0.01 / (1.0 - std::pow(0.9, 5)) / divisor;
        const double w = static_cast<double>(before.weight[i]) * (1.0 - 5e-4) - rate * m;
        // The terms of m may cancel, those of v do not.
        const double terms = std::abs(static_cast<double>(before.m[i])) + std::abs(g);
        ASSERT_NEAR(static_cast<double>(after.m[i]), m, tolerance(DType::kF32, 0.0, terms, 4));
        ASSERT_NEAR(static_cast<double>(after.v[i]), v, tolerance(DType::kF32, 0.0, v, 6));
        ASSERT_NEAR(static_cast<double>(after.weight[i]), w,
                    tolerance(DType::kF32, 0.0, std::abs(w) + rate * terms, 3) +
                        tolerance(DType::kF32, 0.0, rate * terms, 12));
      }
      EXPECT_EQ(after.gradient.bytes(), before.gradient.bytes());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, AdamW, test_support::every_target(), test_support::target_name);

TEST(AdamW, ThreadsAndListsLeaveNoTrace) {
  const float learning_rate = 0.01F;
  const uint32_t applied = 0;
  TrainedWeight whole(DType::kF32, 70001);
  TrainedWeight original = whole;
  with_threads(1, [&] {
    const std::vector<StatefulTensor> list{whole.adamw()};
    adamw_update(list, {}, {.learning_rate = &learning_rate}, &applied);
  });
  for (const int threads : {1, 2, 3}) {
    TrainedWeight parts = original;
    std::vector<StatefulTensor> list;
    int64_t begin = 0;
    for (const int64_t end : {0, 5, 5, 33000, 70001}) {
      StatefulTensor part = parts.adamw();
      part.count = end - begin;
      part.weight.value += begin;
      part.gradient = static_cast<const float*>(part.gradient) + begin;
      part.states[0] += begin;
      part.states[1] += begin;
      list.push_back(part);
      begin = end;
    }
    with_threads(threads, [&] { adamw_update(list, {}, {.learning_rate = &learning_rate}, &applied); });
    EXPECT_EQ(parts.weight.bytes(), whole.weight.bytes());
    EXPECT_EQ(parts.m.bytes(), whole.m.bytes());
    EXPECT_EQ(parts.v.bytes(), whole.v.bytes());
  }
}

TEST(AdamW, SkipLeavesEverything) {
  TrainedWeight before(DType::kF32, 40);
  TrainedWeight after = before;
  const float learning_rate = 0.01F;
  const uint32_t applied = 0;
  for (const int32_t skip : {1, 0}) {
    const std::vector<StatefulTensor> list{after.adamw()};
    adamw_update(list, {}, {.learning_rate = &learning_rate, .skip = &skip}, &applied);
    EXPECT_EQ(after.weight.bytes() == before.weight.bytes(), skip == 1);
    EXPECT_EQ(after.m.bytes() == before.m.bytes(), skip == 1);
  }
}

TEST(AdamW, NanShowsAndBadWeightsAreRefused) {
  TrainedWeight one(DType::kF32, 20);
  one.gradient.set(7, NAN);
  const float learning_rate = 0.01F;
  const uint32_t applied = 0;
  std::vector<StatefulTensor> list{one.adamw()};
  adamw_update(list, {}, {.learning_rate = &learning_rate}, &applied);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(one.weight[i]), i == 7);
  list[0].weight = {};
  EXPECT_THROW(adamw_update(list, {}, {.learning_rate = &learning_rate}, &applied), InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
