#include "exec/cpu/products/thin_product.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/error.h"
#include "base/rounding.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/products/thin_product_dots.h"
#include "exec/cpu/products/thin_product_loops.h"
#include "exec/cpu/storage.h"

namespace shoehorn::cpu {

namespace {

// Columns that a thread's share of sums, or of a transpose, is made of: whole lines of the cache in every type.
constexpr int64_t kColumnsPerTask = 64;

int64_t column_grain(int64_t rows) {
  return round_up(row_grain(rows), kColumnsPerTask);
}

// to[r, N] = from[N, r]ᵀ
struct Transpose {
  DType dtype;
  int64_t thin;
  int64_t columns;
  const void* from;
  void* to;
};
void transpose(const Transpose& g) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    const T* from = static_cast<const T*>(g.from);
    T* to = static_cast<T*>(g.to);
    parallel_ranges(g.columns, column_grain(g.thin), [&](int64_t begin, int64_t end) {
      for (int64_t thin = 0; thin < g.thin; ++thin) {
        for (int64_t i = begin; i < end; ++i) to[thin * g.columns + i] = from[i * g.thin + thin];
      }
    });
  });
}

class ThinProduct final : public Matmul {
 public:
  ThinProduct(const MatmulShape& shape, bool dots)
      : shape_(shape), dots_(dots && shape.operands == DType::kBF16) {
    const std::optional<ThinForm> form = thin_form(shape);
    CHECK(form.has_value(), "a product of {}x{} by {}x{} is not thin", shape.m, shape.k, shape.k, shape.n);
    form_ = *form;
  }

  int64_t workspace_bytes() const override {
    switch (form_) {
      case ThinForm::kColumns:
        return shape_.transpose_b ? 0 : shape_.k * shape_.n * dtype_bytes(shape_.operands);
      case ThinForm::kTerms:
        if (dots_) return pairs() * shape_.n * static_cast<int64_t>(sizeof(Bfloat16Pair));
        return shape_.transpose_b ? shape_.k * shape_.n * dtype_bytes(shape_.operands) : 0;
      case ThinForm::kSums:
        return has_thin_rows() ? 0 : shape_.m * shape_.n * dtype_bytes(DType::kF32);
    }
    return 0;
  }

  void compile() const override {}

  void run(int64_t count, const void* a, const void* b, const float*, void* c,
           void* workspace) const override {
    if (form_ == ThinForm::kSums) {
      run_sums(shape_.dynamic == DynamicDimension::kK ? count : shape_.k, a, b, static_cast<float*>(c),
               static_cast<float*>(workspace));
      return;
    }
    const int64_t rows = shape_.dynamic == DynamicDimension::kM ? count : shape_.m;
    if (form_ == ThinForm::kTerms) {
      run_terms(rows, a, b, c, workspace);
    } else {
      run_columns(rows, a, b, c, workspace);
    }
  }

 private:
  bool has_thin_rows() const { return shape_.m < shape_.n; }
  int64_t pairs() const { return ceil_divide(shape_.k, int64_t{2}); }

  void run_columns(int64_t rows, const void* a, const void* b, void* c, void* workspace) const {
    if (!shape_.transpose_b) {
      transpose(
          {.dtype = shape_.operands, .thin = shape_.n, .columns = shape_.k, .from = b, .to = workspace});
      b = workspace;
    }
    parallel_ranges(rows, row_grain(shape_.k), [&](int64_t begin, int64_t end) {
      if (dots_) {
        dot_columns({shape_.n, shape_.k, halves(a), halves(b), static_cast<uint16_t*>(c)}, begin, end);
      } else {
        thin_columns({shape_.operands, shape_.n, shape_.k, a, b, c}, begin, end);
      }
    });
  }

  void run_terms(int64_t rows, const void* a, const void* b, void* c, void* workspace) const {
    if (dots_) {
      make_pairs(halves(b), static_cast<Bfloat16Pair*>(workspace));
    } else if (shape_.transpose_b) {
      transpose(
          {.dtype = shape_.operands, .thin = shape_.k, .columns = shape_.n, .from = b, .to = workspace});
      b = workspace;
    }
    parallel_ranges(rows, row_grain(shape_.n), [&](int64_t begin, int64_t end) {
      if (dots_) {
        dot_terms({shape_.k, shape_.n, halves(a), static_cast<const Bfloat16Pair*>(workspace),
                   static_cast<uint16_t*>(c), shape_.accumulate},
                  begin, end);
      } else {
        thin_terms({shape_.operands, shape_.k, shape_.n, a, b, c, shape_.accumulate}, begin, end);
      }
    });
  }

