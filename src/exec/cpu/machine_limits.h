// What this machine can do at most, measured: the floor under every other figure.
#pragma once

#include <algorithm>
#include <string>

#include "base/dtype.h"

namespace shoehorn {

struct MachineLimits {
  double fp32_flops = 0;  // products of 1024³, floating-point operations a second
  double bf16_flops = 0;  // the same of bf16 operands; fp32 panels where the machine has no bf16 product
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

// The best of several runs each, about a second in all; takes 0.15 GB while it runs.
MachineLimits measure_machine_limits();

}  // namespace shoehorn
