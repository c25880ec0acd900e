#include "passes/data_parallel.h"

#include <algorithm>

#include "ops/op_builder.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

// Beside lane 0, which computes.
constexpr int32_t kCommunicationLane = 1;

// A value to be summed over ranks, and where its sum is to be read instead.
struct Summed {
  ValueId value;
  ParameterGradient* gradient = nullptr;  // null: the loss
};

// The node that makes a value; -1 for one that the program reads from state.
int64_t producer_of(const Program& program, ValueId value) {
  const NodeId producer = program.value(value).producer;
  return producer.valid() ? static_cast<int64_t>(producer.at()) : -1;
}

// In the order in which they are complete; the loss is last, so that it needs no message of its own.
std::vector<Summed> values_to_sum(ProgramFamily& family, Program& program) {
  std::vector<Summed> summed;
  for (ParameterGradient& gradient : family.gradients[static_cast<size_t>(program.bucket())])
    summed.push_back({gradient.gradient, &gradient});
  std::stable_sort(summed.begin(), summed.end(), [&](const Summed& a, const Summed& b) {
    return producer_of(program, a.value) < producer_of(program, b.value);
  });
  const ValueId loss = program.result("loss");
  summed.push_back({loss.valid() ? loss : program.read_state(family.loss)});
  return summed;
}

std::vector<std::vector<Summed>> buckets_of(const Program& program, const std::vector<Summed>& summed,
                                            int64_t bucket_bytes) {
  std::vector<std::vector<Summed>> buckets;
  int64_t bytes = 0;
  for (const Summed& one : summed) {
    const int64_t more = program.type(one.value).bytes();
    const bool is_loss = one.gradient == nullptr;
    if (buckets.empty() || (bytes + more > bucket_bytes && !is_loss)) {
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(one);
    bytes += more;
  }
  return buckets;
}

// The largest block that goes around at a time.
int64_t block_elements_of(const Program& program, const std::vector<Summed>& summed, int64_t bucket_bytes) {
  int64_t elements = 0;
  for (const Summed& one : summed) elements += program.type(one.value).shape.elements();
  return std::min(elements, bucket_bytes / static_cast<int64_t>(sizeof(float)));
}

// What the nodes of the communication lane take turns to use; they run one after the other.
StorageId shared_buffer(StateTable& state, const TensorType& type) {
  const StorageId known = state.find_storage("all_reduce_buffer");
  if (known.valid()) return known;
  Storage buffer;
  buffer.name = "all_reduce_buffer";
  buffer.type = type;
  buffer.role = Role::kCommunication;
  return state.add_storage(std::move(buffer));
}

void sum_over_ranks(ProgramFamily& family, Program& program, const RankOptions& options) {
  OpBuilder builder(program);
  const size_t old_nodes = program.nodes().size();
  const std::vector<Summed> summed = values_to_sum(family, program);
  const CollectiveAttributes attributes{
      .ranks = options.world_size,
      .block_elements = block_elements_of(program, summed, options.bucket_bytes)};
  NewNodes behind;
  for (const std::vector<Summed>& bucket : buckets_of(program, summed, options.bucket_bytes)) {
    std::vector<ValueId> values;
    int64_t last = -1;
    for (const Summed& one : bucket) {
      values.push_back(one.value);
      last = std::max(last, producer_of(program, one.value));
    }
    const bool is_in_backward = last >= 0;
    builder.set_region(is_in_backward ? program.nodes()[static_cast<size_t>(last)].region
                                      : Region{.component = Component::kOptimizer, .phase = Phase::kUpdate});
    const NodeId node = builder.add(OpKind::kAllReduce, values, attributes, "sum_over_ranks");
    const std::vector<ValueId> outputs = program.node(node).outputs;
    program.value(outputs.back()).role = Role::kCommunication;
    if (is_in_backward) {
      program.node(node).lane = kCommunicationLane;
      builder.bind_output(outputs.back(), shared_buffer(*family.state, program.type(outputs.back())));
      behind[NodeId{static_cast<int32_t>(last)}].push_back(node);
    }
    for (size_t i = 0; i < bucket.size(); ++i) {
      program.value(outputs[i]).role = program.value(values[i]).role;
      if (bucket[i].gradient != nullptr) bucket[i].gradient->gradient = outputs[i];
      for (Program::Result& result : program.results()) {
        if (result.value == values[i]) result.value = outputs[i];
      }
    }
  }
  if (!behind.empty()) place_behind(program, old_nodes, behind);
}

}  // namespace

void data_parallel(ProgramFamily& family, const StepOptions& options) {
  if (options.ranks.world_size == 1) return;
  for (Program& program : family.programs) {
    if (program.traits().updates) sum_over_ranks(family, program, options.ranks);
  }
}

}  // namespace shoehorn
