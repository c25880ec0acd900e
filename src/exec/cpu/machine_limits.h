// What large operations reach on this machine, measured: the floor under every other figure. What its
// arithmetic alone could do is in exec/cpu/arithmetic_peak.h.
#pragma once

#include <algorithm>
#include <string>

#include "base/dtype.h"

namespace shoehorn {

struct MachineLimits {
  // Floating-point operations a second of the library's products, of the best of several large shapes.
  double fp32_flops = 0;
  double bf16_flops = 0;        // of bf16 operands; fp32 panels where the machine has no bf16 product
  double bytes_per_second = 0;  // read and written, of an array far larger than the caches

  // Of products with operands of this type. What has no products of its own (fp16; bf16 on some machines) is
  // multiplied as fp32, so it is never below fp32's.
  double product_flops(DType operands) const {
    return operands == DType::kBF16 ? std::max(bf16_flops, fp32_flops) : fp32_flops;
  }
};

struct MachineFacts {
  std::string cpu;       // model name
  std::string isa;       // "AVX-512 with BF16", "AVX-512", "AVX2"
  std::string products;  // the library of matrix products
  int threads = 0;
  bool bf16_products = false;
};

MachineFacts machine_facts();

// The best of several runs each, a second or a few in all; takes 0.15 GB while it runs.
MachineLimits measure_machine_limits();

}  // namespace shoehorn
