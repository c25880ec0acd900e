#include "exec/cpu/simd/bf16_dots.h"

namespace shoehorn::cpu {

namespace {

bool has_bf16_dots() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512bf16") != 0;
}

// Golden Cove and Intel's cores after it begin a dot product of bf16 every second cycle and two multiply-adds of fp32 in each
// cycle: half the rate of fp32, where AMD's have twice the rate. They are the cores that have fp16 arithmetic.
bool has_slow_bf16_dots() {
  return __builtin_cpu_is("intel") != 0 && __builtin_cpu_supports("avx512fp16") != 0;
}

}  // namespace

bool has_fast_bf16_dots() {
  static const bool is_fast = has_bf16_dots() && !has_slow_bf16_dots();
  return is_fast;
}

}  // namespace shoehorn::cpu
