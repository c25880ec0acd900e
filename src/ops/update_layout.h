// The inputs of an optimizer's node:
//
//   learning_rate f32[1], updates applied so far i32[1], clip coefficient f32[1] or absent,
//   found_inf i32[1] or absent (if it is not 0 the node changes nothing),
//   then per tensor: weight (fp32; bf16 high half and 16-bit rest; or bf16), gradient, states with the
//   types in UpdateAttributes, and with UpdateAttributes::reads_sums f64 sums (ops/adafactor_sums.h)
//
// The outputs, per tensor: the next versions of all of these except the gradient and the sums.
#pragma once

#include "graph/program.h"

namespace shoehorn {

struct UpdateLayout {
  int64_t shared_inputs;
  int64_t inputs_per_tensor;
  int64_t gradient_input;  // index within a tensor's inputs; its states follow
  int64_t sums_input;      // index within a tensor's inputs, the last; -1: none
};

UpdateLayout update_layout(const Node& node);

// True if the node is an optimizer's.
bool is_update(const Node& node);

}  // namespace shoehorn
