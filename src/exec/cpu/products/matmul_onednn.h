// Library products of fixed shape, and the move of a right operand into the library's blocks. Internal to
// matmul*.cc.
#pragma once

#include <memory>

#include "exec/cpu/products/matmul.h"

namespace shoehorn::cpu {

// C is dense.
struct ProductShape {
  int64_t m, n, k;
  int64_t row_stride_a, column_stride_a;  // elements
  int64_t row_stride_b, column_stride_b;  // of B as it is stored, before any move
  DType operands, result;
  bool bias, accumulate;
  // B is given in the blocks that the library prefers for a product of so many rows of A; 0: as it is stored.
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
  void compile() const;  // before run(); again is nothing
  void run(const void* a, const void* b, const float* bias, void* c, void* workspace) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Turns a stored B into the form in which the product of `product` takes it: blocked as it says, and of its
// operands' type.
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

  // Whether the product takes B as it is stored: nothing to run.
  bool is_idle() const;
  // Whether that form is fp32 column blocks (exec/cpu/elementwise/column_blocks.h), which the caller makes: nothing to
  // run.
  bool is_column_blocks() const;
  int64_t moved_bytes() const;
  int64_t workspace_bytes() const;
  void compile() const;  // before run(), where there is something to run; again is nothing
  void run(const void* stored, void* moved, void* workspace) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// The one product, or move, of a shape in this process; described on first use, not compiled.
std::shared_ptr<const Product> plan_product(const ProductShape& shape);
std::shared_ptr<const Move> plan_move(const MoveShape& shape);

// Forgets those that nobody else holds.
void release_unused_products();

}  // namespace shoehorn::cpu
