// What vocabulary_loss.h does with a block of tokens besides its products, row by row. Private to vocabulary_loss.cc.
//
// A block is `count` tokens with a label, and behind them rows of zeros up to `padded`, as products have them. A chunk
// is entries [first, first + columns) of the vocabulary. OpenMP threads; results do not depend on their number.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

// A token of a block, with what is known of its logits.
struct VocabularyRow {
  int32_t token = 0;
  int32_t label = 0;
  float maximum = 0;
  float sum = 0;  // of exp(logit - maximum)
  float label_logit = 0;
  bool is_first = false;  // no entry before the label reaches the label's logit
  double logits_sum = 0;  // where labels are smoothed
};

struct VocabularyBlock {
  VocabularyRow* rows = nullptr;
  int64_t count = 0;
  int64_t padded = 0;
  int64_t hidden = 0;
  int64_t vocabulary = 0;
  float label_smoothing = 0;
  float z_loss = 0;
  float factor = 1;  // gradient of the loss, over the number of targets
};

struct VocabularyChunk {
  int64_t first = 0;
  int64_t columns = 0;
  float* logits = nullptr;  // [padded, columns]
};

// to[padded, H] = rows of x[N, H]; of another type where the products want one.
void gather_block(const VocabularyBlock& block, DType dtype, const void* x, DType operands, void* to);

// Maxima, sums, and the label's logits with one more chunk.
void add_statistics(const VocabularyBlock& block, const VocabularyChunk& chunk);

// to[padded, columns] = the gradient of the logits, from the rows' maxima and sums; may be the logits.
void make_logit_gradients(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands,
                          void* to);

// add_statistics(), with to[padded, columns] = exp(logit - maximum so far); may be the logits. Where a maximum grows,
// its row of sums[padded, H] is scaled to it. maxima[padded] are the maxima so far. Null: without sums, without maxima.
void make_exponentials(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands, void* to,
                       float* sums, float* maxima);

// Of rows whose label is in the chunk that label's exponential becomes zero: its gradient is a difference that rounding
// must not reach. See add_label_gradients().
void clear_labels(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands,
                  void* exponentials);

// to[padded, H] = x[padded, H], each row times what makes its exponentials of a chunk gradients of its logits, given the
// maxima that they were made with. Rows whose maximum is that of `maxima_before`, unless null, are there already.
void scale_rows(const VocabularyBlock& block, const float* maxima, const float* maxima_before, DType operands,
                const void* x, void* to);

// dweight[columns, H], a chunk's, += the gradient of each label's logit · its row of x[padded, H].
void add_label_gradients(const VocabularyBlock& block, const VocabularyChunk& chunk, DType operands,
                         const void* x, float* dweight);

// Where labels are smoothed: dweight[V, H] -= the share that is each entry's · row_sums[H], the sum of all rows of x.
void subtract_even_share(const VocabularyBlock& block, const float* row_sums, float* dweight);

// Rows of dx[N, H] = rows of sums[padded, H].
void store_block(const VocabularyBlock& block, const float* sums, DType dtype, void* dx);

// The same where the sums are those of make_exponentials(), by W[V, H]; `weight_sums` [H], its column sums, are read
// where labels are smoothed.
void store_block_of_exponentials(const VocabularyBlock& block, const float* sums, const void* weight,
                                 const float* weight_sums, DType dtype, void* dx);

// Rows of dx[N, H] whose label is ignored, of tokens [first, last), become zero.
void clear_ignored_rows(const int32_t* labels, int64_t first, int64_t last, int64_t hidden, DType dtype,
                        void* dx);

// sums[H] += rows [R, H] of a matrix, added up.
void add_column_sums(DType dtype, int64_t rows, int64_t hidden, const void* matrix, float* sums);

// The loss of a token, behind the last chunk; not over the number of targets.
float loss_of_row(const VocabularyBlock& block, const VocabularyRow& row);

}  // namespace shoehorn::cpu