  static const uint16_t* halves(const void* of) { return static_cast<const uint16_t*>(of); }

  // Pairs of rows of op(B).
  void make_pairs(const uint16_t* b, Bfloat16Pair* made) const {
    const int64_t row_stride = shape_.transpose_b ? 1 : shape_.n;
    const int64_t column_stride = shape_.transpose_b ? shape_.k : 1;
    parallel_ranges(shape_.n, column_grain(shape_.k), [&](int64_t begin, int64_t end) {
      for (int64_t pair = 0; pair < pairs(); ++pair) {
        const uint16_t* first = b + 2 * pair * row_stride;
        const bool has_second = 2 * pair + 1 < shape_.k;
        for (int64_t i = begin; i < end; ++i) {
          const uint16_t* at = first + i * column_stride;
          made[pair * shape_.n + i] = at[0] | Bfloat16Pair{has_second ? at[row_stride] : uint16_t{0}} << 16;
        }
      }
    });
  }

  // Where C has thin columns, its transpose is made in the workspace.
  void run_sums(int64_t terms, const void* a, const void* b, float* c, float* workspace) const {
    const bool is_direct = has_thin_rows();
    const ThinSums task{.dtype = shape_.operands,
                        .thin = is_direct ? shape_.m : shape_.n,
                        .columns = is_direct ? shape_.n : shape_.m,
                        .terms = terms,
                        .low = is_direct ? a : b,
                        .wide = is_direct ? b : a,
                        .sums = is_direct ? c : workspace,
                        .accumulate = is_direct && shape_.accumulate};
    parallel_ranges(task.columns, column_grain(terms), [&](int64_t begin, int64_t end) {
      if (terms == 0 && !task.accumulate) fill_zeros(task, begin, end);
      if (dots_) {
        dot_sums(
            {task.thin, task.columns, terms, halves(task.low), halves(task.wide), task.sums, task.accumulate},
            begin, end);
      } else {
        thin_sums(task, begin, end);
      }
      if (!is_direct) write_transposed(task, begin, end, c);
    });
  }

  static void fill_zeros(const ThinSums& task, int64_t begin, int64_t end) {
    for (int64_t thin = 0; thin < task.thin; ++thin)
      std::fill(task.sums + thin * task.columns + begin, task.sums + thin * task.columns + end, 0.0F);
  }

  void write_transposed(const ThinSums& task, int64_t begin, int64_t end, float* c) const {
    for (int64_t column = begin; column < end; ++column) {
      for (int64_t thin = 0; thin < task.thin; ++thin) {
        float& to = c[column * task.thin + thin];
        to = task.sums[thin * task.columns + column] + (shape_.accumulate ? to : 0.0F);
      }
    }
  }

  MatmulShape shape_;
  bool dots_;
  ThinForm form_ = ThinForm::kColumns;
};

}  // namespace

std::optional<ThinForm> thin_form(const MatmulShape& shape) {
  const auto [m, n, k] = std::array{shape.m, shape.n, shape.k};
  if (shape.bias) return std::nullopt;
  if (shape.transpose_a) {
    const auto [thin, wide] = std::minmax(m, n);
    const bool is_served =
        !shape.transpose_b && shape.result == DType::kF32 && shape.dynamic != DynamicDimension::kM;
    if (is_served && has_few_terms(thin, wide)) return ThinForm::kSums;
    return std::nullopt;
  }
  if (shape.result != shape.operands || shape.dynamic == DynamicDimension::kK) return std::nullopt;
  if (has_few_terms(k, n)) return ThinForm::kTerms;
  if (has_few_terms(n, k) && !shape.accumulate) return ThinForm::kColumns;
  return std::nullopt;
}

std::shared_ptr<const Matmul> make_thin_product(const MatmulShape& shape, bool dots) {
  return std::make_shared<const ThinProduct>(shape, dots);
}

}  // namespace shoehorn::cpu
