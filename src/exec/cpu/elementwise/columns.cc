#include "exec/cpu/elementwise/columns.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/elementwise/columns.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

void add_columns_rows(const AddColumns& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    const int64_t behind = g.offset + g.width;
    for (int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(g.x) + row * g.columns;
      const T* addend = static_cast<const T*>(g.addend) + row * g.width;
      T* y = static_cast<T*>(g.y) + row * g.columns;
      if (x != y) {
        std::copy_n(x, g.offset, y);
        std::copy(x + behind, x + g.columns, y + behind);
      }
      for_columns(0, g.width, [&](int64_t i, auto lanes) {
        store(hn::Add(load(x + g.offset + i, lanes), load(addend + i, lanes)), y + g.offset + i, lanes);
      });
    }
  });
}

void put_columns_rows(const PutColumns& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const float* x = g.x + row * g.width;
      T* y = static_cast<T*>(g.y) + row * g.columns + g.offset;
      for_columns(0, g.width, [&](int64_t i, auto lanes) { store(load(x + i, lanes), y + i, lanes); });
    }
  });
}

void widen_range_of_rows(const WidenRows& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(g.x) + row * g.columns;
      float* y = g.y + row * g.stride;
      for_columns(0, g.columns, [&](int64_t i, auto lanes) { store(load(x + i, lanes), y + i, lanes); });
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {

HWY_EXPORT(add_columns_rows);
HWY_EXPORT(put_columns_rows);
HWY_EXPORT(widen_range_of_rows);

void add_columns(const AddColumns& arguments) {
  check_storage(arguments.dtype, "add_columns");
  parallel_ranges(arguments.rows, row_grain(arguments.width), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_columns_rows)(arguments, begin, end);
  });
}

void take_columns(const TakeColumns& arguments) {
  check_storage(arguments.dtype, "take_columns");
  const int64_t element = dtype_bytes(arguments.dtype);
  const auto* x = static_cast<const char*>(arguments.x) + arguments.offset * element;
  auto* y = static_cast<char*>(arguments.y);
  parallel_ranges(arguments.rows, row_grain(arguments.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::memcpy(y + row * arguments.width * element, x + row * arguments.columns * element,
                  static_cast<size_t>(arguments.width * element));
    }
  });
}

void spread_columns(const SpreadColumns& arguments) {
  check_storage(arguments.dtype, "spread_columns");
  const int64_t element = dtype_bytes(arguments.dtype);
  const int64_t before = arguments.offset * element;
  const int64_t width = arguments.width * element;
  const int64_t all = arguments.columns * element;
  const auto* x = static_cast<const char*>(arguments.x);
  auto* y = static_cast<char*>(arguments.y);
  parallel_ranges(arguments.rows, row_grain(arguments.columns), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      char* to = y + row * all;
      std::memset(to, 0, static_cast<size_t>(before));
      std::memcpy(to + before, x + row * width, static_cast<size_t>(width));
      std::memset(to + before + width, 0, static_cast<size_t>(all - before - width));
    }
  });
}

void put_columns(const PutColumns& arguments) {
  check_storage(arguments.dtype, "put_columns");
  parallel_ranges(arguments.rows, row_grain(arguments.width), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(put_columns_rows)(arguments, begin, end);
  });
}

void widen_rows(const WidenRows& arguments) {
  check_storage(arguments.dtype, "widen_rows");
  CHECK(arguments.stride >= arguments.columns, "rows of {} elements every {}", arguments.columns,
        arguments.stride);
  parallel_ranges(arguments.rows, row_grain(arguments.columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(widen_range_of_rows)(arguments, begin, end);
  });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
