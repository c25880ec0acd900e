// Ops that all ranks of a run issue together, in the same order, and the wait for them: see passes/data_parallel.h, passes/zero.h and passes/replicas.h.
#include "ops/op_definitions.h"
#include "ops/ring.h"

namespace shoehorn {

namespace {

const CollectiveAttributes& collective(const OpContext& context) {
  return context.attributes<CollectiveAttributes>();
}

// What is sent and received at a time: chunks of a full block, so that nodes may share it.
TensorType buffer_type(const OpContext& context, DType dtype) {
  return {dtype, {2, collective(context).chunk_elements}};
}

int64_t whole_elements(const std::vector<RingSegment>& segments) {
  int64_t elements = 0;
  for (const RingSegment& segment : segments) elements += segment.elements;
  return elements;
}

void check_input(const OpContext& context, size_t input, DType dtype,
                 int64_t (*elements)(const std::vector<RingSegment>&)) {
  const auto at = static_cast<int64_t>(input);
  expect_dtype(context, at, dtype);
  const int64_t expected = elements(collective(context).segments.at(input));
  if (context.type(at).shape.elements() != expected)
    fail_type(context, at, fmt::format("{} elements", expected));
}

void check_segments(const OpContext& context) {
  CHECK(collective(context).segments.size() == context.node.inputs.size(),
        "the segments of {} tensors, there are {}", collective(context).segments.size(),
        context.node.inputs.size());
}

// Of outputs that lie in their inputs, whole tensors of one type.
std::vector<TensorType> types_in_place(const OpContext& context, DType dtype) {
  check_segments(context);
  std::vector<TensorType> types;
  for (size_t i = 0; i < context.node.inputs.size(); ++i) {
    check_input(context, i, dtype, whole_elements);
    types.push_back(context.type(static_cast<int64_t>(i)));
  }
  return types;
}

// all_reduce: (x, x, …, all f32 or all f64, of any shapes) -> the sums over ranks in their places, and [2, chunk].
std::vector<TensorType> infer_all_reduce(const OpContext& context) {
  const DType dtype = context.type(0).dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  std::vector<TensorType> types = types_in_place(context, dtype);
  types.push_back(buffer_type(context, dtype));
  return types;
}

std::vector<AliasRule> alias_in_place(const OpContext& context) {
  std::vector<AliasRule> rules;
  for (int64_t i = 0; i < std::ssize(context.node.inputs); ++i) rules.push_back({i, i, true});
  return rules;
}

// reduce_scatter: (x, x, …, f32 of any shapes) -> of the sums over ranks the parts of this rank, f32[stored] each with
// zeros for padding, and f32[2, chunk].
std::vector<TensorType> infer_reduce_scatter(const OpContext& context) {
  check_segments(context);
  std::vector<TensorType> types;
  for (size_t i = 0; i < context.node.inputs.size(); ++i) {
    check_input(context, i, DType::kF32, whole_elements);
    types.push_back({DType::kF32, {stored_elements(collective(context).segments[i])}});
  }
  types.push_back(buffer_type(context, DType::kF32));
  return types;
}

// all_gather: (parts of tensors, [stored] each, all of one type) -> the tensors, and [2, chunk].
std::vector<TensorType> infer_all_gather(const OpContext& context) {
  check_segments(context);
  std::vector<TensorType> types = collective(context).wholes;
  CHECK(types.size() == context.node.inputs.size(), "{} types of {} tensors", types.size(),
        context.node.inputs.size());
  for (size_t i = 0; i < types.size(); ++i) {
    check_input(context, i, types[0].dtype, stored_elements);
    CHECK(types[i].dtype == types[0].dtype &&
              types[i].shape.elements() == whole_elements(collective(context).segments[i]),
          "parts of another tensor than {}", type_name(types[i]));
  }
  types.push_back(buffer_type(context, types[0].dtype));
  return types;
}

// broadcast: (x, x, …, all of one type's elements) -> the first rank's in their places.
std::vector<TensorType> infer_broadcast(const OpContext& context) {
  return types_in_place(context, context.type(0).dtype);
}

// reduce: (x, x, …, f32) -> the sums over ranks in their places on the first rank, on others what they passed on, and
// f32[chunk].
std::vector<TensorType> infer_reduce(const OpContext& context) {
  std::vector<TensorType> types = types_in_place(context, DType::kF32);
  types.push_back({DType::kF32, {collective(context).chunk_elements}});
  return types;
}

// wait: (x, x, …, of any types) -> the same in their places. It does nothing: the lane that it is on waits for those that
// make them.
std::vector<TensorType> infer_wait(const OpContext& context) {
  std::vector<TensorType> types;
  for (int64_t i = 0; i < std::ssize(context.node.inputs); ++i) types.push_back(context.type(i));
  return types;
}

int64_t elements_of(const CollectiveAttributes& attributes) {
  int64_t elements = 0;
  for (const std::vector<RingSegment>& segments : attributes.segments) elements += whole_elements(segments);
  return elements;
}

// In the rank's own memory: what is sent is copied, what comes is added or copied, in either half of the ring.
Cost ring_cost(const OpContext& context, double halves) {
  const auto elements = static_cast<double>(elements_of(collective(context)));
  const double bytes = 2 * halves * elements * static_cast<double>(dtype_bytes(context.type(0).dtype));
  return {context.node.kind == OpKind::kAllGather ? 0 : elements, bytes, bytes};
}

Cost half_ring_cost(const OpContext& context) {
  return ring_cost(context, 1);
}

// Of a rank in the middle, which receives all and sends all; it adds to what it receives.
Cost chain_cost(const OpContext& context) {
  const auto elements = static_cast<double>(elements_of(collective(context)));
  const double bytes = elements * static_cast<double>(dtype_bytes(context.type(0).dtype));
  if (context.node.kind == OpKind::kBroadcast) return {0, bytes, bytes};
  return {elements, 3 * bytes, 2 * bytes};
}

}  // namespace

int64_t sent_bytes(const OpContext& context, int64_t rank) {
  const OpKind kind = context.node.kind;
  if (is_chain(kind)) {
    const bool sends = receiver_of(kind, collective(context), rank).has_value();
    return sends ? elements_of(collective(context)) * dtype_bytes(context.type(0).dtype) : 0;
  }
  const bool adds = kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter;
  const bool tells = kind == OpKind::kAllReduce || kind == OpKind::kAllGather;
  if (!adds && !tells) return 0;
  const Ring ring = ring_of(collective(context));
  const int64_t place = place_in_group(collective(context), rank);
  const int64_t elements =
      (adds ? ring.reduced_elements(place) : 0) + (tells ? ring.gathered_elements(place) : 0);
  return elements * dtype_bytes(context.type(0).dtype);
}

std::vector<OpInfo> collective_ops() {
  return {{.kind = OpKind::kAllReduce,
           .name = "all_reduce",
           .op_class = OpClass::kMovement,
           .min_inputs = 1,
           .max_inputs = -1,
           .infer = infer_all_reduce,
           .cost = [](const OpContext& context) { return ring_cost(context, 2); },
           .aliases = alias_in_place},
          {.kind = OpKind::kReduceScatter,
           .name = "reduce_scatter",
           .op_class = OpClass::kMovement,
           .min_inputs = 1,
           .max_inputs = -1,
           .infer = infer_reduce_scatter,
           .cost = half_ring_cost},
          {.kind = OpKind::kAllGather,
           .name = "all_gather",
           .op_class = OpClass::kMovement,
           .min_inputs = 1,
           .max_inputs = -1,
           .infer = infer_all_gather,
           .cost = half_ring_cost},
          {.kind = OpKind::kBroadcast,
           .name = "broadcast",
           .op_class = OpClass::kMovement,
           .min_inputs = 1,
           .max_inputs = -1,
           .infer = infer_broadcast,
           .cost = chain_cost,
           .aliases = alias_in_place},
          {.kind = OpKind::kReduce,
           .name = "reduce",
           .op_class = OpClass::kMovement,
           .min_inputs = 1,
           .max_inputs = -1,
           .infer = infer_reduce,
           .cost = chain_cost,
           .aliases = alias_in_place},
          {.kind = OpKind::kWait,
           .name = "wait",
           .op_class = OpClass::kMovement,
           .min_inputs = 1,
           .max_inputs = -1,
           .infer = infer_wait,
           .cost = [](const OpContext&) { return Cost{}; },
           .aliases = alias_in_place}};
}

}  // namespace shoehorn
