// Products of few rows or columns by an fp32 B[K, N] with rows of a multiple of 2 KiB, as weights of 1024, 3072 or 4096 columns
// have them. Without AVX-512 the library reads B where it lies (its sgemm without copies), some columns of many rows after
// each other: rows at such distances share the same few places of the caches, and the product takes up to twice as long.
// Here B is copied, some terms at a time, to rows that are longer by a cache line.
// Private to matmul*.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/cpu/products/matmul_onednn.h"

namespace shoehorn::cpu {

// Elements between the starts of fp32 rows of so many, where we lay them out: they share no places of the caches.
int64_t padded_stride(int64_t columns);

// Whether such a copy pays for a product of fp32 operands whose B is as it is stored.
bool pays_to_pad(const ProductShape& shape);

class PaddedProduct {
 public:
  // Of a shape for which it pays.
  explicit PaddedProduct(const ProductShape& shape);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  void compile() const;  // call it before run(); repeated calls do nothing
  void run(const float* a, const float* b, const float* bias, float* c, void* workspace) const;

 private:
  ProductShape shape_;
  int64_t copy_bytes_ = 0;
  int64_t workspace_bytes_ = 0;
  std::vector<std::shared_ptr<const Product>> parts_;  // the first sets C, each other adds to it
};

}  // namespace shoehorn::cpu
