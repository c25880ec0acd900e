// Fused attention over packed sequences of different lengths: softmax(scale · Q·Kᵀ + bias)·V and its
// gradient. The full matrix of scores is never stored.
//
// Letters: A query heads, K key/value heads, D head size, S sequences, Lq queries and Lk keys of a sequence,
// Tq and Tk the largest of each.
//
// The algorithm (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022): a block of queries visits the keys block by block; a running maximum and a running
// sum rescale what has been summed so far. The backward recomputes the probabilities of a block from the
// stored log-sum-exp of each row. Blocks that the mask (base/attention_mask.h) hides entirely cost nothing.
//
// Heads: K divides A, and query heads g · A/K … of a group g read key and value head g (grouped-query
// attention; multi-query with K = 1). A head is D columns, heads stand side by side. Q, K and V are each
// columns of wider rows: of one matrix, of two, or of three.
//
// Rows: the queries of sequence s are rows [query_start[s], query_start[s] + query_length[s]); its keys and
// values are rows [key_start[s], key_start[s] + key_length[s]) of their matrices. Sequences are in ascending
// order and do not overlap; a length may be 0. Rows that belong to no sequence are holes: their outputs are
// zeros. So are the outputs and the log-sum-exp of a query that sees no key.
//
// Bias: a term that is added to the score of a query at position p (base/attention_mask.h) and key k. It
// depends on the distance k - p and the head, as in T5's relative positions and in ALiBi: one table
// [A, Tq + Tk - 1] for all sequences, of which column k - p + Tk - 1 is read.
//
// Storage is f32, bf16 or f16 (one dtype for Q, K, V, context and their gradients), arithmetic is f32, and so
// are bias and log-sum-exp. On a processor with fast dot products of bf16 pairs, probabilities and the gradients of
// scores of bf16 attention are rounded to bf16 before they are multiplied, as PyTorch's fused attention rounds
// them; all sums stay f32. Dropout masks the normalised probabilities as base/philox.h defines: position =
// query, feature = key (both counted from the start of the sequence), sample = sequence_sample[s], extra =
// query head; backward replays them.
//
// Threads: an OpenMP team of `threads` shares the heads of the sequences (in the backward the key/value
// heads; sums over a group run in the order of its query heads). The result is bit-identical for any number
// of threads and any position of a sequence in the batch. Nothing is allocated: scratch is the caller's
// workspace (64-byte aligned). Errors: InternalError for arguments that break this contract, UserError on a
// CPU without AVX2 and FMA.
#pragma once

#include <cstdint>

#include "base/attention_mask.h"
#include "base/dtype.h"

namespace shoehorn::cpu {

struct AttentionDropout {
  float p = 0.0F;  // [0, 1); 0: no dropout, the other members are not read
  uint64_t seed = 0;
  uint32_t stream_id = 0;
  const uint32_t* step = nullptr;
};

// The arguments that all attention kernels share.
struct AttentionBatch {
  DType dtype = DType::kF32;                 // kF32, kBF16 or kF16
  int64_t query_rows = 0;                    // rows of Q and context, holes included
  int64_t key_rows = 0;                      // rows of K and V, holes included
  int64_t heads = 0;                         // A
  int64_t key_value_heads = 0;               // K
  int64_t head_size = 0;                     // D
  int64_t max_query_length = 0;              // Tq
  int64_t max_key_length = 0;                // Tk
  int64_t sequences = 0;                     // S, at run time
  const int32_t* query_start = nullptr;      // [S]
  const int32_t* query_length = nullptr;     // [S]
  const int32_t* key_start = nullptr;        // [S]; query_start for self-attention
  const int32_t* key_length = nullptr;       // [S]
  const int32_t* sequence_sample = nullptr;  // [S] index in the effective batch; read only with dropout
  float scale = 1.0F;                        // of the scores, usually 1 / sqrt(D)
  AttentionMask mask;
  bool has_bias = false;
  const float* bias = nullptr;  // if has_bias: [A, Tq + Tk - 1] by distance
  bool trains_bias = false;     // whether the backward computes the bias's gradient
  int64_t max_sequences = 0;    // the maximum of S; read only if trains_bias
  AttentionDropout dropout;

  int64_t group() const { return heads / key_value_heads; }
  int64_t query_columns() const { return heads * head_size; }
  int64_t key_columns() const { return key_value_heads * head_size; }
  int64_t bias_columns() const { return max_query_length + max_key_length - 1; }
};

// Some columns of a matrix: the address of head 0 in row 0, and the number of elements from one row to the
// next.
struct ConstHeadRows {
  const void* data = nullptr;
  int64_t stride = 0;
};
struct HeadRows {
  void* data = nullptr;
  int64_t stride = 0;
};

struct AttentionForward {
  AttentionBatch batch;
  ConstHeadRows q;             // [query_rows, A · D]
  ConstHeadRows k;             // [key_rows, K · D]
  ConstHeadRows v;             // [key_rows, K · D]
  void* context = nullptr;     // out: [query_rows, A · D], dense
  float* logsumexp = nullptr;  // out: [A, query_rows], natural logarithm
  int threads = 1;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;  // at least attention_forward_workspace_bytes
};

struct AttentionBackward {
  AttentionBatch batch;            // as in the forward pass
  const void* dcontext = nullptr;  // [query_rows, A · D], dense
  ConstHeadRows q;                 // as in the forward pass
  ConstHeadRows k;
  ConstHeadRows v;
  const void* context = nullptr;     // [query_rows, A · D], dense, as the forward pass wrote it
  const float* logsumexp = nullptr;  // [A, query_rows], likewise
  HeadRows dq;                       // out: laid out as q, k and v; overwritten
  HeadRows dk;
  HeadRows dv;
  float* dbias = nullptr;  // out if trains_bias: [A, Tq + Tk - 1], overwritten
  int threads = 1;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;  // at least attention_backward_workspace_bytes
};

// Pure functions of the sizes and maxima in `batch` and of trains_bias. The forward's workspace grows with Tq
// and Tk up to a fixed size (at most 528 queries and 512 keys are processed at a time). The backward's has
// three rows of D floats per query of a sequence; two per key if heads share keys; and one bias table per
// sequence if the bias is trained.
int64_t attention_forward_workspace_bytes(const AttentionBatch& batch, int threads);
int64_t attention_backward_workspace_bytes(const AttentionBatch& batch, int threads);

void attention_forward(const AttentionForward& arguments);
void attention_backward(const AttentionBackward& arguments);

}  // namespace shoehorn::cpu
