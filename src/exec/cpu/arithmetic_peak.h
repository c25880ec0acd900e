// Measures the peak rate of the processor's arithmetic: loops of multiply-adds on registers. They read no
// memory, call no library, and share no code with the kernels that are compared with them.
//
// Every product is 1·1, so the sum of a loop's accumulators is the number of multiply-adds done. This reveals
// a loop that the compiler has shortened.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/machine_profile.h"

namespace shoehorn::cpu {

struct ArithmeticLoop {
  const char* name = nullptr;    // "AVX-512 FMA"
  DType operands = DType::kF32;  // the accumulators are fp32
  bool (*is_available)() = nullptr;
  // Runs multiply-adds on one thread and returns the sum of the accumulators. An fp32 accumulator can count
  // to kMaxIterations.
  double (*run)(int64_t iterations) = nullptr;
};

inline constexpr int64_t kMaxIterations = int64_t{1} << 18;

// All loops, also those that this processor cannot run: fp32 with AVX2 and AVX-512, bf16 dot products
// (AVX-512 BF16), bf16 tiles (AMX).
const std::vector<ArithmeticLoop>& arithmetic_loops();

// Runs each loop on one thread and on omp_get_max_threads() threads, a tenth of a second each; the best of
// several runs.
std::vector<ArithmeticPeak> measure_arithmetic_peaks();

}  // namespace shoehorn::cpu
