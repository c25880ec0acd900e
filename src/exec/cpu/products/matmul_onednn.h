// oneDNN's products of fixed shape, the reordering of a right operand into the library's blocked layout, and its sgemm.
// Private to matmul*.cc.
#pragma once

#include <memory>

#include "exec/cpu/products/matmul.h"

namespace shoehorn::cpu {

// C is dense.
struct ProductShape {
  int64_t m, n, k;
  int64_t row_stride_a, column_stride_a;  // elements
  int64_t row_stride_b, column_stride_b;  // of B as stored, before any reordering
  DType operands, result;
  bool bias, accumulate;
  // B is in the blocked layout that the library prefers for a product with so many rows of A; 0: as stored.
  int64_t blocks_for_rows;
  auto operator<=>(const ProductShape&) const = default;
};

class Product {
 public:
  explicit Product(const ProductShape& shape);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  int64_t workspace_bytes() const;
  void compile() const;  // call it before run(); repeated calls do nothing
  void run(const void* a, const void* b, const float* bias, void* c, void* workspace) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Converts a stored B into the form that `product` reads: its blocked layout and its operand type.
struct MoveShape {
  ProductShape product;
  DType stored;
  auto operator<=>(const MoveShape&) const = default;
};

class Move {
 public:
  explicit Move(const MoveShape& shape);
  ~Move();
  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;

  // True if the product reads B as stored, so that there is nothing to run.
  bool is_idle() const;
  // True if that form is fp32 column blocks (exec/cpu/elementwise/column_blocks.h), which the caller makes; there is nothing
  // to run.
  bool is_column_blocks() const;
  // The same of column blocks of pairs, of 16-bit elements.
  bool is_column_pair_blocks() const;
  int64_t moved_bytes() const;
  int64_t workspace_bytes() const;
  void compile() const;  // call it before run() if there is something to run; repeated calls do nothing
  void run(const void* stored, void* moved, void* workspace) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// The product, or move, of a shape; one object per shape in this process. Created on first use, not compiled.
std::shared_ptr<const Product> plan_product(const ProductShape& shape);
std::shared_ptr<const Move> plan_move(const MoveShape& shape);

// Whether moves widen B from this type to fp32, and not element by element. bfloat16 takes AVX-512; without it the library
// has no bfloat16 at all.
bool widens_fast(DType stored);

// Whether there are layouts of B that make products faster than B as stored: with AVX-512. Without it the only one that the
// library prefers is a dense [K, N], which is no faster, and its products are calls of sgemm.
bool has_blocked_layouts();

// C = op(A)·op(B), or C += op(A)·op(B), in fp32; C [M, N] is dense.
struct Sgemm {
  int64_t m, n, k;                     // one or more
  bool transpose_a;                    // A is stored [K, M]
  bool transpose_b;                    // B is stored [N, K]
  int64_t row_stride_a, row_stride_b;  // elements, as stored
  bool accumulate;
  const float* a;
  const float* b;
  float* c;
};
// Call it before run_sgemm(), from one thread only. Repeated calls do nothing.
void prepare_sgemm();
void run_sgemm(const Sgemm& product);

// Forgets those that nobody else holds.
void release_unused_products();

}  // namespace shoehorn::cpu
