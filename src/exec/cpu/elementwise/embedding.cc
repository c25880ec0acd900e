#include "exec/cpu/elementwise/embedding.h"

#include <algorithm>
#include <cstring>

#include "exec/cpu/parallel.h"
#include "exec/cpu/storage.h"

#include "exec/cpu/simd/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exec/cpu/elementwise/embedding.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "exec/cpu/simd/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace shoehorn::cpu::HWY_NAMESPACE {

void forward_rows(const EmbeddingForward& g, int64_t begin, int64_t end) {
  with_storage(g.table_dtype, [&](auto table_type) {
    with_storage(g.dtype, [&](auto type) {
      using Table = decltype(table_type);
      using T = decltype(type);
      for (int64_t row = begin; row < end; ++row) {
        const Table* entry = static_cast<const Table*>(g.table) + g.ids[row] * g.hidden;
        const T* addend = g.addend == nullptr ? nullptr : static_cast<const T*>(g.addend) + row * g.hidden;
        T* y = static_cast<T*>(g.y) + row * g.hidden;
        for_columns(0, g.hidden, [&](int64_t i, auto lanes) {
          FloatVector value = load(entry + i, lanes);
          if (addend != nullptr) value = hn::Add(value, load(addend + i, lanes));
          store(value, y + i, lanes);
        });
      }
    });
  });
}

void backward_columns(const EmbeddingBackward& g, int64_t begin, int64_t end) {
  with_storage(g.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < g.rows; ++row) {
      if (g.ids[row] == g.padding_index) continue;
      const T* dy = static_cast<const T*>(g.dy) + row * g.hidden;
      float* entry = g.dtable + g.ids[row] * g.hidden;
      for_columns(begin, end, [&](int64_t i, auto lanes) {
        store(hn::Add(load(entry + i, lanes), load(dy + i, lanes)), entry + i, lanes);
      });
    }
  });
}

}  // namespace shoehorn::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoehorn::cpu {
namespace {

HWY_EXPORT(forward_rows);
HWY_EXPORT(backward_columns);

// Columns that keep two threads' writes in cache lines of their own.
constexpr int64_t kColumnGrain = 16;

void check_ids(const int32_t* ids, int64_t count, int64_t entries, const char* what) {
  for (int64_t i = 0; i < count; ++i) {
    if (ids[i] >= 0 && ids[i] < entries) continue;
    throw user_error(
        "[{}] expected ids from 0 to {}, got {} at row {}; do the tokenizer and the model belong together?",
        what, entries - 1, ids[i], i);
  }
}

void check_index(const int32_t* index, int64_t count, int64_t rows, const char* what) {
  for (int64_t i = 0; i < count; ++i) {
    CHECK(index[i] >= 0 && index[i] < rows, "[{}] expected a row from 0 to {}, got {} at {}", what, rows - 1,
          index[i], i);
  }
}

void zero(void* to, int64_t bytes) {
  parallel_ranges(bytes, 4 * kElementsPerChunk, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(to) + begin, 0, static_cast<size_t>(end - begin));
  });
}

}  // namespace

void embedding_forward(const EmbeddingForward& arguments) {
  check_storage(arguments.table_dtype, "embedding");
  check_storage(arguments.dtype, "embedding");
  check_ids(arguments.ids, arguments.rows, arguments.entries, "embedding");
  parallel_ranges(arguments.rows, row_grain(arguments.hidden), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(forward_rows)(arguments, begin, end);
  });
}

void embedding_backward(const EmbeddingBackward& g) {
  check_storage(g.dtype, "embedding");
  check_ids(g.ids, g.rows, g.entries, "embedding");
  if (!g.accumulate) zero(g.dtable, g.entries * g.hidden * static_cast<int64_t>(sizeof(float)));
  parallel_ranges(g.hidden,
                  std::max(kColumnGrain, ceil_divide(row_grain(g.rows), kColumnGrain) * kColumnGrain),
                  [&](int64_t begin, int64_t end) {
                    HWY_DYNAMIC_DISPATCH(backward_columns)
                    (g, begin, end);
                  });
}

void gather_rows(const GatherRows& g) {
  if (g.dtype != DType::kI32) check_storage(g.dtype, "gather_rows");
  check_index(g.index, g.selected, g.rows, "gather_rows");
  const int64_t bytes = g.hidden * dtype_bytes(g.dtype);
  parallel_ranges(g.selected, row_grain(g.hidden), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      std::memcpy(static_cast<char*>(g.y) + s * bytes, static_cast<const char*>(g.x) + g.index[s] * bytes,
                  static_cast<size_t>(bytes));
    }
  });
}

void last_rows(const LastRows& g) {
  for (int64_t s = 0; s < g.sequences; ++s) {
    int32_t row = g.start[s] + g.length[s] - 1;
    while (g.ids != nullptr && row > g.start[s] && g.ids[row] == g.padding_index) --row;
    g.last[s] = row;
  }
}

void scatter_rows(const ScatterRows& g) {
  check_storage(g.dtype, "scatter_rows");
  check_index(g.index, g.selected, g.rows, "scatter_rows");
  const int64_t element_bytes = dtype_bytes(g.dtype);
  const int64_t bytes = g.hidden * element_bytes;
  zero(g.y, g.rows * bytes);
  // A thread owns columns, so that a row that comes twice ends as its last writer left it.
  parallel_ranges(g.hidden, 2 * kColumnGrain, [&](int64_t begin, int64_t end) {
    const int64_t offset = begin * element_bytes;
    const size_t length = static_cast<size_t>((end - begin) * element_bytes);
    for (int64_t s = 0; s < g.selected; ++s) {
      std::memcpy(static_cast<char*>(g.y) + g.index[s] * bytes + offset,
                  static_cast<const char*>(g.x) + s * bytes + offset, length);
    }
  });
}

}  // namespace shoehorn::cpu
#endif  // HWY_ONCE
