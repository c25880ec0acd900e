// What the passes that share a step over ranks have in common: nodes of collectives, how storages are cut, and who goes
// around together.
#pragma once

#include <string>
#include <vector>

#include "ops/op_builder.h"
#include "passes/program_family.h"

namespace shoehorn {

// Beside lane 0, which computes.
inline constexpr int32_t kCommunicationLane = 1;

// How the parameters of a storage are cut, one behind the other: 8-bit states' blocks stay whole, and rows that Adafactor updates. The
// same at every stage, so that sums are taken in the same order.
std::vector<RingSegment> segments_of(const StateTable& state, StorageId storage, const StepOptions& options);

// Which ranks take part in a collective together: all; those that share (RankOptions::zero_group_size); or those that stand at
// one place of their groups.
enum class RingOf { kAll, kGroup, kPlace };
int64_t ring_size(const RankOptions& ranks, RingOf of);

// No message is larger: in the caches of a processor it waits there for who adds or copies it.
inline constexpr int64_t kMostMessageBytes = int64_t{4} << 20;

// The elements of a part that go around at a time, at most: those of all parts fill a bucket, or each a message.
int64_t most_chunk_elements(const RankOptions& ranks, RingOf of, DType dtype);

// A value that goes around, and how it is cut.
struct RingValue {
  ValueId value;
  std::vector<RingSegment> segments;
  TensorType whole = {};  // of a gather
};

// Appends a collective of `kind` over these. Its buffer is one of its own, or with `shares_buffer` that of all nodes of
// this kind, type, chunk and ring, which run one after the other on the communication lane; then the node is put on it.
NodeId append_collective(OpBuilder& builder, OpKind kind, const std::vector<RingValue>& values,
                         int64_t chunk_elements, const RankOptions& ranks, RingOf of, bool shares_buffer,
                         const std::string& name);

// Does the latter with a node that has a buffer of its own: in the order in which such nodes run.
void put_beside_lane_0(OpBuilder& builder, NodeId collective, RingOf of);

// Appends a broadcast or a reduce of values along the chain of all ranks, on lane 0, in pieces of at most a bucket's bytes, or
// of a message's.
NodeId append_chain(OpBuilder& builder, OpKind kind, const std::vector<ValueId>& values,
                    const RankOptions& ranks, const std::string& name);

}  // namespace shoehorn
