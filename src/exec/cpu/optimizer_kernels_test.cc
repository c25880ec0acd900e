#include "exec/cpu/optimizer_kernels.h"

#include <bit>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "exec/cpu/elementwise.h"
#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using testing::kStorages;
using testing::on_every_target;
using testing::random_tensor;
using testing::Tensor;
using testing::with_threads;

// ---- Against torch.optim: tests/golden/optimizer_make.py

constexpr int64_t kSizes[] = {1, 17, 131};
constexpr int kSteps = 50;

float hashed(int tensor, int step, int64_t i) {
  uint64_t mixed =
      static_cast<uint64_t>(i + 1) * 2654435761U +
      static_cast<uint64_t>((step + 1) * int64_t{40503} * 65537 + (tensor + 1) * int64_t{97} * 8191);
  mixed = (mixed ^ (mixed >> 15)) * 2246822519U & 0xffffffffU;
  mixed ^= mixed >> 13;
  return static_cast<float>(static_cast<double>(mixed >> 8) / 16777216.0 - 0.5);
}

float learning_rate_at(int step) {
  return 0.01F * static_cast<float>(static_cast<double>(kSteps - step) / kSteps);
}

// Three weights, plain or split, with two buffers of state each.
struct Model {
  explicit Model(bool is_split) : split(is_split) {
    for (int t = 0; t < 3; ++t) {
      const int64_t count = kSizes[t];
      Tensor weight(DType::kF32, count);
      for (int64_t i = 0; i < count; ++i) weight.set(i, hashed(t, -1, i));
      high.emplace_back(static_cast<size_t>(count));
      rest.emplace_back(static_cast<size_t>(count));
      split_master(weight.floats(), count, high.back().data(), rest.back().data());
      weights.push_back(weight);
      gradients.emplace_back(DType::kF32, count);
      first.emplace_back(DType::kF32, count);
      second.emplace_back(DType::kF32, count);
    }
  }
  WeightView weight(size_t t) {
    if (split) return {.value = nullptr, .high = high[t].data(), .rest = rest[t].data()};
    return {.value = weights[t].floats()};
  }
  float result(size_t t, int64_t i) const {
    const size_t at = static_cast<size_t>(i);
    return split ? join_float({high[t][at], rest[t][at]}) : weights[t][i];
  }
  void set_gradients(int step) {
    for (int t = 0; t < 3; ++t) {
      for (int64_t i = 0; i < kSizes[t]; ++i) {
        gradients[static_cast<size_t>(t)].set(i, hashed(t, step, i) * std::ldexp(1.0F, -10 * t));
      }
    }
  }
  static float decay(size_t t) { return t < 2 ? 0.1F : 0.0F; }

  void adamw(const AdamWConstants& constants, const UpdateScalars& scalars, uint32_t applied) {
    std::vector<AdamWTensor> list;
    for (size_t t = 0; t < 3; ++t) {
      list.push_back({.count = kSizes[t],
                      .weight = weight(t),
                      .gradient_dtype = DType::kF32,
                      .gradient = gradients[t].data(),
                      .m = first[t].floats(),
                      .v = second[t].floats(),
                      .weight_decay = decay(t)});
    }
    adamw_update(list, constants, scalars, &applied);
  }
  void sgd(const SgdConstants& constants, const UpdateScalars& scalars) {
    std::vector<SgdTensor> list;
    for (size_t t = 0; t < 3; ++t) {
      list.push_back({.count = kSizes[t],
                      .weight = weight(t),
                      .gradient_dtype = DType::kF32,
                      .gradient = gradients[t].data(),
                      .momentum_buffer = constants.momentum == 0.0F ? nullptr : first[t].floats(),
                      .weight_decay = decay(t)});
    }
    sgd_update(list, constants, scalars);
  }

  bool split;
  std::vector<Tensor> weights, gradients, first, second;
  std::vector<std::vector<bfloat16>> high;
  std::vector<std::vector<int16_t>> rest;
};

// 50 updates; each may differ by about a rounding of the weight (at most 1 in magnitude).
void check_golden(const std::string& name,
                  const std::function<void(Model&, const UpdateScalars&, int)>& update) {
  std::ifstream file(SHOEHORN_SOURCE_DIR "/tests/golden/optimizer.json");
  const auto golden = nlohmann::json::parse(file).at(name);
  for (const bool split : {false, true}) {
    Model model(split);
    for (int step = 0; step < kSteps; ++step) {
      const float learning_rate = learning_rate_at(step);
      model.set_gradients(step);
      update(model, {.learning_rate = &learning_rate}, step);
    }
    for (size_t t = 0; t < 3; ++t) {
      for (int64_t i = 0; i < kSizes[t]; ++i) {
        const float expected = std::bit_cast<float>(golden[t][static_cast<size_t>(i)].get<uint32_t>());
        ASSERT_NEAR(model.result(t, i), expected, 4.0 * 0x1p-24)
            << name << " tensor " << t << " element " << i;
      }
    }
  }
}

