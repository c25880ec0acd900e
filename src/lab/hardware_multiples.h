// Multiples of sizes that products like, by dtype and device: NVIDIA's for Tensor Cores, as the
// efficient-training guides cite them from its guide to matrix multiplication, and those of this processor's
// vectors.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "lab/text_table.h"
#include "model/model.h"
#include "plan/machine_profile.h"

namespace shoehorn {

struct HardwareMultiple {
  std::string dtype;
  std::string device;
  int64_t multiple = 1;      // of elements
  bool is_this_run = false;  // this processor, and what the run's products are of
};

// The row of this run is one of them. `operands` is float32, bfloat16 or float16.
std::vector<HardwareMultiple> hardware_multiples(DType operands, const MachineProfile& machine);

TextTable multiples_table(const std::vector<HardwareMultiple>& multiples);
// Each size against the multiple of this run, and the next size that is one where it is none.
TextTable sizes_table(const std::vector<HardwareMultiple>& multiples, const std::vector<NamedSize>& sizes);

// What beyond multiples leaves processors idle; `threads` are this machine's.
std::string quantisation_text(int threads);

nlohmann::ordered_json multiples_to_json(const std::vector<HardwareMultiple>& multiples);
nlohmann::ordered_json sizes_to_json(const std::vector<HardwareMultiple>& multiples,
                                     const std::vector<NamedSize>& sizes);

}  // namespace shoehorn
