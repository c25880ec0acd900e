// Attention as separate steps, each with its gradient: what runs where fusion is switched off, and what the
// fused kernel is compared with. Plain loops; every head's whole matrix of scores is stored.
//
//   scores = attention_scores(q, k)           context = attention_context(dropped, v)
//   probabilities = attention_softmax(scores) dropped = attention_dropout(probabilities)
//
// Letters as in attention.h; T is batch.max_sequence_length. Scores, probabilities and their gradients are
// f32 [A, rows, T]: column k of a row is key k of the row's own sequence. Columns that a query doesn't see
// are -inf in the scores and 0 elsewhere; rows in holes likewise. q, k, v, context and their gradients are of
// batch.dtype; `stride` is the number of elements from one row of q, k or v to the next.
//
// Threads: the OpenMP team shares the heads; results don't depend on its size. Nothing is allocated. In-place
// use (out == in) is allowed for softmax, dropout and softmax_backward. Errors: InternalError for a dtype
// other than f32, bf16 and f16.
#pragma once

#include <cstdint>

#include "exec/cpu/attention.h"

namespace shoehorn::cpu {

// q, k [rows, H] -> scores: scale · q · k.
void attention_scores(const AttentionBatch& batch, const void* q, const void* k, int64_t stride,
                      float* scores);
// dscores -> dq, dk, with the stride of q and k.
void attention_scores_backward(const AttentionBatch& batch, const float* dscores, const void* q,
                               const void* k, int64_t stride, void* dq, void* dk);

void attention_softmax(const AttentionBatch& batch, const float* scores, float* probabilities);
void attention_softmax_backward(const AttentionBatch& batch, const float* dprobabilities,
                                const float* probabilities, float* dscores);

// The masks of the fused kernel. Its own gradient.
void attention_dropout(const AttentionBatch& batch, const float* probabilities, float* dropped);

// probabilities, v [rows, H] -> context [rows, H], dense.
void attention_context(const AttentionBatch& batch, const float* probabilities, const void* v, int64_t stride,
                       void* context);
// dcontext [rows, H], dense -> dprobabilities, and dv with the stride of v.
void attention_context_backward(const AttentionBatch& batch, const void* dcontext, const float* probabilities,
                                const void* v, int64_t stride, float* dprobabilities, void* dv);

}  // namespace shoehorn::cpu
