#include "exec/cpu/products/sgemm_matmul.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>

#include "base/rounding.h"
#include "exec/cpu/elementwise/columns.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/products/matmul_onednn.h"
#include "exec/cpu/workspace_parts.h"

namespace shoehorn::cpu {

namespace {

// Rows of A, or terms of a sum, that are widened to fp32 at a time, so that they are still in cache when the product reads them.
constexpr int64_t kPanelRows = 256;
constexpr int64_t kPanelTerms = 512;
constexpr int64_t kPanelMultiple = 16;

// Rows of a multiple of 2 KiB, as weights of 1024, 3072 or 4096 columns have them in fp32, share the same few places of the
// caches. The library reads B where it lies if rows of A or columns of B are few (oneDNN 2.6.3), some columns of many rows after
// each other, and the product takes up to twice as long. So rows that we lay out are longer by a cache line, and an fp32 B is
// copied, some terms at a time, for rows of A that are enough for a copy and too few for the library to make one.
constexpr int64_t kConflictingRow = 512;  // elements, and multiples of it
constexpr int64_t kRowPadding = 16;
// Terms that are copied at a time: as many as the library sums up between two passes over C.
constexpr int64_t kCopiedTerms = 256;
// With fewer rows of A the copy takes longer than what it saves. Found by experiment with two threads of Zen 3.
constexpr int64_t kLeastRows = 8;
// Products with fewer rows of A, in all, get no copy: they would be faster, too, but a plan of so few tokens has little beside the
// weights, and would feel its bytes.
constexpr int64_t kRowsWorthACopy = 48;
// The library copies operands itself for products that are larger than this in both ways; with tens of threads only for still
// larger ones, which are left to it.
constexpr double kLargestWithoutCopies = 0.0038;  // of 1 / m + 1 / n

int64_t laid_out_stride(int64_t columns) {
  return columns % kConflictingRow == 0 ? columns + kRowPadding : columns;
}

// C[rows, n] begins with the bias, or gets it added.
void begin_with_bias(const float* bias, int64_t rows, int64_t n, bool accumulate, float* c) {
  parallel_ranges(rows, row_grain(n), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* out = c + row * n;
      if (!accumulate) {
        std::memcpy(out, bias, static_cast<size_t>(n) * sizeof(float));
        continue;
      }
      for (int64_t i = 0; i < n; ++i) out[i] += bias[i];
    }
  });
}

