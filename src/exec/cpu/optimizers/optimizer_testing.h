// Compares fifty updates of an optimizer with those of its reference on the same weights:
// tests/golden/optimizer_make.py.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/cpu/elementwise/elementwise.h"
#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/optimizers/optimizer_kernels.h"
#include "io/json_file.h"

namespace shoehorn::cpu::test_support {

inline constexpr int kGoldenSteps = 50;

// Numbers in [-0.5, 0.5) with 24 bits, as the script draws them; step -1 is the weight.
inline float golden_number(size_t tensor, int step, int64_t i) {
  uint64_t mixed = static_cast<uint64_t>(i + 1) * 2654435761U +
                   static_cast<uint64_t>((step + 1) * int64_t{40503} * 65537 +
                                         static_cast<int64_t>(tensor + 1) * 97 * 8191);
  mixed = (mixed ^ (mixed >> 15)) * 2246822519U & 0xffffffffU;
  mixed ^= mixed >> 13;
  return static_cast<float>(static_cast<double>(mixed >> 8) / 16777216.0 - 0.5);
}

struct GoldenShape {
  int64_t rows;
  int64_t columns;
  int64_t matrices = 1;
  int64_t count() const { return matrices * rows * columns; }
};
inline const std::vector<GoldenShape> kGoldenVectors = {{1, 1}, {1, 17}, {1, 131}};
inline const std::vector<GoldenShape> kGoldenMatrices = {{70, 19}, {1, 17}, {3, 131}};

// Three weights, plain or split, with up to three buffers of state each, all zero.
struct GoldenModel {
  GoldenModel(const std::vector<GoldenShape>& of_shapes, bool is_split) : shapes(of_shapes), split(is_split) {
    for (size_t t = 0; t < shapes.size(); ++t) {
      const int64_t count = shapes[t].count();
      Tensor weight(DType::kF32, count);
      for (int64_t i = 0; i < count; ++i) weight.set(i, golden_number(t, -1, i));
      high.emplace_back(static_cast<size_t>(count));
      rest.emplace_back(static_cast<size_t>(count));
      split_master(weight.floats(), count, high.back().data(), rest.back().data());
      weights.push_back(weight);
      gradients.emplace_back(DType::kF32, count);
      states.push_back({Tensor(DType::kF32, count), Tensor(DType::kF32, count), Tensor(DType::kF32, count)});
    }
  }
  WeightView weight(size_t t) {
    if (split) return {.value = nullptr, .high = high[t].data(), .rest = rest[t].data()};
    return {.value = weights[t].floats()};
  }
  float result(size_t t, int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return split ? join_float({high[t][at], rest[t][at]}) : weights[t][i];
  }
  void set_gradients(int step) {
    for (size_t t = 0; t < shapes.size(); ++t) {
      for (int64_t i = 0; i < shapes[t].count(); ++i) {
        gradients[t].set(i, golden_number(t, step, i) * std::ldexp(1.0F, -10 * static_cast<int>(t)));
      }
    }
  }
  // The arguments of an element-wise update, with the first `kept` states.
  std::vector<StatefulTensor> tensors(size_t kept) {
    std::vector<StatefulTensor> list;
    for (size_t t = 0; t < shapes.size(); ++t) {
      StatefulTensor tensor{.count = shapes[t].count(),
                            .weight = weight(t),
                            .gradient_dtype = DType::kF32,
                            .gradient = gradients[t].data(),
                            .weight_decay = decay(t)};
      for (size_t i = 0; i < kept; ++i) tensor.states[i] = states[t][i].floats();
      list.push_back(tensor);
    }
    return list;
  }
  static float decay(size_t t) { return t < 2 ? 0.1F : 0.0F; }

  std::vector<GoldenShape> shapes;
  bool split;
  std::vector<Tensor> weights, gradients;
  std::vector<std::vector<Tensor>> states;
  std::vector<std::vector<bfloat16>> high;
  std::vector<std::vector<int16_t>> rest;
};

// Weights are at most about 1: their own rounding is 2^-24, and `roundings` of them may add up.
inline void check_golden(
    const std::string& name, const std::vector<GoldenShape>& shapes, double roundings,
    const std::function<void(GoldenModel&, const UpdateScalars&, uint32_t applied)>& update) {
  const auto golden = read_json(SHOEHORN_SOURCE_DIR "/tests/golden/optimizer.json").at(name);
  for (const bool split : {false, true}) {
    GoldenModel model(shapes, split);
    for (int step = 0; step < kGoldenSteps; ++step) {
      const float learning_rate =
          0.01F * static_cast<float>(static_cast<double>(kGoldenSteps - step) / kGoldenSteps);
      model.set_gradients(step);
      update(model, {.learning_rate = &learning_rate}, static_cast<uint32_t>(step));
    }
    for (size_t t = 0; t < shapes.size(); ++t) {
      for (int64_t i = 0; i < shapes[t].count(); ++i) {
        const float expected = std::bit_cast<float>(golden[t][static_cast<size_t>(i)].get<uint32_t>());
        ASSERT_NEAR(model.result(t, i), expected, roundings * 0x1p-24)
            << name << (split ? ", split" : "") << ", tensor " << t << " element " << i;
      }
    }
  }
}

}  // namespace shoehorn::cpu::test_support
