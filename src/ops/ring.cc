#include "ops/ring.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"

namespace shoehorn {

Ring::Ring(int64_t elements, int64_t block_elements, int64_t ranks)
    : elements_(elements),
      block_elements_(block_elements > 0 ? std::min(block_elements, elements) : elements),
      ranks_(ranks) {
  CHECK(elements > 0 && ranks > 0, "a ring of {} ranks for {} elements", ranks, elements);
}

int64_t Ring::blocks() const {
  return ceil_divide(elements_, block_elements_);
}

int64_t Ring::chunk_elements() const {
  return ceil_divide(block_elements_, ranks_);
}

ElementRange Ring::chunk(int64_t block, int64_t chunk) const {
  const int64_t first = block * block_elements_;
  const int64_t last = std::min(first + block_elements_, elements_);
  const int64_t size = ceil_divide(last - first, ranks_);
  const int64_t at = (chunk % ranks_ + ranks_) % ranks_;
  return {std::min(first + at * size, last), std::min(first + (at + 1) * size, last)};
}

int64_t Ring::sent_elements(int64_t rank) const {
  int64_t sent = 0;
  for (int64_t block = 0; block < blocks(); ++block) {
    for (int64_t round = 0; round < ranks_ - 1; ++round)
      sent += chunk(block, rank - round).size() + chunk(block, rank + 1 - round).size();
  }
  return sent;
}

}  // namespace shoehorn
