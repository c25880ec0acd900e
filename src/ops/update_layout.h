// How an optimizer's node lays out its inputs:
//
//   learning_rate f32[1], updates applied so far i32[1], clip coefficient f32[1] or absent,
//   found_inf i32[1] or absent (where it is not 0 the node changes nothing),
//   then for each tensor: weight (fp32, bf16 high half and 16-bit rest, or bf16), gradient, states of
//   UpdateAttributes' types
//
// Outputs, for each tensor: the next versions of all of these but the gradient.
#pragma once

#include "graph/program.h"

namespace shoehorn {

struct UpdateLayout {
  int64_t shared_inputs;
  int64_t inputs_per_tensor;
  int64_t gradient_input;  // within a tensor's inputs; states stand behind it
};

UpdateLayout update_layout(const Node& node);

// Whether the node is an optimizer's.
bool is_update(const Node& node);

}  // namespace shoehorn
