// One library product of fixed shape. Internal to matmul*.cc.
#pragma once

#include <memory>

#include "exec/cpu/matmul.h"

namespace shoehorn::cpu {

struct ProductShape {
  int64_t m, n, k;
  int64_t row_stride_a, column_stride_a;  // elements
  int64_t row_stride_b, column_stride_b;
  int64_t row_stride_c;
  DType operands, result;
  bool bias, accumulate;
  auto operator<=>(const ProductShape&) const = default;
};

class Product {
 public:
  explicit Product(const ProductShape& shape);
  ~Product();
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  int64_t workspace_bytes() const;
  void run(const void* a, const void* b, const float* bias, void* c, void* workspace) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// The one product of a shape that this process prepares; made on first use.
std::shared_ptr<const Product> prepare_product(const ProductShape& shape);

}  // namespace shoehorn::cpu
