#include "fit/plans_at_a_time.h"

#include <algorithm>

#include "base/memory_limit.h"
#include "base/process.h"
#include "base/processors.h"

namespace shoehorn {

namespace {

// Another run's plan may be larger than those that were made, and its process may have to make code that this one has.
constexpr int64_t kPeaksOfOne = 2;

}  // namespace

size_t plans_at_a_time(int64_t available_bytes, int64_t peak_bytes, int64_t processors) {
  const int64_t with_room = available_bytes / kPeaksOfOne / std::max<int64_t>(1, peak_bytes);
  return static_cast<size_t>(std::max<int64_t>(1, std::min(with_room, processors)));
}

size_t plans_at_a_time() {
  return plans_at_a_time(available_memory_bytes(), process_peak_bytes(), processors().usable());
}

}  // namespace shoehorn
