#include "exec/cpu/arithmetic_peak.h"

#include <cpuid.h>
#include <immintrin.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "exec/cpu/settled_best.h"

namespace shoehorn::cpu {

namespace {

// As many accumulators as hide the latency of an addition on two units, with registers left for the operands.
constexpr int kWideAccumulators = 24;    // of 32 registers
constexpr int kNarrowAccumulators = 12;  // of 16

// A value that the compiler does not know, so that it can neither fold nor shorten the loop.
template <typename T>
T opaque(T value) {
  volatile T hidden = value;
  return hidden;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0;
}

bool has_avx512_bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512bf16") != 0;
}

// Linux gives a process the tile registers on request (arch_prctl(2), ARCH_REQ_XCOMP_PERM of
// XFEATURE_XTILEDATA).
bool has_amx_bf16() {
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr unsigned kAmxTile = 1U << 24;
  constexpr int64_t kRequestPermission = 0x1023;
  constexpr int64_t kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

__attribute__((target("avx2,fma"))) double run_avx2(int64_t iterations) {
  const __m256 one = _mm256_set1_ps(opaque(1.0F));
  __m256 sums[kNarrowAccumulators];  // no std::array: it drops the type's alignment attribute
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kNarrowAccumulators; ++j) sums[j] = _mm256_fmadd_ps(one, one, sums[j]);
  }
  double total = 0;
  for (const __m256& sum : sums) {
    alignas(32) std::array<float, 8> lanes;
    _mm256_store_ps(lanes.data(), sum);
    for (const float lane : lanes) total += lane;
  }
  return total;
}

__attribute__((target("avx512f"))) double total_of(const __m512* sums, int count) {
  double total = 0;
  for (int j = 0; j < count; ++j) {
    alignas(64) std::array<float, 16> lanes;
    _mm512_store_ps(lanes.data(), sums[j]);
    for (const float lane : lanes) total += lane;
  }
  return total;
}

__attribute__((target("avx512f"))) double run_avx512(int64_t iterations) {
  const __m512 one = _mm512_set1_ps(opaque(1.0F));
  __m512 sums[kWideAccumulators];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int j = 0; j < kWideAccumulators; ++j) sums[j] = _mm512_fmadd_ps(one, one, sums[j]);
  }
  return total_of(sums, kWideAccumulators);
}

__attribute__((target("avx512f,avx512bf16"))) double run_avx512_bf16(int64_t iterations) {
  constexpr int kTwoOnes = 0x3f803f80;
  const auto ones = reinterpret_cast<__m512bh>(_mm512_set1_epi32(opaque(kTwoOnes)));
  __m512 sums[kWideAccumulators];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 24
    for (int j = 0; j < kWideAccumulators; ++j) sums[j] = _mm512_dpbf16_ps(sums[j], ones, ones);
  }
  return total_of(sums, kWideAccumulators);
}

// Four tiles of sums from two tiles of either operand: each holds 16 rows of 64 bytes.
__attribute__((target("amx-tile,amx-bf16"))) double run_amx_bf16(int64_t iterations) {
  struct alignas(64) TileConfig {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    std::array<uint8_t, 14> reserved = {};
    std::array<uint16_t, 16> row_bytes = {64, 64, 64, 64, 64, 64, 64, 64};
    std::array<uint8_t, 16> rows = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static_assert(sizeof(TileConfig) == 64);
  const TileConfig config;
  alignas(64) std::array<uint16_t, 512> ones;
  ones.fill(opaque<uint16_t>(0x3f80));
  alignas(64) std::array<float, 256> sums = {};
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, ones.data(), 64);
  _tile_loadd(5, ones.data(), 64);
  _tile_loadd(6, ones.data(), 64);
  _tile_loadd(7, ones.data(), 64);
  for (int64_t i = 0; i < iterations; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  double total = 0;
  const auto add = [&] {
    for (const float sum : sums) total += sum;
  };
  _tile_stored(0, sums.data(), 64);
  add();
  _tile_stored(1, sums.data(), 64);
  add();
  _tile_stored(2, sums.data(), 64);
  add();
  _tile_stored(3, sums.data(), 64);
  add();
  _tile_release();
  return total;
}

// The best of several runs on `threads` threads; a run is long beside the start of a team.
double measure(const ArithmeticLoop& loop, int threads) {
  constexpr size_t kRuns = 5;
  constexpr double kMostSeconds = 0.3;
  constexpr int kCalls = 8;
  double multiply_adds = 0;  // of a run
  const double seconds = settled_best_seconds(kRuns, kMostSeconds, [&] {
    double done = 0;
    const auto start = std::chrono::steady_clock::now();
#pragma omp parallel num_threads(threads) reduction(+ : done)
    for (int call = 0; call < kCalls; ++call) done += loop.run(kMaxIterations);
    multiply_adds = done;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
  return 2 * multiply_adds / seconds;
}

}  // namespace

const std::vector<ArithmeticLoop>& arithmetic_loops() {
  static const std::vector<ArithmeticLoop> loops = {
      {"AVX2 FMA", DType::kF32, has_avx2, run_avx2},
      {"AVX-512 FMA", DType::kF32, has_avx512, run_avx512},
      {"AVX-512 BF16 dot products", DType::kBF16, has_avx512_bf16, run_avx512_bf16},
      {"AMX bf16 tiles", DType::kBF16, has_amx_bf16, run_amx_bf16},
  };
  return loops;
}

std::vector<ArithmeticPeak> measure_arithmetic_peaks() {
  std::vector<ArithmeticPeak> peaks;
  for (const ArithmeticLoop& loop : arithmetic_loops()) {
    ArithmeticPeak& peak = peaks.emplace_back();
    peak.name = loop.name;
    peak.operands = loop.operands;
    peak.is_measured = loop.is_available();
    if (!peak.is_measured) continue;
    peak.flops_one_thread = measure(loop, 1);
    peak.flops_all_threads = measure(loop, omp_get_max_threads());
  }
  return peaks;
}

}  // namespace shoehorn::cpu
