// Fused attention over packed sequences of different lengths: softmax(scale · Q·Kᵀ + bias)·V and its gradient,
// without ever storing a matrix of all scores.
//
// Letters: A query heads, K key/value heads, D head size, S sequences, Lq queries and Lk keys of a sequence,
// Tq and Tk the most that any has.
//
// The idea (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
// "FlashAttention", 2022): a block of queries meets the keys block by block; a running maximum and a running
// sum rescale what has been summed so far. Backward recomputes the probabilities of a block from the stored
// log-sum-exp of each row. Blocks that the mask (base/attention_mask.h) hides whole cost nothing.
//
// Heads: K divides A, and query heads g · A/K … of a group g read key and value head g (grouped-query
// attention; multi-query with K = 1). A head is D columns, heads stand side by side. Q, K and V are each
// columns of wider rows: of one matrix, of two, or of three.
//
// Rows: the queries of sequence s occupy rows [query_start[s], query_start[s] + query_length[s]), its keys and
// values [key_start[s], …) of theirs. Sequences stand in ascending order and don't overlap; a length may be
// 0. Rows that belong to no sequence are holes: their outputs are zeros. So are the outputs and the log-sum-exp
// of a query that sees no key.
//
// Bias: what is added to the score of a query at place p (base/attention_mask.h) and key k depends on their
// distance k - p and the head, as T5's relative positions and ALiBi have it: a table [A, Tq + Tk - 1] of which
// column k - p + Tk - 1 is read, one for all sequences.
//
// Storage is f32, bf16 or f16 (one dtype for Q, K, V, context and their gradients), arithmetic is f32, and so
// are bias and log-sum-exp. Dropout masks the normalised probabilities as base/philox.h defines: position =
// query, feature = key (both counted from the start of the sequence), sample = sequence_sample[s], extra =
// query head; backward replays them.
//
// Threads: an OpenMP team of `threads` shares the heads of the sequences (backward: the key/value heads, whose
// sums over a group are taken in the order of its heads); the result is bit for bit the same whatever their
// number, and the same wherever in the batch a sequence stands. Nothing is allocated: scratch is the caller's
// workspace (64-byte aligned). Errors: InternalError for arguments that break this contract, UserError on a
// CPU without AVX2 and FMA.
#pragma once

#include <cstdint>

#include "base/attention_mask.h"
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
  const int32_t* key_start = nullptr;        // [S]; query_start where a sequence attends to itself
  const int32_t* key_length = nullptr;       // [S]
  const int32_t* sequence_sample = nullptr;  // [S] index in the effective batch; read only with dropout
  float scale = 1.0F;                        // of the scores, usually 1 / sqrt(D)
  AttentionMask mask;
  bool has_bias = false;
  const float* bias = nullptr;  // where there is one: [A, Tq + Tk - 1] by distance
  bool trains_bias = false;     // whether backward makes the gradient of the bias
  int64_t max_sequences = 0;    // the most that S is; read only then
  AttentionDropout dropout;

  int64_t group() const { return heads / key_value_heads; }
  int64_t query_columns() const { return heads * head_size; }
  int64_t key_columns() const { return key_value_heads * head_size; }
  int64_t bias_columns() const { return max_query_length + max_key_length - 1; }
};

// Columns of a matrix: head 0 of row 0, and the elements from one row to the next.
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
  const void* context = nullptr;     // [query_rows, A · D], dense
  const float* logsumexp = nullptr;  // [A, query_rows]
  HeadRows dq;                       // out: columns as of q, k and v, overwritten
  HeadRows dk;
  HeadRows dv;
  float* dbias = nullptr;  // out where it trains: [A, Tq + Tk - 1], overwritten
  int threads = 1;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;  // at least attention_backward_workspace_bytes
};

// Pure functions of the sizes and maxima in `batch` and of trains_bias. Forward grows with Tq and Tk
// to a fixed size (it works on at most 528 queries and 512 keys at a time). Backward keeps three rows of D
// floats for every query of a sequence, where heads share keys two for every key, and where the bias trains a
// table a sequence.
int64_t attention_forward_workspace_bytes(const AttentionBatch& batch, int threads);
int64_t attention_backward_workspace_bytes(const AttentionBatch& batch, int threads);

void attention_forward(const AttentionForward& arguments);
void attention_backward(const AttentionBackward& arguments);

}  // namespace shoehorn::cpu