TEST(OptimizerGolden, AdamW) {
  on_every_target([] {
    check_golden("adamw", [](Model& model, const UpdateScalars& scalars, int step) {
      model.adamw({}, scalars, static_cast<uint32_t>(step));
    });
    check_golden("adamw_betas", [](Model& model, const UpdateScalars& scalars, int step) {
      model.adamw({.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6}, scalars, static_cast<uint32_t>(step));
    });
  });
}

TEST(OptimizerGolden, Sgd) {
  on_every_target([] {
    check_golden("sgd", [](Model& model, const UpdateScalars& scalars, int) { model.sgd({}, scalars); });
    check_golden("sgd_momentum", [](Model& model, const UpdateScalars& scalars, int) {
      model.sgd({.momentum = 0.9F}, scalars);
    });
    check_golden("sgd_nesterov", [](Model& model, const UpdateScalars& scalars, int) {
      model.sgd({.momentum = 0.9F, .nesterov = true}, scalars);
    });
  });
}

// ---- Properties

struct One {
  One(DType gradient_dtype, int64_t count)
      : weight(random_tensor(DType::kF32, count, 1)),
        gradient(random_tensor(gradient_dtype, count, 2)),
        m(random_tensor(DType::kF32, count, 3)),
        v(random_tensor(DType::kF32, count, 4, 5.0F, 0.5F)) {}
  AdamWTensor adamw() {
    return {.count = weight.count(),
            .weight = {.value = weight.floats()},
            .gradient_dtype = gradient.dtype(),
            .gradient = gradient.data(),
            .m = m.floats(),
            .v = v.floats(),
            .weight_decay = 0.05F};
  }
  Tensor weight, gradient, m, v;
};

TEST(AdamW, OneUpdateInDouble) {
  on_every_target([] {
    for (const DType dtype : kStorages) {
      for (const int64_t count : {0, 1, 15, 16385, 40001}) {
        One before(dtype, count);
        One after = before;
        const float learning_rate = 0.01F, coefficient = 0.5F;
        const uint32_t applied = 4;
        const std::vector<AdamWTensor> list{after.adamw()};
        adamw_update(list, {}, {.learning_rate = &learning_rate, .gradient_scale = &coefficient}, &applied);
        for (int64_t i = 0; i < count; ++i) {
          const double g = 0.5 * static_cast<double>(before.gradient[i]);
          const double m = 0.9 * static_cast<double>(before.m[i]) + 0.1 * g;
          const double v = 0.999 * static_cast<double>(before.v[i]) + 0.001 * g * g;
          const double step =
              0.01 / (1.0 - std::pow(0.9, 5)) * m / (std::sqrt(v / (1.0 - std::pow(0.999, 5))) + 1e-8);
          ASSERT_NEAR(static_cast<double>(after.m[i]), m, 1e-6);
          ASSERT_NEAR(static_cast<double>(after.v[i]), v, 1e-6);
          ASSERT_NEAR(static_cast<double>(after.weight[i]),
                      static_cast<double>(before.weight[i]) * (1.0 - 5e-4) - step, 1e-6);
        }
        EXPECT_EQ(after.gradient.bytes(), before.gradient.bytes());
      }
    }
  });
}

TEST(AdamW, ThreadsAndListsLeaveNoTrace) {
  const float learning_rate = 0.01F;
  const uint32_t applied = 0;
  One whole(DType::kF32, 70001);
  One original = whole;
  with_threads(1, [&] {
    const std::vector<AdamWTensor> list{whole.adamw()};
    adamw_update(list, {}, {.learning_rate = &learning_rate}, &applied);
  });
  for (const int threads : {1, 2, 3}) {
    One parts = original;
    std::vector<AdamWTensor> list;
    int64_t begin = 0;
    for (const int64_t end : {0, 5, 5, 33000, 70001}) {
      AdamWTensor part = parts.adamw();
      part.count = end - begin;
      part.weight.value += begin;
      part.gradient = static_cast<const float*>(part.gradient) + begin;
      part.m += begin;
      part.v += begin;
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
  One before(DType::kF32, 40);
  One after = before;
  const float learning_rate = 0.01F;
  const uint32_t applied = 0;
  for (const int32_t skip : {1, 0}) {
    const std::vector<AdamWTensor> list{after.adamw()};
    adamw_update(list, {}, {.learning_rate = &learning_rate, .skip = &skip}, &applied);
    EXPECT_EQ(after.weight.bytes() == before.weight.bytes(), skip == 1);
    EXPECT_EQ(after.m.bytes() == before.m.bytes(), skip == 1);
  }
}

TEST(AdamW, NanShowsAndBadWeightsAreRefused) {
  One one(DType::kF32, 20);
  one.gradient.set(7, NAN);
  const float learning_rate = 0.01F;
  const uint32_t applied = 0;
  std::vector<AdamWTensor> list{one.adamw()};
  adamw_update(list, {}, {.learning_rate = &learning_rate}, &applied);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(one.weight[i]), i == 7);
  list[0].weight = {};
  EXPECT_THROW(adamw_update(list, {}, {.learning_rate = &learning_rate}, &applied), InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
