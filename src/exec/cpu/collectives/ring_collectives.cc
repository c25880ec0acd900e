#include "exec/cpu/collectives/ring_collectives.h"

#include <cstring>
#include <span>

#include "base/error.h"
#include "exec/cpu/collectives/add_message.h"

namespace shoehorn::cpu {

namespace {

// What a block of a call moves between the segments and messages.
class RingBlock {
 public:
  RingBlock(const RingCall& call, int64_t block)
      : call_(call), block_(block), width_(static_cast<size_t>(dtype_bytes(call.dtype))) {}

  // Calls function(the bytes of a piece in `whole`, their place in the message).
  template <typename Function>
  void for_each_piece(int64_t part, const Function& function) const {
    size_t offset = 0;
    call_.ring.for_each_piece(block_, part, [&](size_t segment, const ElementRange& range, int64_t) {
      const std::span<std::byte> piece(
          call_.segments[segment].whole + static_cast<size_t>(range.begin) * width_,
          static_cast<size_t>(range.size()) * width_);
      function(piece, offset);
      offset += piece.size();
    });
  }

  void pack(int64_t part, std::byte* message) const {
    for_each_piece(part, [&](std::span<std::byte> piece, size_t offset) {
      std::memcpy(message + offset, piece.data(), piece.size());
    });
  }

  void unpack(int64_t part, const std::byte* message) const {
    for_each_piece(part, [&](std::span<std::byte> piece, size_t offset) {
      std::memcpy(piece.data(), message + offset, piece.size());
    });
  }

  void exchange(std::byte* sent, int64_t sent_part, std::byte* received, int64_t received_part) const {
    const auto bytes_of = [&](std::byte* message, int64_t part) {
      return std::span(message, static_cast<size_t>(call_.ring.chunk_elements(block_, part)) * width_);
    };
    call_.ranks->exchange(call_.at.next, bytes_of(sent, sent_part), call_.at.before,
                          bytes_of(received, received_part));
  }

  // The second half: finished parts go around.
  void tell() const {
    const int64_t rank = call_.at.place;
    for (int64_t round = 0; round < call_.ring.ranks() - 1; ++round) {
      pack(rank - round, call_.sent);
      exchange(call_.sent, rank - round, call_.received, rank - round - 1);
      unpack(rank - round - 1, call_.received);
    }
  }

 private:
  const RingCall& call_;
  int64_t block_;
  size_t width_;
};

template <typename T>
void all_reduce_of(const RingCall& call) {
  const int64_t rank = call.at.place;
  for (int64_t block = 0; block < call.ring.blocks(); ++block) {
    const RingBlock moved(call, block);
    for (int64_t round = 0; round < call.ring.ranks() - 1; ++round) {
      moved.pack(rank - round - 1, call.sent);
      moved.exchange(call.sent, rank - round - 1, call.received, rank - round - 2);
      moved.for_each_piece(rank - round - 2, [&](std::span<std::byte> piece, size_t offset) {
        add_message<T>(call.received + offset, piece.data(), piece.size());
      });
    }
    moved.tell();
  }
}

}  // namespace

void all_reduce(const RingCall& call) {
  CHECK(call.dtype == DType::kF32 || call.dtype == DType::kF64, "sums of {}", dtype_name(call.dtype));
  call.dtype == DType::kF64 ? all_reduce_of<double>(call) : all_reduce_of<float>(call);
}

void reduce_scatter(const RingCall& call) {
  CHECK(call.dtype == DType::kF32, "sums of {}", dtype_name(call.dtype));
  const int64_t rank = call.at.place;
  const std::vector<SegmentBytes>& segments = call.segments;
  for (size_t i = 0; i < segments.size(); ++i) {
    const RingSegment& segment = call.ring.segments()[i];
    const auto own = static_cast<size_t>(part_of(segment, rank).size()) * sizeof(float);
    std::memset(segments[i].part + own, 0, static_cast<size_t>(segment.piece) * sizeof(float) - own);
  }
  for (int64_t block = 0; block < call.ring.blocks(); ++block) {
    const RingBlock moved(call, block);
    // Sums grow in the messages, so that the rank's own terms stay as they are.
    std::byte* sums = call.sent;
    std::byte* next = call.received;
    moved.pack(rank - 1, sums);
    for (int64_t round = 0; round < call.ring.ranks() - 1; ++round) {
      moved.exchange(sums, rank - round - 1, next, rank - round - 2);
      moved.for_each_piece(rank - round - 2, [&](std::span<std::byte> piece, size_t offset) {
        add_message<float>(piece.data(), next + offset, piece.size());
      });
      std::swap(sums, next);
    }
    size_t offset = 0;
    call.ring.for_each_piece(block, rank, [&](size_t i, const ElementRange& range, int64_t) {
      const int64_t begin = range.begin - part_of(call.ring.segments()[i], rank).begin;
      const size_t bytes = static_cast<size_t>(range.size()) * sizeof(float);
      std::memcpy(segments[i].part + static_cast<size_t>(begin) * sizeof(float), sums + offset, bytes);
      offset += bytes;
    });
  }
}

void all_gather(const RingCall& call) {
  const auto width = static_cast<size_t>(dtype_bytes(call.dtype));
  for (size_t i = 0; i < call.segments.size(); ++i) {
    const ElementRange own = part_of(call.ring.segments()[i], call.at.place);
    std::memcpy(call.segments[i].whole + static_cast<size_t>(own.begin) * width, call.segments[i].part,
                static_cast<size_t>(own.size()) * width);
  }
  for (int64_t block = 0; block < call.ring.blocks(); ++block) RingBlock(call, block).tell();
}

}  // namespace shoehorn::cpu
