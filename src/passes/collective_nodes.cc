#include "passes/collective_nodes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/rounding.h"
#include "ops/op_info.h"
#include "ops/ring.h"
#include "optim/optimizer.h"

namespace shoehorn {

namespace {

// What the nodes of the communication lane take turns to use.
StorageId shared_buffer(StateTable& state, OpKind kind, RingOf of, const TensorType& type) {
  std::string name =
      fmt::format("{}{}_buffer", op_info(kind).name, of == RingOf::kPlace ? "_across_groups" : "");
  if (type.dtype != DType::kF32) name += fmt::format(".{}", dtype_name(type.dtype));
  const StorageId known = state.find_storage(name);
  if (known.valid()) return known;
  Storage buffer;
  buffer.name = std::move(name);
  buffer.type = type;
  buffer.role = Role::kCommunication;
  return state.add_storage(std::move(buffer));
}

// At most, where a bucket is cut into so many parts.
int64_t elements_of_message(const RankOptions& ranks, int64_t parts, DType dtype) {
  return ceil_divide(std::min(ranks.bucket_bytes, parts * kMostMessageBytes), dtype_bytes(dtype) * parts);
}

}  // namespace

std::vector<RingSegment> segments_of(const StateTable& state, StorageId storage, const StepOptions& options) {
  std::vector<RingSegment> segments;
  for (const ParameterId id : state.parameters_of(storage)) {
    const Parameter& parameter = state.parameter(id);
    segments.push_back(ring_segment(parameter.global_elements(), options.ranks.group_size(),
                                    shard_multiple(options.optimizer.settings, parameter)));
  }
  return segments;
}

int64_t ring_size(const RankOptions& ranks, RingOf of) {
  switch (of) {
    case RingOf::kAll:
      return ranks.world_size;
    case RingOf::kGroup:
      return ranks.group_size();
    case RingOf::kPlace:
      return ranks.groups();
  }
  return 0;
}

int64_t most_chunk_elements(const RankOptions& ranks, RingOf of, DType dtype) {
  return elements_of_message(ranks, ring_size(ranks, of), dtype);
}

NodeId append_collective(OpBuilder& builder, OpKind kind, const std::vector<RingValue>& values,
                         int64_t chunk_elements, const RankOptions& ranks, RingOf of, bool shares_buffer,
                         const std::string& name) {
  Program& program = builder.program();
  CollectiveAttributes attributes{.ranks = ring_size(ranks, of),
                                  .chunk_elements = chunk_elements,
                                  .segments = {},
                                  .stride = of == RingOf::kPlace ? ranks.group_size() : 1,
                                  .groups = ranks.world_size / ring_size(ranks, of)};
  std::vector<ValueId> inputs;
  for (const RingValue& one : values) {
    inputs.push_back(one.value);
    attributes.segments.push_back(one.segments);
    if (kind == OpKind::kAllGather) attributes.wholes.push_back(one.whole);
  }
  const NodeId node = builder.add(kind, std::move(inputs), std::move(attributes), name);
  const ValueId buffer = program.node(node).outputs.back();
  program.value(buffer).role = Role::kCommunication;
  if (shares_buffer) put_beside_lane_0(builder, node, of);
  return node;
}

void put_beside_lane_0(OpBuilder& builder, NodeId collective, RingOf of) {
  Program& program = builder.program();
  const ValueId buffer = program.node(collective).outputs.back();
  const OpKind kind = program.node(collective).kind;
  program.node(collective).lane = kCommunicationLane;
  builder.bind_output(buffer, shared_buffer(program.state(), kind, of, program.type(buffer)));
}

NodeId append_chain(OpBuilder& builder, OpKind kind, const std::vector<ValueId>& values,
                    const RankOptions& ranks, const std::string& name) {
  Program& program = builder.program();
  CollectiveAttributes attributes{.ranks = ranks.world_size, .segments = {}};
  int64_t largest = 1;
  for (const ValueId value : values) {
    const int64_t elements = program.type(value).shape.elements();
    attributes.segments.push_back({ring_segment(elements, 1)});
    largest = std::max(largest, elements);
  }
  attributes.chunk_elements =
      std::min(largest, elements_of_message(ranks, 1, program.type(values.at(0)).dtype));
  const NodeId node = builder.add(kind, values, std::move(attributes), name);
  if (kind == OpKind::kReduce) program.value(program.node(node).outputs.back()).role = Role::kCommunication;
  return node;
}

}  // namespace shoehorn
