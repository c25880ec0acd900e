// Inside attention: the work of one thread on one head of one sequence, and the layout of its scratch.
#pragma once

#include <cstdint>

#include "exec/cpu/attention.h"

namespace shoehorn::cpu {

// A strip of scores is kQueryBlock rows of all keys of a key block; it should stay in the second-level cache
// together with the keys and values it meets. A multiple of 6, the rows that the product kernel holds in
// registers.
inline constexpr int64_t kQueryBlock = 48;
// Queries of one forward task: keys and values are packed once for each.
inline constexpr int64_t kForwardQueries = 11 * kQueryBlock;
inline constexpr int64_t kForwardKeys = 512;
inline constexpr int64_t kBackwardKeys = 256;

// Rows of packed matrices are padded to whole vectors of any target.
constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr int64_t padded_head_size(int64_t head_size) {
  return round_up(head_size, 16);
}

// Offsets in floats, each a multiple of 16; D is the padded head size.
struct ForwardLayout {
  int64_t queries;  // [kForwardQueries, D]
  int64_t output;   // [kForwardQueries, D]
  int64_t keys;     // panels of transposed keys, [head size, kForwardKeys]
  int64_t values;   // [kForwardKeys, D]
  int64_t strip;    // [kQueryBlock, strip_stride]
  int64_t maximum;  // [kForwardQueries]
  int64_t sum;      // [kForwardQueries]
  int64_t total;
  int64_t strip_stride;
};
ForwardLayout forward_layout(int64_t max_sequence_length, int64_t head_size);

struct BackwardLayout {
  int64_t queries;            // [T, D]
  int64_t doutput;            // [T, D]
  int64_t dqueries;           // [T, D]
  int64_t logsumexp;          // [T]
  int64_t delta;              // [T] row sums of dcontext ∘ context
  int64_t keys_transposed;    // panels, [head size, kBackwardKeys]
  int64_t values_transposed;  // panels, [head size, kBackwardKeys]
  int64_t keys;               // [kBackwardKeys, D]
  int64_t dkeys;              // [kBackwardKeys, D]
  int64_t dvalues;            // [kBackwardKeys, D]
  int64_t strip;              // [kQueryBlock, strip_stride] probabilities
  int64_t dstrip;             // [kQueryBlock, strip_stride] gradients of the scores
  int64_t total;
  int64_t strip_stride;
};
BackwardLayout backward_layout(int64_t max_sequence_length, int64_t head_size);

// Queries [first_query, first_query + kForwardQueries) of a head of a sequence. workspace: layout.total
// floats.
using ForwardTask = void (*)(const AttentionForward& arguments, const ForwardLayout& layout, int64_t sequence,
                             int64_t head, int64_t first_query, float* workspace);
// A whole head of a sequence.
using BackwardTask = void (*)(const AttentionBackward& arguments, const BackwardLayout& layout,
                              int64_t sequence, int64_t head, float* workspace);

// The task for this CPU and the batch's dtype and dropout.
ForwardTask select_forward_task(const AttentionBatch& batch);
BackwardTask select_backward_task(const AttentionBatch& batch);

}  // namespace shoehorn::cpu
