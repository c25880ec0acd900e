#include "state/parts_of_ranks.h"

#include <algorithm>

#include "base/error.h"
#include "ops/ring.h"

namespace shoehorn {

void PartsOfRanks::read(const ShardedTensor& tensor, int64_t offset, std::span<float> values,
                        const ReadOwn& own) const {
  if (!tensor.is_sharded() || ranks_ == nullptr) {
    CHECK(tensor.is_whole(), "{} is read whole", slice_text(tensor.slice()));
    if (is_first()) own(offset, values);
    return;
  }
  const RingSegment cut = {.elements = tensor.global_elements(), .piece = tensor.stored_elements()};
  for (int32_t rank = 0; rank < ranks_->size(); ++rank) {
    const ElementRange part = part_of(cut, rank);
    const int64_t begin = std::max(part.begin, offset);
    const int64_t end = std::min(part.end, offset + std::ssize(values));
    if (begin >= end) continue;
    const auto piece = values.subspan(static_cast<size_t>(begin - offset), static_cast<size_t>(end - begin));
    if (ranks_->rank() == rank) own(begin - part.begin, piece);
    if (rank == 0) continue;
    if (ranks_->rank() == rank) ranks_->exchange(0, std::as_bytes(piece), 0, {});
    if (is_first()) ranks_->exchange(rank, {}, rank, std::as_writable_bytes(piece));
  }
}

void fill_unwritten(const TensorSpec& spec, std::span<std::byte> staging, const FillChunk& fill) {
  const auto bytes = static_cast<size_t>(tensor_bytes(spec));
  for (size_t offset = 0; offset < bytes;) {
    const auto chunk = staging.first(std::min(staging.size(), bytes - offset));
    fill(static_cast<int64_t>(offset), chunk);
    offset += chunk.size();
  }
}

}  // namespace shoehorn
