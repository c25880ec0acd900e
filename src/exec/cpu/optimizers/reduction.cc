#include "exec/cpu/optimizers/reduction.h"

#include <cmath>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/optimizers/reduction.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

// Four rows a pass, so that the running sums are read and written a quarter as often.
template <class T>
void column_sum_chunk(const T* x, int64_t rows, int64_t columns, float* partial) {
  for_columns(0, columns, [&](int64_t i, auto lanes) { store(hn::Zero(FloatTag()), partial + i, lanes); });
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const T* r = x + row * columns;
    for_columns(0, columns, [&](int64_t i, auto lanes) {
      const FloatVector first = hn::Add(load(r + i, lanes), load(r + columns + i, lanes));
      const FloatVector second = hn::Add(load(r + 2 * columns + i, lanes), load(r + 3 * columns + i, lanes));
      store(hn::Add(load(partial + i, lanes), hn::Add(first, second)), partial + i, lanes);
    });
  }
  for (; row < rows; ++row) {
    const T* r = x + row * columns;
    for_columns(0, columns, [&](int64_t i, auto lanes) {
      store(hn::Add(load(partial + i, lanes), load(r + i, lanes)), partial + i, lanes);
    });
  }
}

void column_sum_chunks(const ColumnSum& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t row = chunk * kRowsPerChunk;
      const int64_t rows = HWY_MIN(kRowsPerChunk, g.rows - row);
      column_sum_chunk(static_cast<const T*>(g.x) + row * g.columns, rows, g.columns,
                       static_cast<float*>(g.workspace) + chunk * g.columns);
    }
  });
}

void add_partials_range(const float* partials, int64_t chunks, int64_t stride, bool accumulate, int64_t begin,
                        int64_t end, float* sum) {
  for_columns(begin, end, [&](int64_t i, auto lanes) {
    FloatVector total = chunks > 0 ? load(partials + i, lanes) : hn::Zero(FloatTag());
    for (int64_t chunk = 1; chunk < chunks; ++chunk) {
      total = hn::Add(total, load(partials + chunk * stride + i, lanes));
    }
    if (accumulate) total = hn::Add(load(sum + i, lanes), total);
    store(total, sum + i, lanes);
  });
}

using DoubleTag = hn::ScalableTag<double>;
using DoubleVector = hn::Vec<DoubleTag>;

HWY_INLINE void add_squares(FloatVector value, DoubleVector& low, DoubleVector& high) {
  const hn::Half<FloatTag> half;
  const DoubleVector a = hn::PromoteTo(DoubleTag(), hn::LowerHalf(half, value));
  const DoubleVector b = hn::PromoteTo(DoubleTag(), hn::UpperHalf(half, value));
  low = hn::MulAdd(a, a, low);
  high = hn::MulAdd(b, b, high);
}

// Two vectors a pass: four chains of additions, which hide their latency. They are of this function, not of the caller of
// with_storage, so that they stay in registers.
template <class T>
double squares_of(const T* x, int64_t count) {
  const int64_t step = float_lanes();
  DoubleVector low = hn::Zero(DoubleTag()), high = low, next_low = low, next_high = low;
  int64_t i = 0;
  for (; i + 2 * step <= count; i += 2 * step) {
    add_squares(load(x + i), low, high);
    add_squares(load(x + i + step), next_low, next_high);
  }
  for_columns(i, count, [&](int64_t at, auto lanes) { add_squares(load(x + at, lanes), low, high); });
  return hn::GetLane(hn::SumOfLanes(DoubleTag(), hn::Add(hn::Add(low, high), hn::Add(next_low, next_high))));
}

double sum_of_squares_chunk(const TensorView& tensor, int64_t begin, int64_t count) {
  double sum = 0;
  with_storage(tensor.dtype, [&](auto type) {
    sum = squares_of(static_cast<const decltype(type)*>(tensor.data) + begin, count);
  });
  return sum;
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(column_sum_chunks);
HWY_EXPORT(add_partials_range);
HWY_EXPORT(sum_of_squares_chunk);

int64_t count_of(const TensorView& tensor) {
  return tensor.count;
}

void check_tensors(std::span<const TensorView> tensors, const char* what) {
  for (const TensorView& tensor : tensors) check_storage(tensor.dtype, what);
}

}  // namespace

int64_t column_sum_workspace_bytes(int64_t rows, int64_t columns) {
  return ceil_divide(rows, kRowsPerChunk) * columns * static_cast<int64_t>(sizeof(float));
}

void column_sum(const ColumnSum& arguments) {
  check_storage(arguments.dtype, "column_sum");
  const int64_t chunks = ceil_divide(arguments.rows, kRowsPerChunk);
  parallel_ranges(chunks, chunk_grain(arguments.columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(column_sum_chunks)(arguments, begin, end);
  });
  add_partials(static_cast<const float*>(arguments.workspace), chunks, arguments.columns, arguments.columns,
               arguments.accumulate, arguments.sum);
}

void add_partials(const float* partials, int64_t chunks, int64_t stride, int64_t columns, bool accumulate,
                  float* sum) {
  const int64_t grain = round_up(row_grain(chunks), 16);
  parallel_ranges(columns, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_partials_range)(partials, chunks, stride, accumulate, begin, end, sum);
  });
}

int64_t sum_of_squares_workspace_bytes(std::span<const TensorView> tensors) {
  return count_chunks(tensors, count_of) * static_cast<int64_t>(sizeof(double));
}

void sum_of_squares(std::span<const TensorView> tensors, double* total, void* workspace) {
  check_tensors(tensors, "sum_of_squares");
  double* partials = static_cast<double*>(workspace);
  parallel_chunks(tensors, count_of,
                  [&](const TensorView& tensor, int64_t begin, int64_t count, int64_t chunk) {
                    partials[chunk] = HWY_DYNAMIC_DISPATCH(sum_of_squares_chunk)(tensor, begin, count);
                  });
  const int64_t chunks = count_chunks(tensors, count_of);
  double sum = 0;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += partials[chunk];
  *total = sum;
}

void clip_coefficient(const double* sum_of_squares, const float* unscale, float max_norm, float* norm,
                      float* coefficient) {
  const float factor = unscale == nullptr ? 1.0F : *unscale;
  *norm = static_cast<float>(std::sqrt(*sum_of_squares) * static_cast<double>(factor));
  const float ratio = max_norm / (*norm + 1e-6F);
  // Written so that a ratio that is not a number passes through.
  *coefficient = (max_norm <= 0.0F || ratio > 1.0F) ? factor : ratio * factor;
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
