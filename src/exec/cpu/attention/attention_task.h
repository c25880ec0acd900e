// Inside attention: the work of one thread on the heads of one sequence, and the layout of its scratch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/rounding.h"
#include "exec/cpu/attention/attention.h"

namespace shoehorn::cpu {

// A strip of scores is kQueryBlock rows for all keys of a key block. It should stay in the second-level cache
// together with the keys and values that it is multiplied with. A multiple of 6, the number of rows that the
// product kernel keeps in registers.
inline constexpr int64_t kQueryBlock = 48;
// Queries per forward task. Keys and values are packed once per task.
inline constexpr int64_t kForwardQueries = 11 * kQueryBlock;
inline constexpr int64_t kForwardKeys = 512;
inline constexpr int64_t kBackwardKeys = 256;

// Rows of packed matrices are padded to whole vectors of any target.
constexpr int64_t padded_head_size(int64_t head_size) {
  return round_up(head_size, 16);
}

// One sequence of a batch.
struct TaskSequence {
  TaskSequence(const AttentionBatch& batch, int64_t s)
      : first_query_row(batch.query_start[s]),
        queries(batch.query_length[s]),
        first_key_row(batch.key_start[s]),
        keys(batch.key_length[s]),
        mask(batch.mask) {}

  // The keys that a query sees.
  RowRange visible(int64_t query) const { return visible_keys(mask, query, queries, keys); }
  // The keys that any of the queries begin … end - 1 sees. There is at least one query.
  RowRange visible(int64_t begin, int64_t end) const { return {visible(begin).begin, visible(end - 1).end}; }

  int64_t first_query_row;
  int64_t queries;
  int64_t first_key_row;
  int64_t keys;
  AttentionMask mask;
};

// The scores of some queries of a sequence with some of its keys.
struct ScoreBlock {
  int64_t first_query;
  int64_t queries;
  int64_t first_key;
  int64_t keys;

  // The keys of the block that a query sees, counted from first_key.
  RowRange visible(const TaskSequence& sequence, int64_t query) const {
    const RowRange seen = sequence.visible(query);
    return {std::max<int64_t>(seen.begin - first_key, 0), std::min(seen.end - first_key, keys)};
  }
};

// The column of the bias table for a query and key 0; the next key's column is the next one.
inline int64_t bias_column(const AttentionBatch& batch, const TaskSequence& sequence, int64_t query) {
  return batch.max_key_length - 1 - (query + sequence.keys - sequence.queries);
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
ForwardLayout forward_layout(const AttentionBatch& batch);

struct BackwardLayout {
  int64_t queries;     // [Tq rounded up to even, D]
  int64_t doutput;     // likewise
  int64_t right_form;  // bf16 pairs of queries and doutput as right operands lie so far behind the left ones
  int64_t dqueries;    // [Tq, D]
  int64_t logsumexp;   // [Tq]
  int64_t delta;       // [Tq] row sums of dcontext ∘ context
  int64_t keys_transposed;    // panels, [head size, kBackwardKeys]
  int64_t values_transposed;  // panels, [head size, kBackwardKeys]
  int64_t keys;               // [kBackwardKeys, D]
  int64_t dkeys;              // [kBackwardKeys, D]; where heads share keys [Tk, D], summed over their heads
  int64_t dvalues;            // likewise
  int64_t strip;              // [kQueryBlock, strip_stride] probabilities
  int64_t dstrip;             // [kQueryBlock, strip_stride] gradients of the scores
  int64_t total;
  int64_t strip_stride;
};
BackwardLayout backward_layout(const AttentionBatch& batch);

// Computes queries [first_query, first_query + kForwardQueries) of a query head of a sequence. The workspace
// has layout.total floats.
using ForwardTask = void (*)(const AttentionForward& arguments, const ForwardLayout& layout, int64_t sequence,
                             int64_t head, int64_t first_query, float* workspace);
// Computes a whole key/value head of a sequence, with the query heads that read it. dbias is the sequence's
// own gradient of the bias, [A, bias columns], of which it writes the rows of its heads; null if it is not
// needed.
using BackwardTask = void (*)(const AttentionBackward& arguments, const BackwardLayout& layout,
                              int64_t sequence, int64_t key_value_head, float* workspace, float* dbias);

// The task for this CPU and the batch's dtype and dropout.
ForwardTask select_forward_task(const AttentionBatch& batch);
BackwardTask select_backward_task(const AttentionBatch& batch);

}  // namespace shoehorn::cpu
