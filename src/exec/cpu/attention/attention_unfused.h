// Attention as separate ops, each with its gradient. It runs if fusion is switched off, and tests compare the
// fused kernel with it. Plain loops; each head's whole matrix of scores is stored.
//
//   scores = attention_scores(q, k)           context = attention_context(dropped, v)
//   probabilities = attention_softmax(scores) dropped = attention_dropout(probabilities)
//
// Letters, masks, grouped heads, bias and inputs are as in attention.h. Scores, probabilities and their
// gradients are f32 [A, query_rows, Tk]: column k of a row is key k of that row's sequence. Columns of keys
// that a query does not see are -inf in the scores and 0 elsewhere; so are rows in holes. q, k, v, context
// and their gradients have batch.dtype; context is dense.
//
// Threads: the OpenMP team shares the key/value heads; results don't depend on its size. Nothing is allocated.
// In-place use (out == in) is allowed for softmax, dropout and softmax_backward. Errors: InternalError for a
// dtype other than f32, bf16 and f16.
#pragma once

#include <cstdint>

#include "exec/cpu/attention/attention.h"

namespace shoehorn::cpu {

// scale · q · k + bias.
void attention_scores(const AttentionBatch& batch, const ConstHeadRows& q, const ConstHeadRows& k,
                      float* scores);
// dscores -> dq, dk and, if the bias is trained, dbias [A, Tq + Tk - 1].
void attention_scores_backward(const AttentionBatch& batch, const float* dscores, const ConstHeadRows& q,
                               const ConstHeadRows& k, const HeadRows& dq, const HeadRows& dk, float* dbias);

void attention_softmax(const AttentionBatch& batch, const float* scores, float* probabilities);
void attention_softmax_backward(const AttentionBatch& batch, const float* dprobabilities,
                                const float* probabilities, float* dscores);

// The masks of the fused kernel. Its own gradient.
void attention_dropout(const AttentionBatch& batch, const float* probabilities, float* dropped);

// probabilities · v -> context [query_rows, A · D].
void attention_context(const AttentionBatch& batch, const float* probabilities, const ConstHeadRows& v,
                       void* context);
// dcontext [query_rows, A · D] -> dprobabilities, dv.
void attention_context_backward(const AttentionBatch& batch, const void* dcontext, const float* probabilities,
                                const ConstHeadRows& v, float* dprobabilities, const HeadRows& dv);

}  // namespace shoehorn::cpu
