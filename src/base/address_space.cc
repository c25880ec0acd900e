#include "base/address_space.h"

#include <sys/mman.h>

namespace shoehorn {

bool can_map(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return false;
  munmap(mapped, size);
  return true;
}

}  // namespace shoehorn
