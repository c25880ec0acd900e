// Cross-entropy of a vocabulary: of logits = x · Wᵀ that are never there as a whole, with the gradients of x and W.
//
// N tokens, H hidden, V vocabulary; x [N, H] and W [V, H] are row-major and dense, both float32, bfloat16 or float16
// (checked: InternalError). Products accumulate in float32; logits, statistics and dW are float32, and so are dx's sums
// until they are stored. The loss and its gradient are loss.h's, with p = softmax(x · Wᵀ).
//
// Work goes by blocks of R tokens with a label; tokens that are ignored are not in any block. Of a block, logits are made
// in chunks of C entries of the vocabulary. What is computed decides how:
//
//   loss              of each chunk a running maximum and sum                                             1 product
//   gradients         logits again; p of them in their place; dx += p · W, dW += pᵀ · x                   2 or 3
//   both, W frozen    of each chunk e = exp(logits - running maximum), dx += e · W, where a new maximum scales what dx
//                     has so far, as attention in blocks does; p = e / sum at the end                     2
//   both, W trained   the same, and e is kept: when all sums are known dW += eᵀ · (x / sum), in the products' type R · V
//                     elements. Or the loss first and then the gradients, a product more, but a block, of which less is
//                     kept, can have more tokens; see below.                                              3 (4)
//
// Gradients of the labels' own logits, p - 1, are added to dW in float32: rounded parts would leave little of a small
// difference.
//
// A block reads W once, or twice where logits are made twice, and reads and writes all of dW: that is what a block costs
// besides its products, ceil(N / R) times. So a kept e is worth its product where R is large: the choice is the smaller
// of
//
//   products · 2NVH / kFlopsPerByte + ceil(N / R) · VH · (bytes of W, once or twice, + 8) + bytes of e, twice
//
// What dW gets from a block other than the first is made apart, a chunk at a time, and then added: a product that adds reads
// what it adds to tile by tile, and waits for memory each time.
//
// The workspace is R · C logits, R · V (kept) or R · C elements that products read, the block's rows of x and sums of dx, a
// chunk of dW, a chunk of W in float32 where the machine multiplies only that, and what the library's products ask for. C is
// about 2048, or 512 where products are of 16 bits. With the largest R of up to 1024 all but the last part stays within
// kVocabularyWorkspaceBytes, however many tokens or entries there are; blocks of a run have about equally many.
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
  bool keeps_exponentials() const { return keeps_; }

 private:
  enum class Work : uint8_t { kLoss, kGradients, kLossThenGradients, kExponentials };

  // Where the workspace's parts begin, in bytes; parts that the work does not need have none.
  struct Parts {
    int64_t x = 0;            // rows of the block
    int64_t scaled_x = 0;     // the same, scaled for dW
    int64_t dx = 0;           // sums
    int64_t weight = 0;       // a chunk in float32
    int64_t logits = 0;       // float32
    int64_t factors = 0;      // made of logits, of the products' type; of float32 in the place of logits
    int64_t dweight = 0;      // what is added to a chunk of dW
    int64_t maxima = 0;       // of each chunk, where exponentials are kept
    int64_t weight_sums = 0;  // of W's rows
    int64_t x_sums = 0;       // of all rows of x
    int64_t library = 0;      // the products' own
  };
  class Run;

  // The products of a chunk: of the usual size, and of what is left at the end of the vocabulary.
  struct ChunkProducts {
    std::shared_ptr<const Matmul> logits;   // x · Wᵀ
    std::shared_ptr<const Matmul> dx;       // += p · W
    std::shared_ptr<const Matmul> dweight;  // pᵀ · x
  };

  void choose_sizes();
  ChunkProducts plan_products(int64_t columns) const;
  template <typename Visit>
  void for_each_product(const Visit& visit) const;
  bool keeps(Work work) const { return work == Work::kExponentials && shape_.gives_dweight; }
  Parts lay_out(Work work, int64_t rows) const;
  int64_t most_rows(Work work) const;
  double cost(Work work, int64_t rows) const;

  VocabularyLossShape shape_;
  DType operands_;  // of the products: dtype, or float32
  Work work_;
  int64_t rows_ = 0;     // R
  int64_t columns_ = 0;  // C
  bool keeps_ = false;   // exponentials
  std::array<ChunkProducts, 2> products_;
  Parts parts_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace shoehorn::cpu
