#include "base/address_space.h"

#include <sys/mman.h>

#include <iterator>
#include <vector>

namespace shoehorn {

bool can_map(int64_t bytes, int64_t pieces) {
  const auto size = static_cast<size_t>(bytes);
  std::vector<void*> mapped;
  while (std::ssize(mapped) < pieces) {
    void* const piece = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) break;
    mapped.push_back(piece);
  }
  for (void* const piece : mapped) munmap(piece, size);
  return std::ssize(mapped) == pieces;
}

}  // namespace shoehorn
