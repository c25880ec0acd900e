// Products of few rows of A by an fp32 B[K, N] with rows of a multiple of 2 KiB, as weights of 1024, 3072 or 4096 columns
// have them. Without AVX-512 the library (oneDNN 2.6.3) reads B where it lies, some columns of many rows after each other: rows
// at such distances share the same few places of the caches, and the product takes up to twice as long. Here B is copied, some
// terms at a time, to rows that are longer by a cache line. Sums that are cut at run time have no such product: the gradient of a
// weight has few rows only where the weight has few outputs.
// Private to matmul*.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/cpu/products/matmul_onednn.h"

namespace shoehorn::cpu {

// Elements between the starts of fp32 rows of so many, where we lay them out: without AVX-512 they share no places of the caches.
// With it they are dense, as the library's blocked products read them.
int64_t padded_stride(int64_t columns);

// Whether a copy of B pays: without AVX-512, fp32 operands and result, B dense [K, N] with such rows, and rows of A that are enough
// for a copy and too few for the library to make one.
bool pays_to_pad(const ProductShape& shape);

class PaddedProduct {
 public:
  // Of a shape for which it pays (checked: InternalError).
  explicit PaddedProduct(const ProductShape& shape);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  void compile() const;  // call it before run(); repeated calls do nothing
  // A as the shape says, B dense [K, N], `bias` [N] or null where the shape has none, C dense [M, N], which it adds to where the shape
  // accumulates. `workspace` is 64-byte aligned.
  void run(const float* a, const float* b, const float* bias, float* c, void* workspace) const;

 private:
  ProductShape shape_;
  int64_t copy_bytes_ = 0;
  int64_t workspace_bytes_ = 0;
  std::vector<std::shared_ptr<const Product>> parts_;  // the first sets C, each other adds to it
};

}  // namespace shoehorn::cpu