class SgemmMatmul final : public Matmul {
 public:
  explicit SgemmMatmul(const MatmulShape& shape) : shape_(shape) {
    cuts_sum_ = shape.dynamic == DynamicDimension::kK;
    widens_ = shape.operands != DType::kF32;
    stages_ = shape.result != DType::kF32;
    // Rows of a transposed A do not lie together: it is widened whole.
    const int64_t cut = cuts_sum_ ? shape.k : shape.m;
    panel_ = !widens_ || (!cuts_sum_ && shape.transpose_a)
                 ? cut
                 : std::min(cut, cuts_sum_ ? kPanelTerms : kPanelRows);
    if (widens_) {
      a_offset_ = part_bytes(b_rows(panel_) * laid_out_stride(b_columns()) * 4);
      c_offset_ = a_offset_ + part_bytes(a_rows(panel_) * laid_out_stride(a_columns()) * 4);
    } else if (may_copy()) {
      c_offset_ = part_bytes(std::min(kCopiedTerms, shape.k) * laid_out_stride(shape.n) * 4);
    }
    workspace_bytes_ = c_offset_ + (stages_ ? part_bytes(panel_ * shape.n * 4) : 0);
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void compile() const override { prepare_sgemm(); }

  void run(int64_t count, const void* a, const void* b, const float* bias, void* c,
           void* workspace) const override {
    if (shape_.dynamic == DynamicDimension::kNone) count = shape_.m;
    auto* scratch = static_cast<std::byte*>(workspace);
    if (cuts_sum_) {
      run_sums(count, a, b, static_cast<float*>(c), scratch);
    } else if (count > 0) {
      run_rows(count, a, b, bias, c, scratch);
    }
  }

 private:
  // Operands as they are stored, `size` of the dimension that is cut.
  int64_t a_rows(int64_t size) const { return !shape_.transpose_a || cuts_sum_ ? size : shape_.k; }
  int64_t a_columns() const { return shape_.transpose_a ? shape_.m : shape_.k; }
  int64_t b_rows(int64_t size) const { return shape_.transpose_b ? shape_.n : cuts_sum_ ? size : shape_.k; }
  int64_t b_columns() const { return shape_.transpose_b ? shape_.k : shape_.n; }

  // Whether there is a count for which B is copied.
  bool may_copy() const {
    return copies_for(shape_.dynamic == DynamicDimension::kM ? std::min(kLeastRows, shape_.m) : shape_.m);
  }

  bool copies_for(int64_t rows) const {
    const bool is_small =
        1 / static_cast<double>(rows) + 1 / static_cast<double>(shape_.n) >= kLargestWithoutCopies;
    return !widens_ && !cuts_sum_ && !shape_.transpose_b && shape_.n % kConflictingRow == 0 && is_small &&
           rows >= kLeastRows && shape_.m >= kRowsWorthACopy;
  }

  // Of `count` rows or terms: panels of about the same size, for a small rest would be multiplied slowly.
  int64_t even_panel(int64_t count) const {
    const int64_t even = ceil_divide(count, std::max<int64_t>(1, ceil_divide(count, panel_)));
    return std::min(panel_, round_up(even, kPanelMultiple));
  }

  void run_sums(int64_t count, const void* a, const void* b, float* c, std::byte* scratch) const {
    // An empty sum is zero.
    if (count == 0 && !shape_.accumulate) std::memset(c, 0, static_cast<size_t>(shape_.m * shape_.n) * 4);
    const int64_t panel = even_panel(count);
    for (int64_t done = 0; done < count; done += panel) {
      const int64_t terms = std::min(panel, count - done);
      Sgemm product = product_of(shape_.m, terms);
      product.a = widened(element_at(a, done * a_columns(), shape_.operands), terms, a_columns(),
                          scratch + a_offset_);
      product.b = widened(element_at(b, done * b_columns(), shape_.operands), terms, b_columns(), scratch);
      product.c = c;
      product.accumulate = shape_.accumulate || done > 0;
      run_sgemm(product);
    }
  }

  void run_rows(int64_t count, const void* a, const void* b, const float* bias, void* c,
                std::byte* scratch) const {
    const float* all_b = widened(b, b_rows(count), b_columns(), scratch);
    const int64_t panel = even_panel(count);
    for (int64_t done = 0; done < count; done += panel) {
      const int64_t rows = std::min(panel, count - done);
      auto* c_rows = const_cast<std::byte*>(element_at(c, done * shape_.n, shape_.result));
      Sgemm product = product_of(rows, shape_.k);
      product.a = widened(element_at(a, done * a_columns(), shape_.operands), a_rows(rows), a_columns(),
                          scratch + a_offset_);
      product.b = all_b;
      product.c = reinterpret_cast<float*>(stages_ ? scratch + c_offset_ : c_rows);
      product.accumulate = shape_.accumulate;
      if (bias != nullptr) {
        begin_with_bias(bias, rows, shape_.n, product.accumulate, product.c);
        product.accumulate = true;
      }
      if (copies_for(rows)) {
        run_with_copies(product, reinterpret_cast<float*>(scratch));
      } else {
        run_sgemm(product);
      }
      if (!stages_) continue;
      put_columns({.dtype = shape_.result,
                   .rows = rows,
                   .columns = shape_.n,
                   .offset = 0,
                   .width = shape_.n,
                   .x = product.c,
                   .y = c_rows});
    }
  }

  // A part of B's terms after the other, from a copy with longer rows.
  void run_with_copies(const Sgemm& product, float* copy) const {
    Sgemm part = product;
    part.b = copy;
    part.row_stride_b = laid_out_stride(shape_.n);
    for (int64_t done = 0; done < shape_.k; done += kCopiedTerms) {
      part.k = std::min(kCopiedTerms, shape_.k - done);
      part.a = product.a + done * (shape_.transpose_a ? product.row_stride_a : 1);
      lay_out(product.b + done * shape_.n, DType::kF32, part.k, shape_.n, copy);
      run_sgemm(part);
      part.accumulate = true;
    }
  }

  Sgemm product_of(int64_t rows, int64_t terms) const {
    return {.m = rows,
            .n = shape_.n,
            .k = terms,
            .transpose_a = shape_.transpose_a,
            .transpose_b = shape_.transpose_b,
            .row_stride_a = widens_ ? laid_out_stride(a_columns()) : a_columns(),
            .row_stride_b = widens_ ? laid_out_stride(b_columns()) : b_columns(),
            .accumulate = false,
            .a = nullptr,
            .b = nullptr,
            .c = nullptr};
  }

  // As the product reads it: at `to`, if it is widened.
  const float* widened(const void* from, int64_t rows, int64_t columns, std::byte* to) const {
    if (!widens_) return static_cast<const float*>(from);
    auto* wide = reinterpret_cast<float*>(to);
    lay_out(from, shape_.operands, rows, columns, wide);
    return wide;
  }

  static void lay_out(const void* from, DType dtype, int64_t rows, int64_t columns, float* to) {
    widen_rows({.dtype = dtype,
                .rows = rows,
                .columns = columns,
                .stride = laid_out_stride(columns),
                .x = from,
                .y = to});
  }

  MatmulShape shape_;
  bool cuts_sum_ = false;
  bool widens_ = false;
  bool stages_ = false;  // C of a panel is made in the workspace
  int64_t panel_ = 0;    // of the dimension that is cut, rows if none is
  int64_t a_offset_ = 0;
  int64_t c_offset_ = 0;
  int64_t workspace_bytes_ = 0;
};

}  // namespace

std::shared_ptr<const Matmul> make_sgemm_matmul(const MatmulShape& shape) {
  return std::make_shared<const SgemmMatmul>(shape);
}

int64_t sgemm_rows_of_full_panels(DType operands) {
  return operands == DType::kF32 ? 1 : std::lcm(kPanelRows, kPanelTerms);
}

}  // namespace shoehorn::cpu
