#include "exec/cpu/elementwise/elementwise.h"

#include <cstring>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/elementwise/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/elementwise/dropout-inl.h"
#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

void add_range(const Add& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    const T* a = static_cast<const T*>(g.a);
    const T* b = static_cast<const T*>(g.b);
    T* sum = static_cast<T*>(g.sum);
    for_columns(begin, end, [&](int64_t i, auto lanes) {
      store(hn::Add(load(a + i, lanes), load(b + i, lanes)), sum + i, lanes);
    });
  });
}

void multiply_range(const Multiply& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    const T* a = static_cast<const T*>(g.a);
    const T* b = static_cast<const T*>(g.b);
    T* product = static_cast<T*>(g.product);
    for_columns(begin, end, [&](int64_t i, auto lanes) {
      store(hn::Mul(load(a + i, lanes), load(b + i, lanes)), product + i, lanes);
    });
  });
}

void bias_add_rows(const BiasAdd& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(g.x) + row * g.columns;
      T* y = static_cast<T*>(g.y) + row * g.columns;
      for_columns(0, g.columns, [&](int64_t i, auto lanes) {
        store(hn::Add(load(x + i, lanes), load(g.bias + i, lanes)), y + i, lanes);
      });
    }
  });
}

void dropout_rows(const DropoutApply& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    DropoutReplay replay(g.dropout);
    for (int64_t row = begin; row < end; ++row) {
      const T* x = static_cast<const T*>(g.x) + row * g.columns;
      T* y = static_cast<T*>(g.y) + row * g.columns;
      for_masked_columns(replay, row, g.columns, [&](int64_t i, auto lanes) {
        store(replay.apply(load(x + i, lanes), i), y + i, lanes);
      });
    }
  });
}

void cast_range(const Cast& g, int64_t begin, int64_t end) {
  with_storage(g.from_dtype, [&](auto from_type) {
    using From = decltype(from_type);
    const From* from = static_cast<const From*>(g.from);
    with_storage(g.to_dtype, [&](auto to_type) {
      using To = decltype(to_type);
      To* to = static_cast<To*>(g.to);
      for_columns(begin, end, [&](int64_t i, auto lanes) { store(load(from + i, lanes), to + i, lanes); });
    });
  });
}

void scale_range(const Scale& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    const T* x = static_cast<const T*>(g.x);
    T* y = static_cast<T*>(g.y);
    const FloatVector factor = set(*g.factor);
    for_columns(begin, end,
                [&](int64_t i, auto lanes) { store(hn::Mul(load(x + i, lanes), factor), y + i, lanes); });
  });
}

void fill_range(const Fill& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    T* y = static_cast<T*>(g.y);
    for_columns(begin, end, [&](int64_t i, auto lanes) { store(set(g.value), y + i, lanes); });
  });
}

void split_range(const float* value, int64_t begin, int64_t end, uint16_t* high, uint16_t* rest) {
  for_columns(begin, end, [&](int64_t i, auto lanes) {
    const SplitVector split = split_master(load(value + i, lanes));
    store_half(split.high, high + i, lanes);
    store_half(split.rest, rest + i, lanes);
  });
}

void join_range(const uint16_t* high, const uint16_t* rest, int64_t begin, int64_t end, float* value) {
  for_columns(begin, end, [&](int64_t i, auto lanes) {
    store(join_master(load_half(high + i, lanes), load_half(rest + i, lanes)), value + i, lanes);
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {

HWY_EXPORT(add_range);
HWY_EXPORT(multiply_range);
HWY_EXPORT(bias_add_rows);
HWY_EXPORT(dropout_rows);
HWY_EXPORT(cast_range);
HWY_EXPORT(scale_range);
HWY_EXPORT(fill_range);
HWY_EXPORT(split_range);
HWY_EXPORT(join_range);

void add(const Add& arguments) {
  check_storage(arguments.dtype, "add");
  parallel_ranges(arguments.count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_range)(arguments, begin, end);
  });
}

void multiply(const Multiply& arguments) {
  check_storage(arguments.dtype, "multiply");
  parallel_ranges(arguments.count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(multiply_range)(arguments, begin, end);
  });
}

void bias_add(const BiasAdd& arguments) {
  check_storage(arguments.dtype, "bias_add");
  parallel_ranges(arguments.rows, row_grain(arguments.columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(bias_add_rows)(arguments, begin, end);
  });
}

void dropout_apply(const DropoutApply& arguments) {
  check_storage(arguments.dtype, "dropout");
  if (!drops(arguments.dropout)) {
    if (arguments.x != arguments.y) {
      copy(arguments.x, arguments.rows * arguments.columns * dtype_bytes(arguments.dtype), arguments.y);
    }
    return;
  }
  parallel_ranges(arguments.rows, row_grain(arguments.columns), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(dropout_rows)(arguments, begin, end);
  });
}

void cast(const Cast& arguments) {
  check_storage(arguments.from_dtype, "cast");
  check_storage(arguments.to_dtype, "cast");
  parallel_ranges(arguments.count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cast_range)(arguments, begin, end);
  });
}

void scale(const Scale& arguments) {
  check_storage(arguments.dtype, "scale");
  parallel_ranges(arguments.count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(scale_range)(arguments, begin, end);
  });
}

void fill(const Fill& arguments) {
  check_storage(arguments.dtype, "fill");
  parallel_ranges(arguments.count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(fill_range)(arguments, begin, end);
  });
}

void copy(const void* from, int64_t bytes, void* to) {
  parallel_ranges(bytes, 4 * kElementsPerChunk, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

// int16_t and uint16_t may name the same memory, and bfloat16 is one uint16_t.
void split_master(const float* value, int64_t count, bfloat16* high, int16_t* rest) {
  parallel_ranges(count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(split_range)
    (value, begin, end, &high->bits, reinterpret_cast<uint16_t*>(rest));
  });
}

void join_master(const bfloat16* high, const int16_t* rest, int64_t count, float* value) {
  parallel_ranges(count, kElementsPerChunk, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(join_range)
    (&high->bits, reinterpret_cast<const uint16_t*>(rest), begin, end, value);
  });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
