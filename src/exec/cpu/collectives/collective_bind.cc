#include "exec/cpu/collectives/collective_bind.h"

#include <utility>

#include "exec/cpu/collectives/chain_collectives.h"
#include "exec/cpu/collectives/ring_collectives.h"
#include "exec/cpu/kernel_entry.h"

namespace shoehorn::cpu {

namespace {

using RingKernel = void (*)(const RingCall&);
using ChainKernel = void (*)(const ChainCall&);

RingKernel ring_kernel_of(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return all_reduce;
    case OpKind::kReduceScatter:
      return reduce_scatter;
    case OpKind::kAllGather:
      return all_gather;
    default:
      return nullptr;
  }
}

ChainKernel chain_kernel_of(OpKind kind) {
  switch (kind) {
    case OpKind::kBroadcast:
      return broadcast;
    case OpKind::kReduce:
      return reduce;
    default:
      return nullptr;
  }
}

// Each segment's bytes, of tensors that lie end to end in a ring.
std::vector<SegmentBytes> bytes_of_segments(const OpContext& node, const NodeBuffers& buffers) {
  const bool gathers = node.node.kind == OpKind::kAllGather;
  const bool sums_whole = node.node.kind == OpKind::kAllReduce;
  const int64_t width = dtype_bytes(node.type(0).dtype);
  const auto& tensors = node.attributes<CollectiveAttributes>().segments;
  std::vector<SegmentBytes> bytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::byte* whole = (gathers || sums_whole ? buffers.outputs : buffers.inputs)[i];
    std::byte* part = sums_whole ? nullptr : (gathers ? buffers.inputs : buffers.outputs)[i];
    for (const RingSegment& segment : tensors[i]) {
      bytes.push_back({whole, part});
      whole += segment.elements * width;
      if (part != nullptr) part += segment.piece * width;
    }
  }
  return bytes;
}

RingPlace place_of(const CollectiveAttributes& attributes, const Communicator& ranks) {
  const int64_t place = place_in_group(attributes, ranks.rank());
  const auto rank_at = [&](int64_t other) {
    return static_cast<int32_t>(rank_at_place(attributes, ranks.rank(), other % attributes.ranks));
  };
  return {place, rank_at(place + 1), rank_at(place + attributes.ranks - 1)};
}

// What a node does when it runs, with all that it needs.
std::function<void()> ring_work(const OpContext& node, const NodeBuffers& buffers,
                                const std::shared_ptr<Communicator>& ranks) {
  const auto& attributes = node.attributes<CollectiveAttributes>();
  const DType dtype = node.type(0).dtype;
  std::byte* messages = buffers.outputs[attributes.segments.size()];
  RingCall call{.ranks = ranks.get(),
                .at = place_of(attributes, *ranks),
                .ring = ring_of(attributes),
                .dtype = dtype,
                .segments = bytes_of_segments(node, buffers),
                .sent = messages,
                .received = messages + attributes.chunk_elements * dtype_bytes(dtype)};
  return [kernel = ring_kernel_of(node.node.kind), call = std::move(call), ranks] { kernel(call); };
}

std::function<void()> chain_work(const OpContext& node, const NodeBuffers& buffers,
                                 const std::shared_ptr<Communicator>& ranks) {
  const auto& attributes = node.attributes<CollectiveAttributes>();
  std::vector<std::span<std::byte>> tensors;
  for (size_t i = 0; i < attributes.segments.size(); ++i)
    tensors.emplace_back(buffers.outputs[i], static_cast<size_t>(node.type(static_cast<int64_t>(i)).bytes()));
  const bool adds = node.node.kind == OpKind::kReduce;
  ChainCall call{.ranks = ranks.get(),
                 .pieces = pieces_of(tensors, attributes.chunk_elements * dtype_bytes(node.type(0).dtype)),
                 .received = adds ? buffers.outputs[attributes.segments.size()] : nullptr};
  return [kernel = chain_kernel_of(node.node.kind), call = std::move(call), ranks] { kernel(call); };
}

}  // namespace

bool is_collective(OpKind kind) {
  return ring_kernel_of(kind) != nullptr || chain_kernel_of(kind) != nullptr;
}

PreparedNode bind_collective(const OpContext& node, const NodeBuffers& buffers,
                             std::shared_ptr<Communicator> ranks, HostStream& stream) {
  const auto& attributes = node.attributes<CollectiveAttributes>();
  CHECK(ranks != nullptr && ranks->size() == attributes.ranks * attributes.groups,
        "{} for {} ranks, the backend has {}", op_info(node.node.kind).name,
        attributes.ranks * attributes.groups, ranks == nullptr ? 1 : ranks->size());
  std::function<void()> work = chain_kernel_of(node.node.kind) != nullptr ? chain_work(node, buffers, ranks)
                                                                          : ring_work(node, buffers, ranks);
  if (node.node.lane == 0) return [work = std::move(work)](const int64_t*) { work(); };
  stream.prepare_behind([ranks] { ranks->give_up(); });
  return [work = std::make_shared<const std::function<void()>>(std::move(work)), &stream](const int64_t*) {
    stream.run_behind(*work);
  };
}

}  // namespace shoehorn::cpu
