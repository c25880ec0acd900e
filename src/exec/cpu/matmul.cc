#include "exec/cpu/matmul.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "exec/cpu/elementwise.h"
#include "exec/cpu/matmul_onednn.h"

namespace shoehorn::cpu {

namespace {

int64_t align(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// The sizes that a dynamic dimension is served in, largest first: the maximum, then powers of two times the
// multiple.
std::vector<int64_t> piece_sizes(int64_t maximum, const MatmulShape& shape) {
  std::vector<int64_t> sizes = {maximum};
  if (shape.dynamic == DynamicDimension::kNone) return sizes;
  std::vector<int64_t> powers;
  for (int64_t size = shape.count_multiple; size < maximum; size *= 2) powers.push_back(size);
  sizes.insert(sizes.end(), powers.rbegin(), powers.rend());
  return sizes;
}

ProductShape product_shape(const MatmulShape& shape, DType operands, DType result, bool accumulate) {
  return {.m = shape.m,
          .n = shape.n,
          .k = shape.k,
          .row_stride_a = shape.transpose_a ? 1 : shape.k,
          .column_stride_a = shape.transpose_a ? shape.m : 1,
          .row_stride_b = shape.transpose_b ? 1 : shape.n,
          .column_stride_b = shape.transpose_b ? shape.k : 1,
          .row_stride_c = shape.n,
          .operands = operands,
          .result = result,
          .bias = shape.bias,
          .accumulate = accumulate};
}

const std::byte* at(const void* base, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(base) + elements * dtype_bytes(dtype);
}

// Where row (or summed index) `from` of an operand begins. Only a dimension whose stride is a whole row can
// be cut.
int64_t cut_a(const MatmulShape& shape, int64_t from) {
  return shape.dynamic == DynamicDimension::kM ? from * shape.k : from * shape.m;
}

void check_cut(const MatmulShape& shape) {
  CHECK(shape.dynamic != DynamicDimension::kM || !shape.transpose_a,
        "rows of a transposed operand cannot be cut");
  CHECK(shape.dynamic != DynamicDimension::kK || (shape.transpose_a && !shape.transpose_b),
        "the summed dimension cannot be cut");
  CHECK(shape.dynamic != DynamicDimension::kK || (!shape.bias && shape.result == DType::kF32),
        "sums of a run-time length are fp32 and have no bias");
  CHECK(!shape.accumulate || shape.result == DType::kF32, "only fp32 results accumulate");
}

// Products in the operands' own type.
class PlainMatmul final : public Matmul {
 public:
  explicit PlainMatmul(const MatmulShape& shape) : shape_(shape) {
    check_cut(shape);
    for (const int64_t size : piece_sizes(shape.dynamic == DynamicDimension::kK ? shape.k : shape.m, shape)) {
      MatmulShape cut = shape;
      (shape.dynamic == DynamicDimension::kK ? cut.k : cut.m) = size;
      Piece piece;
      piece.size = size;
      ProductShape product = product_shape(cut, shape.operands, shape.result, shape.accumulate);
      piece.first = prepare_product(product);
      product.accumulate = true;
      piece.rest = shape.dynamic == DynamicDimension::kK ? prepare_product(product) : piece.first;
      workspace_bytes_ =
          std::max({workspace_bytes_, piece.first->workspace_bytes(), piece.rest->workspace_bytes()});
      pieces_.push_back(std::move(piece));
    }
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(int64_t count, const void* a, const void* b, const float* bias, void* c,
           void* workspace) const override {
    if (shape_.dynamic == DynamicDimension::kNone) count = shape_.m;
    if (count == 0 && shape_.dynamic == DynamicDimension::kK && !shape_.accumulate) {
      std::memset(c, 0, static_cast<size_t>(shape_.m * shape_.n * dtype_bytes(shape_.result)));
    }
    int64_t done = 0;
    for (const Piece& piece : pieces_) {
      for (; count - done >= piece.size; done += piece.size) {
        if (shape_.dynamic == DynamicDimension::kK) {
          const Product& product = done == 0 ? *piece.first : *piece.rest;
          product.run(at(a, done * shape_.m, shape_.operands), at(b, done * shape_.n, shape_.operands), bias,
                      c, workspace);
        } else {
          piece.first->run(
              at(a, shape_.dynamic == DynamicDimension::kM ? cut_a(shape_, done) : 0, shape_.operands), b,
              bias, const_cast<std::byte*>(at(c, done * shape_.n, shape_.result)), workspace);
        }
      }
    }
    CHECK(done == count, "a count of {} is not a multiple of {} rows", count, pieces_.back().size);
  }

 private:
  struct Piece {
    int64_t size;
    std::shared_ptr<const Product> first;
    std::shared_ptr<const Product> rest;  // adds to what the pieces before it left
  };
  MatmulShape shape_;
  std::vector<Piece> pieces_;
  int64_t workspace_bytes_ = 0;
};

// bf16 operands multiplied as fp32, panel by panel: the stationary operand is widened whole, the other (and a
// bf16 result) kPanelRows rows at a time, so that a panel stays in cache between widening and use.
class PanelMatmul final : public Matmul {
 public:
  explicit PanelMatmul(const MatmulShape& shape) : shape_(shape) {
    check_cut(shape);
    cut_k_ = shape.dynamic == DynamicDimension::kK;
    CHECK(cut_k_ || !shape.transpose_a, "a bf16 product cannot cut this operand");
    MatmulShape panel = shape;
    panel.operands = panel.result = DType::kF32;
    panel.dynamic = cut_k_ ? DynamicDimension::kK : DynamicDimension::kM;
    if (shape.dynamic == DynamicDimension::kNone) panel.count_multiple = std::gcd(shape.m, kPanelRows);
    int64_t& rows = cut_k_ ? panel.k : panel.m;
    // Whole multiples of the count's, so that what is left behind full panels is one too.
    const int64_t multiple = panel.count_multiple;
    panel_rows_ = rows = std::min(rows, std::max(multiple, kPanelRows / multiple * multiple));
    product_ = prepare_matmul(panel);
    if (cut_k_) {
      panel.accumulate = true;
      accumulating_product_ = prepare_matmul(panel);
    }
    const int64_t a_bytes = panel_rows_ * (cut_k_ ? shape.m : shape.k) * 4;
    const int64_t b_bytes = (cut_k_ ? panel_rows_ : shape.k) * shape.n * 4;
    const int64_t c_bytes = shape.result == DType::kBF16 ? panel_rows_ * shape.n * 4 : 0;
    b_offset_ = align(a_bytes);
    c_offset_ = b_offset_ + align(b_bytes);
    inner_offset_ = c_offset_ + align(c_bytes);
    workspace_bytes_ = inner_offset_ + std::max(product_->workspace_bytes(),
                                                cut_k_ ? accumulating_product_->workspace_bytes() : 0);
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(int64_t count, const void* a, const void* b, const float* bias, void* c,
           void* workspace) const override {
    auto* scratch = static_cast<std::byte*>(workspace);
    if (shape_.dynamic == DynamicDimension::kNone) count = shape_.m;
    if (cut_k_) {
      run_cut_sum(count, a, b, c, scratch);
    } else {
      run_cut_rows(count, a, b, bias, c, scratch);
    }
  }

 private:
  static constexpr int64_t kPanelRows = 1024;

  static void widen(const void* from, int64_t count, void* to) {
    cast({.count = count, .from_dtype = DType::kBF16, .from = from, .to_dtype = DType::kF32, .to = to});
  }

  void run_cut_rows(int64_t count, const void* a, const void* b, const float* bias, void* c,
                    std::byte* scratch) const {
    if (count == 0) return;
    widen(b, shape_.k * shape_.n, scratch + b_offset_);
    for (int64_t from = 0; from < count; from += panel_rows_) {
      const int64_t rows = std::min(panel_rows_, count - from);
      widen(at(a, from * shape_.k, DType::kBF16), rows * shape_.k, scratch);
      auto* result = const_cast<std::byte*>(at(c, from * shape_.n, shape_.result));
      const bool narrow = shape_.result == DType::kBF16;
      product_->run(rows, scratch, scratch + b_offset_, bias, narrow ? scratch + c_offset_ : result,
                    scratch + inner_offset_);
      if (narrow) {
        cast({.count = rows * shape_.n,
              .from_dtype = DType::kF32,
              .from = scratch + c_offset_,
              .to_dtype = DType::kBF16,
              .to = result});
      }
    }
  }

  void run_cut_sum(int64_t count, const void* a, const void* b, void* c, std::byte* scratch) const {
    if (count == 0) {
      product_->run(0, scratch, scratch + b_offset_, nullptr, c, scratch + inner_offset_);
      return;
    }
    for (int64_t from = 0; from < count; from += panel_rows_) {
      const int64_t rows = std::min(panel_rows_, count - from);
      widen(at(a, from * shape_.m, DType::kBF16), rows * shape_.m, scratch);
      widen(at(b, from * shape_.n, DType::kBF16), rows * shape_.n, scratch + b_offset_);
      const Matmul& product = from == 0 ? *product_ : *accumulating_product_;
      product.run(rows, scratch, scratch + b_offset_, nullptr, c, scratch + inner_offset_);
    }
  }

  MatmulShape shape_;
  bool cut_k_ = false;
  int64_t panel_rows_ = 0;
  std::shared_ptr<const Matmul> product_;
  std::shared_ptr<const Matmul> accumulating_product_;
  int64_t b_offset_ = 0;
  int64_t c_offset_ = 0;
  int64_t inner_offset_ = 0;
  int64_t workspace_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const Matmul> prepare_matmul(const MatmulShape& shape) {
  static std::map<MatmulShape, std::shared_ptr<const Matmul>> known;
  if (const auto found = known.find(shape); found != known.end()) return found->second;
  std::shared_ptr<const Matmul> matmul;
  if (shape.operands == DType::kBF16 && !has_bf16_products()) {
    matmul = std::make_shared<const PanelMatmul>(shape);
  } else {
    matmul = std::make_shared<const PlainMatmul>(shape);
  }
  known[shape] = matmul;
  return matmul;
}

}  // namespace shoehorn::cpu
