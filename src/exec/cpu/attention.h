// Fused attention over packed sequences of different lengths: softmax(scale · Q·Kᵀ)·V and its gradient,
// without ever storing a T × T matrix.
//
// Letters: A heads, D head size, H = A · D, T tokens in a sequence, S sequences.
//
// The idea (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022): a block of queries meets the keys block by block; a running maximum and a running
// sum rescale what has been summed so far. Backward recomputes the probabilities of a block from the stored
// log-sum-exp of each row.
//
// Rows: sequence s occupies rows [sequence_start[s], sequence_start[s] + sequence_length[s]). Sequences stand
// in ascending order and don't overlap; a length may be 0. Rows that belong to no sequence are holes: their
// outputs are zeros.
//
// Storage is f32, bf16 or f16 (one dtype for qkv, context and gradients), arithmetic is f32.
// Dropout masks the normalised probabilities as base/philox.h defines: position = query, feature = key (both
// counted from the start of the sequence), sample = sequence_sample[s], extra = head; backward replays them.
//
// Threads: an OpenMP team of `threads`; the result is bit for bit the same whatever their number, and the
// same wherever in the batch a sequence stands. Nothing is allocated: scratch is the caller's workspace
// (64-byte aligned). Errors: InternalError for arguments that break this contract, UserError on a CPU without
// AVX2 and FMA.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

struct AttentionDropout {
  float p = 0.0F;  // [0, 1); 0 is off, and then the rest is not read
  uint64_t seed = 0;
  uint32_t stream_id = 0;
  const uint32_t* step = nullptr;
};

// What every attention kernel needs to know of a batch.
struct AttentionBatch {
  DType dtype = DType::kF32;                 // kF32, kBF16 or kF16
  int64_t rows = 0;                          // rows of qkv and context, holes included
  int64_t heads = 0;                         // A
  int64_t head_size = 0;                     // D
  int64_t max_sequence_length = 0;           // no sequence of this batch is longer
  int64_t sequences = 0;                     // S, at run time
  const int32_t* sequence_start = nullptr;   // [S]
  const int32_t* sequence_length = nullptr;  // [S]
  const int32_t* sequence_sample = nullptr;  // [S] index in the effective batch; read only with dropout
  float scale = 1.0F;                        // of the scores, usually 1 / sqrt(D)
  bool causal = false;                       // query q sees keys 0 … q
  AttentionDropout dropout;
};

struct AttentionForward {
  AttentionBatch batch;
  const void* qkv = nullptr;   // [rows, 3H]: Q in columns [0, H), K in [H, 2H), V in [2H, 3H)
  int64_t qkv_stride = 0;      // elements from one row to the next, at least 3H
  void* context = nullptr;     // out: [rows, H]
  float* logsumexp = nullptr;  // out: [A, rows], natural logarithm; 0 in holes
  int threads = 1;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;  // at least attention_forward_workspace_bytes
};

struct AttentionBackward {
  AttentionBatch batch;            // as in the forward pass
  const void* dcontext = nullptr;  // [rows, H]
  const void* qkv = nullptr;       // [rows, 3H]
  int64_t qkv_stride = 0;
  const void* context = nullptr;     // [rows, H]
  const float* logsumexp = nullptr;  // [A, rows]
  void* dqkv = nullptr;              // out: [rows, 3H], overwritten
  int64_t dqkv_stride = 0;
  int threads = 1;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;  // at least attention_backward_workspace_bytes
};

// Pure functions of the shapes. Forward grows with max_sequence_length to a fixed size (it works on at most
// 528 queries and 512 keys at a time); backward keeps three rows of D floats for every query of a sequence.
int64_t attention_forward_workspace_bytes(int64_t max_sequence_length, int64_t heads, int64_t head_size,
                                          int threads);
int64_t attention_backward_workspace_bytes(int64_t max_sequence_length, int64_t heads, int64_t head_size,
                                           int threads);

void attention_forward(const AttentionForward& arguments);
void attention_backward(const AttentionBackward& arguments);

}  // namespace shoehorn::cpu
