#include "base/slice.h"

#include <fmt/format.h>

#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "base/error.h"

namespace shoehorn {

Slice Slice::range(int64_t begin, int64_t end) {
  CHECK(0 <= begin && begin <= end, "elements {} to {}", begin, end);
  if (begin == end) return {};
  return {begin, end - begin, end - begin, 1};
}

Slice Slice::block(std::span<const int64_t> shape, int64_t axis, int64_t begin, int64_t end) {
  const auto rank = static_cast<int64_t>(shape.size());
  CHECK(0 <= axis && axis < rank, "dimension {} of a shape of {}", axis, rank);
  const int64_t dim = shape[static_cast<size_t>(axis)];
  CHECK(0 <= begin && begin <= end && end <= dim, "indices {} to {} of a dimension of {}", begin, end, dim);
  int64_t outer = 1;
  int64_t inner = 1;
  for (int64_t i = 0; i < axis; ++i) outer *= shape[static_cast<size_t>(i)];
  for (int64_t i = axis + 1; i < rank; ++i) inner *= shape[static_cast<size_t>(i)];
  if (outer == 1 || end - begin == dim) return range(begin * inner * outer, end * inner * outer);
  if (outer * inner * (end - begin) == 0) return {};
  return {begin * inner, (end - begin) * inner, dim * inner, outer};
}

std::optional<Slice> Slice::make(const Slice& numbers, int64_t elements) {
  const auto& [offset, length, stride, runs] = numbers;
  if (numbers == Slice{}) return numbers;
  if (offset < 0 || length < 1 || runs < 1 || offset > elements || length > elements - offset)
    return std::nullopt;
  // What follows the first run is a multiple of the stride.
  const bool has_one_form = runs == 1 ? stride == length : stride > length;
  if (!has_one_form || (runs > 1 && (elements - offset - length) / stride < runs - 1)) return std::nullopt;
  return numbers;
}

int64_t Slice::elements_before(int64_t global) const {
  if (runs == 0 || global <= offset) return 0;
  const int64_t run = (global - offset) / stride;
  if (run >= runs) return elements();
  return run * length + std::min(length, (global - offset) % stride);
}

std::string slice_text(const Slice& slice) {
  if (slice.runs == 0) return "no elements";
  if (slice.is_contiguous()) return fmt::format("elements {} to {}", slice.offset, slice.end() - 1);
  return fmt::format("{} runs of {} elements from {} on, {} apart", slice.runs, slice.length, slice.offset,
                     slice.stride);
}

int64_t common_elements(const Slice& a, const Slice& b) {
  int64_t common = 0;
  for (const SliceRun& run : SliceRuns(a))
    common += b.elements_before(run.global + run.length) - b.elements_before(run.global);
  return common;
}

std::optional<CoverDefect> find_cover_defect(std::span<const Slice> slices, int64_t elements) {
  // The next run of each slice, the first one on top.
  using Next = std::tuple<int64_t, size_t, int64_t>;  // global, slice, run
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].runs > 0) next.emplace(slices[i].offset, i, 0);
  }
  int64_t covered = 0;
  size_t last = 0;  // the slice that covers what lies before `covered`
  while (!next.empty()) {
    const auto [begin, i, run] = next.top();
    next.pop();
    if (begin > covered) return CoverDefect{covered, begin};
    const int64_t end = begin + slices[i].length;
    if (begin < covered) return CoverDefect{begin, std::min(covered, end), std::pair(last, i)};
    covered = end;
    last = i;
    if (run + 1 < slices[i].runs) next.emplace(begin + slices[i].stride, i, run + 1);
  }
  if (covered < elements) return CoverDefect{covered, elements};
  return std::nullopt;
}

}  // namespace shoehorn
