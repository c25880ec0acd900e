#include "exec/cpu/machine_limits.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "exec/cpu/elementwise/elementwise.h"
#include "exec/cpu/products/matmul.h"
#include "exec/cpu/settled_best.h"

namespace shoehorn::cpu {

namespace {

// Of one kernel and size: where runs take no longer there are kMostRuns of them, and where other processes slow them down none
// begins after kMostSeconds.
constexpr double kLeastSeconds = 0.1;
constexpr double kMostSeconds = 0.3;
constexpr double kLeastRuns = 3;
constexpr double kMostRuns = 8;

double best_seconds(const std::function<void()>& work) {
  const auto timed = [&work] {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double runs = std::clamp(kLeastSeconds / timed(), kLeastRuns, kMostRuns);
  return settled_best_seconds(static_cast<size_t>(runs), kMostSeconds, timed);
}

struct ProductSize {
  int64_t m, n, k;
};

// A cube, and the products of a transformer's layers over many tokens. If one shape's panels do not suit the
// library's blocks, another's do.
constexpr std::array<ProductSize, 3> kLargeProducts = {
    {{1024, 1024, 1024}, {4096, 768, 768}, {1024, 3072, 1024}}};

double product_flops(DType dtype, const ProductSize& size) {
  const auto bytes_of = [](int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns * 4); };
  std::vector<std::byte> a(bytes_of(size.m, size.k)), b(bytes_of(size.n, size.k)),
      c(bytes_of(size.m, size.n));
  const auto matmul = prepare_matmul(
      {.m = size.m, .n = size.n, .k = size.k, .transpose_b = true, .operands = dtype, .result = dtype});
  std::vector<std::byte> workspace(static_cast<size_t>(matmul->workspace_bytes()) + 64);
  void* aligned = workspace.data();
  size_t space = workspace.size();
  aligned = std::align(64, static_cast<size_t>(matmul->workspace_bytes()), aligned, space);
  const double seconds =
      best_seconds([&] { matmul->run(size.m, a.data(), b.data(), nullptr, c.data(), aligned); });
  return 2.0 * static_cast<double>(size.m * size.n * size.k) / seconds;
}

double product_flops(DType dtype) {
  double best = 0;
  for (const ProductSize& size : kLargeProducts) best = std::max(best, product_flops(dtype, size));
  return best;
}

// In place, as updates work; a copy would also read its destination before writing it, which is not counted.
// On huge pages, like arenas.
double memory_bytes_per_second() {
  constexpr int64_t kBytes = int64_t{128} << 20;
  constexpr size_t kHugePage = size_t{2} << 20;
  const std::unique_ptr<float, decltype(&std::free)> values(
      static_cast<float*>(std::aligned_alloc(kHugePage, static_cast<size_t>(kBytes))), &std::free);
  if (values == nullptr) throw system_error("[memory bandwidth] expected {} bytes, got none", kBytes);
  madvise(values.get(), static_cast<size_t>(kBytes), MADV_HUGEPAGE);
  const int64_t count = kBytes / static_cast<int64_t>(sizeof(float));
  fill({.dtype = DType::kF32, .count = count, .value = 1, .y = values.get()});
  const float one = 1;
  const double seconds = best_seconds([&] {
    scale({.dtype = DType::kF32, .count = count, .x = values.get(), .factor = &one, .y = values.get()});
  });
  return 2.0 * static_cast<double>(kBytes) / seconds;
}

}  // namespace

MachineProfile machine_profile(int threads) {
  MachineProfile profile;
  profile.backend = "cpu";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && profile.cpu.empty();) {
    if (line.rfind("model name", 0) == 0)
      profile.cpu = line.substr(std::min(line.size(), line.find(':') + 2));
  }
  profile.bf16_products = cpu::has_products_of(DType::kBF16);
  profile.fp16_products = cpu::has_products_of(DType::kF16);
  profile.isa = !__builtin_cpu_supports("avx512f")     ? "AVX2"
                : __builtin_cpu_supports("avx512bf16") ? "AVX-512 with BF16"
                                                       : "AVX-512";
  profile.products = matmul_library();
  profile.threads = threads;
  return profile;
}

MachineLimits measure_machine_limits() {
  MachineLimits limits;
  limits.fp32_flops = product_flops(DType::kF32);
  limits.bf16_flops = has_products_of(DType::kBF16) ? product_flops(DType::kBF16) : limits.fp32_flops;
  limits.bytes_per_second = memory_bytes_per_second();
  return limits;
}

}  // namespace shoehorn::cpu
