#include "exec/cpu/products/padded_product.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "exec/cpu/elementwise/columns.h"

namespace shoehorn::cpu {

namespace {

constexpr int64_t kConflictingRow = 512;  // elements, and multiples of it
constexpr int64_t kRowPadding = 16;
// Terms that are copied at a time: as many as the library sums up between two passes over C.
constexpr int64_t kCopiedTerms = 256;
// With fewer rows of A the copy takes longer than what it saves. Found by experiment with two threads of Zen 3.
constexpr int64_t kLeastRows = 8;
// The library copies operands itself for products that are larger than this in both ways; with tens of threads only for still
// larger ones, which are left to it.
constexpr double kLargestWithoutCopies = 0.0038;  // of 1 / m + 1 / n

constexpr int64_t kAlignment = 64;

}  // namespace

int64_t padded_stride(int64_t columns) {
  return !has_blocked_layouts() && columns % kConflictingRow == 0 ? columns + kRowPadding : columns;
}

bool pays_to_pad(const ProductShape& shape) {
  const bool is_small =
      1 / static_cast<double>(shape.m) + 1 / static_cast<double>(shape.n) >= kLargestWithoutCopies;
  const bool is_dense = shape.column_stride_b == 1 && shape.row_stride_b == shape.n;
  return shape.operands == DType::kF32 && shape.result == DType::kF32 && is_dense &&
         padded_stride(shape.n) != shape.n && shape.m >= kLeastRows && is_small;
}

PaddedProduct::PaddedProduct(const ProductShape& shape) : shape_(shape) {
  CHECK(pays_to_pad(shape), "a product of {}x{} by {}x{} is not to be padded", shape.m, shape.k, shape.k,
        shape.n);
  const int64_t terms = std::min(kCopiedTerms, shape.k);
  copy_bytes_ = round_up(terms * padded_stride(shape.n) * 4, kAlignment);
  int64_t library_bytes = 0;
  ProductShape part = shape;
  part.row_stride_b = padded_stride(shape.n);
  part.k = terms;
  parts_ = {plan_product(part)};
  part.accumulate = true;
  part.bias = false;
  for (int64_t done = terms; done < shape.k; done += terms) {
    part.k = std::min(terms, shape.k - done);
    parts_.push_back(plan_product(part));
  }
  for (const auto& product : parts_) library_bytes = std::max(library_bytes, product->workspace_bytes());
  workspace_bytes_ = copy_bytes_ + library_bytes;
}

void PaddedProduct::compile() const {
  for (const auto& product : parts_) product->compile();
}

void PaddedProduct::run(const float* a, const float* b, const float* bias, float* c, void* workspace) const {
  auto* copy = static_cast<std::byte*>(workspace);
  int64_t done = 0;
  for (const auto& product : parts_) {
    const int64_t terms = std::min(kCopiedTerms, shape_.k - done);
    widen_rows({.dtype = DType::kF32,
                .rows = terms,
                .columns = shape_.n,
                .stride = padded_stride(shape_.n),
                .x = b + done * shape_.n,
                .y = reinterpret_cast<float*>(copy)});
    product->run(a + done * shape_.column_stride_a, copy, done == 0 ? bias : nullptr, c, copy + copy_bytes_);
    done += terms;
  }
}

}  // namespace shoehorn::cpu
