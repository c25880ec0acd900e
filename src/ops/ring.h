// How a ring of N ranks adds up tensors that each of them has (Patarasuk and Yuan, 2009): the arithmetic, without a byte
// sent. The kernel that sends (exec/cpu/collectives) and the cost of the op both follow it.
//
// The tensors are one range of elements, the tensors of a node end to end. It is cut into blocks, which go around one
// after the other, and a block into N chunks. In N - 1 rounds each rank sends a chunk to the next rank, receives one from
// the rank before and adds it to its own; then in N - 1 rounds the finished chunks go around. So chunk c is
// x_c + x_{c+1} + … + x_{c-1}, added in this order on every rank, and a rank sends 2 (N - 1) / N of the bytes.
#pragma once

#include <cstdint>

namespace shoehorn {

struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

class Ring {
 public:
  // `elements` in blocks of at most `block_elements` (0: one block).
  Ring(int64_t elements, int64_t block_elements, int64_t ranks);

  int64_t ranks() const { return ranks_; }
  int64_t blocks() const;
  // The largest chunk: what a buffer holds.
  int64_t chunk_elements() const;
  // Chunk `chunk` of a block, which may be any number: it counts around the ring. Empty at the end of a short block.
  ElementRange chunk(int64_t block, int64_t chunk) const;
  // What a rank sends in all.
  int64_t sent_elements(int64_t rank) const;

 private:
  int64_t elements_;
  int64_t block_elements_;
  int64_t ranks_;
};

}  // namespace shoehorn
