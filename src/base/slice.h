// Which elements of a tensor a process holds, where several processes share the tensor.
//
//   offset   length             stride between the beginnings of two runs
//   ........[====]....[====]....[====]....    a block of columns: a run in each row
//   ........[================]............    a flat range, or a block of rows: one run
//
// Elements are numbered as they follow each other in the tensor, last dimension fastest: the *global* numbers. The
// elements of a slice are stored one behind the other, run after run: their *local* numbers. A tensor that is cut along
// one of its dimensions, or anywhere as a flat array, is cut into such slices.
//
// A slice has one form only: what lies in a row is one run, and a slice of no elements has no run and begins at 0. The
// functions below make that form; numbers from a file are checked by make(). Costs do not depend on the number of runs
// except where all of them are visited. Nothing allocates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace shoehorn {

// Elements that follow each other both in the tensor and in the slice.
struct SliceRun {
  int64_t global = 0;
  int64_t local = 0;
  int64_t length = 0;
  bool operator==(const SliceRun&) const = default;
};

struct Slice {
  int64_t offset = 0;  // of the first run
  int64_t length = 0;  // of a run
  int64_t stride = 0;  // from one run's beginning to the next one's; equals `length` where there is one run
  int64_t runs = 0;

  // All elements of a tensor that has so many.
  static Slice whole(int64_t elements) { return range(0, elements); }
  static Slice range(int64_t begin, int64_t end);
  // Indices [begin, end) along dimension `axis` of a tensor of this shape. InternalError outside of the shape.
  static Slice block(std::span<const int64_t> shape, int64_t axis, int64_t begin, int64_t end);
  // None where these numbers are no slice of a tensor of so many elements, or another form of one than the one above.
  static std::optional<Slice> make(const Slice& numbers, int64_t elements);

  int64_t elements() const { return length * runs; }
  bool is_contiguous() const { return runs <= 1; }
  // The global number behind the last element; 0 of a slice of none.
  int64_t end() const { return runs == 0 ? 0 : offset + (runs - 1) * stride + length; }
  bool contains(int64_t global) const { return elements_before(global + 1) > elements_before(global); }
  // How many elements of the slice have a smaller global number.
  int64_t elements_before(int64_t global) const;
  int64_t global_of(int64_t local) const { return offset + local / length * stride + local % length; }

  bool operator==(const Slice&) const = default;
};

// "elements 3 to 17", "8 runs of 4 elements from 12 on, 16 apart", "no elements".
std::string slice_text(const Slice& slice);

// The runs of a slice, or the parts of them that are among the local numbers [begin, end), in ascending order:
//
//   for (const SliceRun& run : SliceRuns(slice)) copy(run.length, from + run.local, to + run.global);
class SliceRuns {
 public:
  explicit SliceRuns(const Slice& slice) : SliceRuns(slice, 0, slice.elements()) {}
  SliceRuns(const Slice& slice, int64_t begin, int64_t end) : slice_(slice), begin_(begin), end_(end) {}

  class Iterator {
   public:
    Iterator(const SliceRuns& runs, int64_t local) : runs_(&runs), local_(local) {}
    SliceRun operator*() const {
      const Slice& slice = runs_->slice_;
      const int64_t rest = slice.length - local_ % slice.length;
      return {slice.global_of(local_), local_, std::min(rest, runs_->end_ - local_)};
    }
    Iterator& operator++() {
      local_ += (**this).length;
      return *this;
    }
    bool operator==(const Iterator& other) const { return local_ == other.local_; }

   private:
    const SliceRuns* runs_;
    int64_t local_;
  };
  Iterator begin() const { return {*this, begin_}; }
  Iterator end() const { return {*this, std::max(begin_, end_)}; }

 private:
  Slice slice_;
  int64_t begin_;
  int64_t end_;
};

// Elements that follow each other in a tensor and in two slices of it.
struct CommonRun {
  int64_t from = 0;  // local number in the one
  int64_t to = 0;    // local number in the other
  int64_t length = 0;
  bool operator==(const CommonRun&) const = default;
};

// Calls function(common_run) for what `from` and the local numbers [begin, end) of `to` have in common, in ascending
// order.
template <typename Function>
void for_each_common_run(const Slice& from, const Slice& to, int64_t begin, int64_t end,
                         const Function& function) {
  for (const SliceRun& wanted : SliceRuns(to, begin, end)) {
    const int64_t first = from.elements_before(wanted.global);
    const int64_t behind = from.elements_before(wanted.global + wanted.length);
    for (const SliceRun& held : SliceRuns(from, first, behind))
      function(CommonRun{held.local, wanted.local + held.global - wanted.global, held.length});
  }
}

// How many elements two slices of a tensor have in common.
int64_t common_elements(const Slice& a, const Slice& b);

// Elements [begin, end) of a tensor of which no slice has them, or two have.
struct CoverDefect {
  int64_t begin = 0;
  int64_t end = 0;
  // Places of the two in the list of slices; none: no slice has the elements.
  std::optional<std::pair<size_t, size_t>> twice = {};
};

// The first elements that are not in exactly one of the slices; nothing where the slices cover the tensor once. Takes
// time in proportion to the number of runs.
std::optional<CoverDefect> find_cover_defect(std::span<const Slice> slices, int64_t elements);

}  // namespace shoehorn
