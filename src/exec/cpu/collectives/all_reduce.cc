#include "exec/cpu/collectives/all_reduce.h"

#include <algorithm>
#include <span>

#include "ops/ring.h"

namespace shoehorn::cpu {

namespace {

// Calls function(tensor's elements, offset in the range) for each piece of a range that lies in one tensor.
template <class Function>
void for_each_piece(const std::vector<ReducedTensor>& tensors, const ElementRange& range,
                    const Function& function) {
  int64_t begin = 0;
  for (const ReducedTensor& tensor : tensors) {
    const int64_t from = std::max(begin, range.begin);
    const int64_t to = std::min(begin + tensor.elements, range.end);
    if (from < to) {
      function(std::span(tensor.x + (from - begin), static_cast<size_t>(to - from)), from - range.begin);
    }
    begin += tensor.elements;
    if (begin >= range.end) return;
  }
}

void copy_elements(const float* from, float* to, int64_t count) {
  std::copy(from, from + count, to);
}

void add_elements(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

std::span<std::byte> bytes_of(float* elements, int64_t count) {
  return std::as_writable_bytes(std::span(elements, static_cast<size_t>(count)));
}

}  // namespace

void all_reduce(const AllReduce& arguments) {
  Communicator& ranks = *arguments.ranks;
  int64_t elements = 0;
  for (const ReducedTensor& tensor : arguments.tensors) elements += tensor.elements;
  const Ring ring(elements, arguments.block_elements, ranks.size());
  const auto pass_on = [&](const ElementRange& sent, const ElementRange& received) {
    for_each_piece(arguments.tensors, sent, [&](std::span<float> piece, int64_t offset) {
      copy_elements(piece.data(), arguments.sent + offset, std::ssize(piece));
    });
    ranks.exchange(ranks.next(), bytes_of(arguments.sent, sent.size()), ranks.before(),
                   bytes_of(arguments.received, received.size()));
  };
  for (int64_t block = 0; block < ring.blocks(); ++block) {
    for (int64_t round = 0; round < ring.ranks() - 1; ++round) {
      const ElementRange received = ring.chunk(block, ranks.rank() - round - 1);
      pass_on(ring.chunk(block, ranks.rank() - round), received);
      for_each_piece(arguments.tensors, received, [&](std::span<float> piece, int64_t offset) {
        add_elements(arguments.received + offset, piece.data(), std::ssize(piece));
      });
    }
    for (int64_t round = 0; round < ring.ranks() - 1; ++round) {
      const ElementRange received = ring.chunk(block, ranks.rank() - round);
      pass_on(ring.chunk(block, ranks.rank() + 1 - round), received);
      for_each_piece(arguments.tensors, received, [&](std::span<float> piece, int64_t offset) {
        copy_elements(arguments.received + offset, piece.data(), std::ssize(piece));
      });
    }
  }
}

}  // namespace shoehorn::cpu
