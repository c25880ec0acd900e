// Whole tensors on the first rank, a range of elements at a time, where each rank has a part of them (passes/zero.h): the
// others send theirs, so that no rank holds more than the range. Ranks call it for the same tensors and ranges, in one
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "graph/state_table.h"
#include "io/safetensors_writer.h"
#include "ranks/communicator.h"

namespace shoehorn {

class PartsOfRanks {
 public:
  // Null: there is one rank, or each has all.
  explicit PartsOfRanks(Communicator* ranks) : ranks_(ranks) {}

  bool is_first() const { return ranks_ == nullptr || ranks_->is_main(); }

  // Reads local elements [offset, offset + values.size()) of what this rank has.
  using ReadOwn = std::function<void(int64_t offset, std::span<float> values)>;
  // Elements [offset, offset + values.size()) of the whole tensor on the first rank; what `values` has on others is not
  // said. Each rank is asked for its own in ascending order. SystemError where a rank does not send.
  void read(const ShardedTensor& tensor, int64_t offset, std::span<float> values, const ReadOwn& own) const;

 private:
  Communicator* ranks_;
};

// Calls fill(offset, chunk) for a tensor as SafetensorsWriter::append_filled does, and writes nothing: what a rank does that
// sends while the first one writes.
void fill_unwritten(const TensorSpec& spec, std::span<std::byte> staging, const FillChunk& fill);

}  // namespace shoehorn
