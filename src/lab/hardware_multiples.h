// The multiples of tensor sizes that matrix products prefer, by dtype and device: NVIDIA's for Tensor Cores,
// as the efficient-training guides cite them from its guide to matrix multiplication; and those of this
// processor's vectors.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "lab/text_table.h"
#include "model/model.h"
#include "plan/device_catalog.h"
#include "plan/machine_profile.h"

namespace shoehorn {

struct HardwareMultiple {
  std::string dtype;
  std::string device;
  int64_t multiple = 1;      // in elements
  bool is_this_run = false;  // this processor, with the dtype of the run's products
};

// All rows, including that of this run. `operands` is float32, bfloat16 or float16.
std::vector<HardwareMultiple> hardware_multiples(DType operands, const MachineProfile& machine);

// The same of a machine of the catalogue, of whose processors the vectors are not known: this run's row is the one of its Tensor
// Cores, and there is none where they do not multiply such operands.
std::vector<HardwareMultiple> hardware_multiples(DType operands, const Device& device);

// For people: which of the sizes are no multiples that this run's row likes, and the next ones that are. Empty if all are, or
// no row is this run's.
std::string disliked_sizes_notice(const std::vector<HardwareMultiple>& multiples,
                                  const std::vector<NamedSize>& sizes);

TextTable multiples_table(const std::vector<HardwareMultiple>& multiples);
// Each size compared with this run's multiple; if it is no multiple, also the next size that is.
TextTable sizes_table(const std::vector<HardwareMultiple>& multiples, const std::vector<NamedSize>& sizes);

// What else leaves processors idle: tile and wave quantisation, with this machine's number of `threads`.
std::string quantisation_text(int threads);

nlohmann::ordered_json multiples_to_json(const std::vector<HardwareMultiple>& multiples);
nlohmann::ordered_json sizes_to_json(const std::vector<HardwareMultiple>& multiples,
                                     const std::vector<NamedSize>& sizes);

}  // namespace shoehorn
