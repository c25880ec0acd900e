#include "exec/cpu/machine_limits.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "exec/cpu/elementwise.h"
#include "exec/cpu/matmul.h"

namespace shoehorn {

namespace {

// The best of several runs: a limit is what the machine reaches when nothing is in its way.
double best_seconds(int runs, const std::function<void()>& work) {
  double best = 1e30;
  work();
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

double product_flops(DType dtype) {
  constexpr int64_t kSize = 1024;
  const auto bytes = static_cast<size_t>(kSize * kSize * 4);
  std::vector<std::byte> a(bytes), b(bytes), c(bytes);
  const auto matmul = cpu::prepare_matmul(
      {.m = kSize, .n = kSize, .k = kSize, .transpose_b = true, .operands = dtype, .result = dtype});
  std::vector<std::byte> workspace(static_cast<size_t>(matmul->workspace_bytes()) + 64);
  void* aligned = workspace.data();
  size_t space = workspace.size();
  aligned = std::align(64, static_cast<size_t>(matmul->workspace_bytes()), aligned, space);
  const double seconds =
      best_seconds(12, [&] { matmul->run(kSize, a.data(), b.data(), nullptr, c.data(), aligned); });
  return 2.0 * static_cast<double>(kSize * kSize * kSize) / seconds;
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && facts.cpu.empty();) {
    if (line.rfind("model name", 0) == 0) facts.cpu = line.substr(line.find(':') + 2);
  }
  facts.bf16_products = cpu::has_bf16_products();
  facts.isa = !__builtin_cpu_supports("avx512f") ? "AVX2"
              : facts.bf16_products              ? "AVX-512 with BF16"
                                                 : "AVX-512";
  facts.products = cpu::matmul_library();
  facts.threads = omp_get_max_threads();
  return facts;
}

MachineLimits measure_machine_limits() {
  MachineLimits limits;
  limits.fp32_flops = product_flops(DType::kF32);
  limits.bf16_flops = product_flops(DType::kBF16);
  constexpr int64_t kBytes = int64_t{128} << 20;
  std::vector<std::byte> from(static_cast<size_t>(kBytes)), to(static_cast<size_t>(kBytes));
  limits.bytes_per_second =
      2.0 * static_cast<double>(kBytes) / best_seconds(8, [&] { cpu::copy(from.data(), kBytes, to.data()); });
  return limits;
}

}  // namespace shoehorn
