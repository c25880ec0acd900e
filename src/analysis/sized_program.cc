#include "analysis/sized_program.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shoehorn {

Program at_counts(const Program& program, std::span<const int64_t> counts) {
  Program sized = program;
  for (Value& value : sized.values()) {
    std::vector<Dim> dims = value.type.shape.dims();
    for (Dim& dim : dims) {
      if (dim.count.valid()) dim.maximum = std::min(dim.maximum, counts[dim.count.at()]);
    }
    value.type.shape = Shape(std::move(dims));
  }
  return sized;
}

}  // namespace shoehorn
