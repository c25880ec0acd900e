#include "exec/cpu/products/code_memory.h"

#include "base/address_space.h"
#include "base/error.h"
#include "base/format.h"
#include "base/memory_limit.h"

namespace shoehorn::cpu {

namespace {

// A product has up to 13 kernels (oneDNN 2.6.3, AVX-512), each with 256 KiB of addresses for its code, and some more for what
// describes them.
constexpr int64_t kCodeBytes = int64_t{4} << 20;

}  // namespace

void check_room_for_code() {
  if (can_map(kCodeBytes)) return;
  const MemoryLimit limit = binding_memory_limit();
  throw user_error(
      "[memory] expected {} for the code of another product, got {} ({}); raise this limit, or choose a smaller plan",
      format_bytes(kCodeBytes), format_bytes(limit.available_bytes), describe(limit));
}

}  // namespace shoehorn::cpu
