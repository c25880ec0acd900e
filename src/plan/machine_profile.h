// The machine that a plan is made for, as an input of planning: a backend's own, or one that is not here,
// read from a file.
//
// Workspaces depend on it. Products of the same library want another scratch with other instructions: a plan
// is exact where the profile is that of the machine it runs on.
//
// The file is what `shoehorn env --json` prints there.
#pragma once

#include <algorithm>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace shoehorn {

// What large operations reach, measured: the floor under every other figure.
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

// What the processor's arithmetic alone could do at most.
struct ArithmeticPeak {
  std::string name = {};  // "AVX-512 FMA"
  DType operands = DType::kF32;
  bool is_measured = false;  // false: not run, this processor or system has no such instructions
  double flops_one_thread = 0;
  double flops_all_threads = 0;
};

struct MachineProfile {
  std::string backend = {};   // "cpu"
  std::string cpu = {};       // model name
  std::string isa = {};       // "AVX-512 with BF16", "AVX-512", "AVX2"
  std::string products = {};  // the library of matrix products and its version: "oneDNN 2.6.3"
  int threads = 0;
  // Whether operands of the type are multiplied as such; else as fp32.
  bool bf16_products = false;
  bool fp16_products = false;
  // Whether the memory that kernels work in is the host's own.
  bool device_is_host = true;

  bool has_products_of(DType operands) const {
    return operands == DType::kBF16 ? bf16_products : operands == DType::kF16 ? fp16_products : true;
  }
  bool operator==(const MachineProfile&) const = default;
};

// A machine as its file describes it: the profile, and what was measured there.
struct OtherMachine {
  MachineProfile profile = {};
  MachineLimits limits = {};
  int64_t available_memory_bytes = 0;  // what a process could take
  int64_t process_overhead_bytes = 0;  // what a process holds besides its arenas and its data
};

// Whether plans for the two are the same, to the byte. (The processor's name decides nothing.)
bool plans_alike(const MachineProfile& a, const MachineProfile& b);

// UserError "[`source`: key] expected …, got …" for a key that is missing, unknown or of another kind.
OtherMachine other_machine_from_json(const nlohmann::json& object, const std::string& source);
nlohmann::json to_json(const OtherMachine& machine, const std::vector<ArithmeticPeak>& peaks,
                       const std::string& memory_limit);

// UserError as above, or where there is no such file; SystemError where it cannot be read.
OtherMachine load_other_machine(const std::filesystem::path& path);

}  // namespace shoehorn
