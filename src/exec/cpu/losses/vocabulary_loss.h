// Cross-entropy of a vocabulary: of logits = x · Wᵀ that are never there as a whole, with the gradients of x and W.
//
// N tokens, H hidden, V vocabulary; x [N, H] and W [V, H] are row-major and dense, both float32, bfloat16 or float16
// (checked: InternalError). Products accumulate in float32; logits, statistics and dW are float32, and so are dx's sums
// until they are stored. The loss and its gradient are loss.h's, with p = softmax(x · Wᵀ).
//
// Work goes by blocks of R tokens with a label; tokens that are ignored are not in any block. Of a block, logits are made
// in chunks of C entries of the vocabulary. What is computed decides how:
//
//   loss                    of each chunk a running maximum and sum                                          1 product
//   gradients               logits again; p of them in their place; dx += p · W, dW += pᵀ · x                2 or 3
//   both, W trained         a block keeps its logits: R · V floats. Or it makes them twice: 1 product more, but a block
//                           of a smaller part of the vocabulary can have more tokens; see below.             3 (4)
//   both, W frozen          of each chunk e = exp(logits - running maximum), dx += e · W, where a new maximum scales
//                           what dx has so far, as attention in blocks does; p = e / sum at the end          2
//
// A block reads W once for the logits and once for dx, unless a chunk is in the cache both times, and reads and writes
// all of dW: W and dW together are what a block costs besides its products, ceil(N / R) times. So kept logits are worth
// their product where R is large: the choice is the smaller of
//
//   products · 2NVH / kFlopsPerByte + ceil(N / R) · VH · (bytes of W, twice, + 8)
//
// The workspace is R · V (kept) or R · C logits, the block's rows of x and sums of dx, and a chunk of W in float32 where
// the machine multiplies only that, and what the library's products ask for. C is about 2048, and R the largest of up to
// 1024 with which all but the last stays within kVocabularyWorkspaceBytes, however many tokens or entries there are.
//
// Results depend on the number of threads only where the library's products do: some of H below 128. Nothing is allocated
// by run().
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "exec/cpu/products/matmul.h"

namespace shoehorn::cpu {

inline constexpr int64_t kVocabularyWorkspaceBytes = int64_t{112} << 20;

struct VocabularyLossShape {
  DType dtype = DType::kF32;
  int64_t tokens = 0;  // the most of a run
  int64_t hidden = 0;
  int64_t vocabulary = 0;
  bool gives_loss = true;  // else the statistics are inputs
  bool gives_dx = false;
  bool gives_dweight = false;
  int64_t most_workspace_bytes = kVocabularyWorkspaceBytes;  // besides the products' own
};

struct VocabularyLossCall {
  int64_t tokens = 0;  // N
  float label_smoothing = 0;
  float z_loss = 0;
  const void* x = nullptr;                // [N, H]
  const void* weight = nullptr;           // [V, H]
  const int32_t* labels = nullptr;        // [N]; kIgnoredLabel: none
  const float* target_count = nullptr;    // [1]
  const float* gradient_scale = nullptr;  // [1] gradient of the loss itself, or null: 1
  // Out with the loss, else in: the largest logit of a token, and the sum of exp(logit - largest); 0 and 1 of ignored
  // tokens.
  float* row_maximum = nullptr;  // [N]
  float* row_sum = nullptr;      // [N]
  float* loss = nullptr;         // [1]
  float* right = nullptr;        // [1] how many labels are at the first of the largest logits
  bool accumulate_loss = false;
  void* dx = nullptr;        // [N, H] of x's type; may be x
  float* dweight = nullptr;  // [V, H]
  bool accumulate_dweight = false;
  void* workspace = nullptr;  // 64-byte aligned
};

// The work on calls of a shape, planned. Not to be run by two threads at once.
class VocabularyLoss {
 public:
  explicit VocabularyLoss(const VocabularyLossShape& shape);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Call it before run(), from one thread only.
  void compile() const;
  // UserError for a label outside of the vocabulary, before anything is written.
  void run(const VocabularyLossCall& call) const;

  // How the work is cut, for tests and benchmarks.
  int64_t block_rows() const { return rows_; }
  int64_t chunk_columns() const { return columns_; }
  bool keeps_logits() const { return keeps_logits_; }

 private:
  enum class Work : uint8_t { kLoss, kGradients, kBoth, kBothOfFrozenWeight };
  class Run;

  // The products of a chunk: of the usual size, and of what is left at the end of the vocabulary.
  struct ChunkProducts {
    std::shared_ptr<const Matmul> logits;         // x · Wᵀ
    std::shared_ptr<const Matmul> dx;             // += p · W
    std::shared_ptr<const Matmul> first_dweight;  // = pᵀ · x
    std::shared_ptr<const Matmul> dweight;        // += pᵀ · x
  };

  void choose_sizes();
  ChunkProducts plan_products(int64_t columns) const;
  template <typename Visit>
  void for_each_product(const Visit& visit) const;
  int64_t bytes_of(int64_t rows, int64_t columns, bool keeps_logits) const;
  int64_t most_rows(int64_t columns, bool keeps_logits) const;
  double cost(int64_t rows, bool keeps_logits) const;
  void lay_out();

  VocabularyLossShape shape_;
  DType operands_;  // of the products: dtype, or float32
  Work work_;
  int64_t rows_ = 0;     // R
  int64_t columns_ = 0;  // C
  bool keeps_logits_ = false;
  std::array<ChunkProducts, 2> products_;
  // Offsets in the workspace.
  int64_t x_offset_ = 0, dx_offset_ = 0, weight_offset_ = 0, logits_offset_ = 0, narrow_offset_ = 0,
          weight_sums_offset_ = 0, library_offset_ = 0, workspace_bytes_ = 0;
};

}  // namespace shoehorn::cpu
