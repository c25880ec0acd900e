// Helpers of the kernels' tests: tensors of each storage type, every vector target, one and several threads.
#pragma once

#include "exec/cpu/simd/simd_targets.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "exec/cpu/storage.h"

namespace shoehorn::cpu::test_support {

// A tensor in float32, bfloat16 or float16.
class Tensor {
 public:
  Tensor(DType dtype, int64_t count)
      : dtype_(dtype), bytes_(static_cast<size_t>(count * dtype_bytes(dtype))) {}
  Tensor(DType dtype, const std::vector<float>& values) : Tensor(dtype, static_cast<int64_t>(values.size())) {
    for (int64_t i = 0; i < count(); ++i) set(i, values[static_cast<size_t>(i)]);
  }

  DType dtype() const { return dtype_; }
  int64_t count() const { return static_cast<int64_t>(bytes_.size()) / dtype_bytes(dtype_); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  const std::vector<unsigned char>& bytes() const { return bytes_; }
  float* floats() { return reinterpret_cast<float*>(bytes_.data()); }

  float operator[](int64_t i) const {
    float value = 0;
    with_storage(dtype_, [&](auto type) {
      std::memcpy(&type, bytes_.data() + i * dtype_bytes(dtype_), sizeof(type));
      value = read_element(&type);
    });
    return value;
  }
  void set(int64_t i, float value) {
    with_storage(dtype_, [&](auto type) {
      write_element(value, &type);
      std::memcpy(bytes_.data() + i * dtype_bytes(dtype_), &type, sizeof(type));
    });
  }

 private:
  DType dtype_;
  std::vector<unsigned char> bytes_;
};

inline Tensor random_tensor(DType dtype, int64_t count, uint32_t seed, float mean = 0.0F,
                            float deviation = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(mean, deviation);
  Tensor tensor(dtype, count);
  for (int64_t i = 0; i < count; ++i) tensor.set(i, normal(generator));
  return tensor;
}

// Workspace filled with NaN, so that reading before writing shows.
inline Tensor workspace(int64_t bytes) {
  Tensor tensor(DType::kF32, (bytes + 7) / 8 * 2);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, NAN);
  return tensor;
}

// Restricts the dispatch of vector kernels to one target; 0 lifts the restriction.
inline void hold_to_target(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Fixture of a test that runs once per target. Targets that this processor lacks are skipped.
//   class Normalization : public test_support::EveryTarget {};
//   TEST_P(Normalization, …) { … }
//   INSTANTIATE_TEST_SUITE_P(Targets, Normalization, test_support::every_target(), test_support::target_name);
class EveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0)
      GTEST_SKIP() << "this processor has no " << hwy::TargetName(GetParam());
    hold_to_target(GetParam());
  }
  void TearDown() override { hold_to_target(0); }
};

inline auto every_target() {
  return testing::Values(int64_t{HWY_AVX2}, int64_t{HWY_AVX3});
}

inline std::string target_name(const testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

template <class Run>
void with_threads(int threads, const Run& run) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  run();
  omp_set_num_threads(before);
}

// The error that storing the result of float32 arithmetic may have: half a step of the storage type (at least
// of float16's subnormals), plus `roundings` half steps of float32 relative to `magnitude`.
inline double tolerance(DType dtype, double expected, double magnitude, double roundings) {
  const double storage = dtype == DType::kF32 ? 0.0 : 0.5 * dtype_epsilon(dtype) * std::abs(expected);
  const double subnormal = dtype == DType::kF16 ? 0x1p-25 : 0.0;
  return storage + subnormal + roundings * 0.5 * dtype_epsilon(DType::kF32) * magnitude + 1e-38;
}

inline constexpr DType kStorages[] = {DType::kF32, DType::kBF16, DType::kF16};

}  // namespace shoehorn::cpu::test_support
