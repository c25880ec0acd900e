// The profile of the machine that a plan is made for: this machine's, from the backend, or another's, from a
// file.
//
// Workspace sizes depend on it: with other vector instructions, matrix products of the same library need
// other scratch sizes. A plan is exact only on a machine with the same profile.
//
// The file is the output of `shoehorn env --json` on that machine.
#pragma once

#include <algorithm>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace shoehorn {

// Measured rates of large operations: the lower bounds on time (floors) in reports follow from these.
struct MachineLimits {
  // Floating-point operations per second of the library's matrix products: the best of several large shapes.
  double fp32_flops = 0;
  double bf16_flops = 0;        // bf16 operands; as fp32 if the machine has no bf16 products
  double bytes_per_second = 0;  // read plus written, for an array far larger than the caches

  // The rate of products with such operands. Types without products of their own (fp16; bf16 on some
  // machines) are multiplied as fp32, so it is never below fp32's.
  double product_flops(DType operands) const {
    return operands == DType::kBF16 ? std::max(bf16_flops, fp32_flops) : fp32_flops;
  }
};

// The peak rate of the processor's arithmetic.
struct ArithmeticPeak {
  std::string name = {};  // "AVX-512 FMA"
  DType operands = DType::kF32;
  bool is_measured = false;  // false: this processor or system lacks the instructions
  double flops_one_thread = 0;
  double flops_all_threads = 0;
};

struct MachineProfile {
  std::string backend = {};   // "cpu"
  std::string cpu = {};       // model name
  std::string isa = {};       // "AVX-512 with BF16", "AVX-512", "AVX2"
  std::string products = {};  // the library of matrix products and its version: "oneDNN 2.6.3"
  int threads = 0;
  // True if operands of the type are multiplied natively, which is faster; otherwise as fp32.
  bool bf16_products = false;
  bool fp16_products = false;
  // True if kernels work in the host's own memory.
  bool device_is_host = true;

  bool has_products_of(DType operands) const {
    return operands == DType::kBF16 ? bf16_products : operands == DType::kF16 ? fp16_products : true;
  }
  bool operator==(const MachineProfile&) const = default;
};

// Another machine, as its file describes it: the profile, and what was measured there.
struct OtherMachine {
  MachineProfile profile = {};
  MachineLimits limits = {};
  int64_t available_memory_bytes = 0;  // what a process can take
  int64_t process_overhead_bytes = 0;  // what a process holds besides its arenas and its data
};

// True if plans for the two machines are equal, byte for byte. (The processor's model name does not matter.)
bool plans_alike(const MachineProfile& a, const MachineProfile& b);

// UserError "[`source`: key] expected …, got …" for a missing or unknown key, or a value of another type.
OtherMachine other_machine_from_json(const nlohmann::json& object, const std::string& source);
nlohmann::json to_json(const OtherMachine& machine, const std::vector<ArithmeticPeak>& peaks,
                       const std::string& memory_limit);

// UserError as above, or if the file does not exist; SystemError if it cannot be read.
OtherMachine load_other_machine(const std::filesystem::path& path);

}  // namespace shoehorn
