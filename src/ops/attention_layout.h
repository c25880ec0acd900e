// The order of the inputs of the attention ops. A gradient op has its own inputs first, then those of its
// forward op:
//
//   attention          (q, start, length, sample, step, k?, v?, key_start?, key_length?, bias?)
//                        -> context, logsumexp
//   attention_grad     (dcontext, context, logsumexp | …) -> dq, dk?, dv?, dbias?
//   attention_scores   (q, k, start, length, key_start?, key_length?, bias?) -> scores
//   attention_softmax  (scores, start, length, sample, step, key_start?, key_length?) -> dropped, probabilities
//   attention_context  (probabilities, v, start, length, key_start?, key_length?) -> context
//
// start and length give the rows of each sequence's queries, key_start and key_length those of its keys.
// Without the last two, keys have the same rows as queries.
//
// The fused op reads q, k and v as columns of its input values. If k is absent, it lies in the value of q; if
// v is absent, it lies in the value of k. So the op can read one product of query, key and value; a product
// of the query and one of key and value; or three products. The gradient of a value has the value's type,
// with zeros in the columns that attention does not read.
// products serve alike. The gradient of a value has the value's type; columns that attention doesn't read are
// zero in it.
#pragma once

#include "ops/op_info.h"

namespace shoehorn {

// Indices of the inputs that describe a batch of sequences; -1: the op has none.
struct AttentionInputs {
  int64_t start = 0;      // length is the next
  int64_t sample = -1;    // step is the next
  int64_t key_start = 0;  // key_length is the next
  int64_t bias = -1;
};

// For any attention op.
AttentionInputs attention_inputs(OpKind kind);

// Columns [column, column + width) of a value.
struct AttentionPart {
  int64_t input = 0;     // index of the input value
  int64_t gradient = 0;  // index of its gradient among the outputs of attention_grad
  int64_t column = 0;
  int64_t width = 0;
};
struct AttentionParts {
  AttentionPart q;
  AttentionPart k;
  AttentionPart v;
};

// The parts of an attention or attention_grad node.
AttentionParts attention_parts(const OpContext& context);

// True if q, k and v together read every column of the value at `input`.
bool reads_all_columns(const OpContext& context, const AttentionParts& parts, int64_t input);

}  // namespace shoehorn
