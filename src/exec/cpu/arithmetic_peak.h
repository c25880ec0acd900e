// What the processor's arithmetic does at most: loops of multiply-adds on registers, which read no memory, call
// no library and share nothing with the kernels that are compared with them.
//
// Every product is 1·1, so that the sum of a loop's accumulators is the number of multiply-adds it did: a loop
// that a compiler shortened would tell.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/machine_profile.h"

namespace shoehorn::cpu {

struct ArithmeticLoop {
  const char* name = nullptr;    // "AVX-512 FMA"
  DType operands = DType::kF32;  // sums are fp32
  bool (*is_available)() = nullptr;
  // Does multiply-adds on one thread, and returns the sum of the accumulators. An fp32 accumulator counts to
  // kMostIterations.
  double (*run)(int64_t iterations) = nullptr;
};

inline constexpr int64_t kMostIterations = int64_t{1} << 18;

// fp32 with AVX2 and AVX-512, bf16 dot products (AVX-512 BF16), bf16 tiles (AMX). All, whether or not this
// processor has them.
const std::vector<ArithmeticLoop>& arithmetic_loops();

// Each loop on one thread and on all of omp_get_max_threads(), the best of several runs; a tenth of a second each.
std::vector<ArithmeticPeak> measure_arithmetic_peaks();

}  // namespace shoehorn::cpu
