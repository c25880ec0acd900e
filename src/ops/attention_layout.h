// Where the inputs of the attention ops stand. The gradient of each has those of its forward behind its own:
//
//   attention          (q, start, length, sample, step, k?, v?, key_start?, key_length?, bias?)
//                        -> context, logsumexp
//   attention_grad     (dcontext, context, logsumexp | …) -> dq, dk?, dv?, dbias?
//   attention_scores   (q, k, start, length, key_start?, key_length?, bias?) -> scores
//   attention_softmax  (scores, start, length, sample, step, key_start?, key_length?) -> dropped, probabilities
//   attention_context  (probabilities, v, start, length, key_start?, key_length?) -> context
//
// start and length say where the queries of each sequence lie, key_start and key_length where its keys do;
// without these two they are the same rows.
//
// The fused op reads q, k and v as columns of its values. Without a value of its own, k lies in q's and v in
// k's: so one product of query, key and value, a product of key and value beside one of the query, and three
// products serve alike. The gradient of a value has the value's type; columns that attention doesn't read are
// zero in it.
#pragma once

#include "ops/op_info.h"

namespace shoehorn {

// Positions of the inputs that a batch of sequences is bound from; -1: the op has none.
struct AttentionInputs {
  int64_t start = 0;      // length is the next
  int64_t sample = -1;    // step is the next
  int64_t key_start = 0;  // key_length is the next
  int64_t bias = -1;
};

// Of any attention op.
AttentionInputs attention_inputs(OpKind kind);

// Columns [column, column + width) of a value.
struct AttentionPart {
  int64_t input = 0;     // the value
  int64_t gradient = 0;  // the output of attention_grad that is its gradient
  int64_t column = 0;
  int64_t width = 0;
};
struct AttentionParts {
  AttentionPart q;
  AttentionPart k;
  AttentionPart v;
};

// Of attention or attention_grad.
AttentionParts attention_parts(const OpContext& context);

// Whether attention reads every column of a value that is one of its parts.
bool reads_all_columns(const OpContext& context, const AttentionParts& parts, int64_t input);

}  // namespace shoehorn
