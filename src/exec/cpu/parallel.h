// Splits work over the OpenMP team so that results do not depend on the number of threads: a kernel either
// computes each element independently, or sums over chunks of fixed size whose partial sums are added in
// order.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/rounding.h"

namespace shoehorn::cpu {

// Rows per partial column sum (gradients of biases and of layer norm's gamma).
inline constexpr int64_t kRowsPerChunk = 64;

// Elements per partial sum or optimizer task.
inline constexpr int64_t kElementsPerChunk = 16384;

// Rows of `columns` elements that make a task worth handing to a thread.
constexpr int64_t row_grain(int64_t columns) {
  return std::max<int64_t>(1, kElementsPerChunk / std::max<int64_t>(1, columns));
}

// The number of chunks of kRowsPerChunk rows that makes such a task.
constexpr int64_t chunk_grain(int64_t columns) {
  return ceil_divide(row_grain(columns), kRowsPerChunk);
}

// Calls function(begin, end) on disjoint ranges that cover [0, count): one contiguous range per thread, with
// boundaries at multiples of `grain`. A single grain runs on the calling thread. The team always has its full
// size, because libgomp ends the threads that a smaller team does not use. `function` must not throw.
template <class Function>
void parallel_ranges(int64_t count, int64_t grain, const Function& function) {
  if (count <= 0) return;
  const int64_t grains = ceil_divide(count, grain);
  if (grains <= 1 || omp_get_max_threads() == 1) {
    function(int64_t{0}, count);
    return;
  }
#pragma omp parallel
  {
    const int64_t thread = omp_get_thread_num();
    const int64_t threads = omp_get_num_threads();
    const int64_t begin = grains * thread / threads * grain;
    const int64_t end = std::min(count, grains * (thread + 1) / threads * grain);
    if (begin < end) function(begin, end);
  }
}

// The number of chunks of kElementsPerChunk elements in a list of tensors. No chunk spans two tensors.
template <class Tensor, class CountOf>
int64_t count_chunks(std::span<const Tensor> tensors, const CountOf& count_of) {
  int64_t chunks = 0;
  for (const Tensor& tensor : tensors) chunks += ceil_divide(count_of(tensor), kElementsPerChunk);
  return chunks;
}

// Calls function(tensor, begin, count, chunk) for every chunk of a list of tensors; neighbouring chunks run
// on the same thread. If all tensors together are small, one thread does everything.
template <class Tensor, class CountOf, class Function>
void parallel_chunks(std::span<const Tensor> tensors, const CountOf& count_of, const Function& function) {
  const int64_t chunks = count_chunks(tensors, count_of);
  int64_t elements = 0;
  for (const Tensor& tensor : tensors) elements += count_of(tensor);
  parallel_ranges(chunks, elements <= kElementsPerChunk ? chunks : 1, [&](int64_t first, int64_t last) {
    int64_t chunk = 0;
    for (const Tensor& tensor : tensors) {
      const int64_t count = count_of(tensor);
      const int64_t end = std::min(last, chunk + ceil_divide(count, kElementsPerChunk));
      for (int64_t i = std::max(first, chunk); i < end; ++i) {
        const int64_t begin = (i - chunk) * kElementsPerChunk;
        function(tensor, begin, std::min(kElementsPerChunk, count - begin), i);
      }
      chunk += ceil_divide(count, kElementsPerChunk);
    }
  });
}

}  // namespace shoehorn::cpu
