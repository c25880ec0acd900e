#include "passes/data_parallel.h"

#include <algorithm>

#include "base/rounding.h"
#include "ops/ring.h"
#include "passes/collective_nodes.h"
#include "passes/place_nodes.h"
#include "passes/zero.h"

namespace shoehorn {

namespace {

// A value to be summed over ranks, and where its sum is to be read instead.
struct Summed {
  RingValue ring;
  ParameterGradient* gradient = nullptr;  // null: the loss
  StorageId shard = {};                   // of what the sum is scattered to; invalid: nothing is scattered
};

// The node that makes a value; -1 for one that the program reads from state.
int64_t producer_of(const Program& program, ValueId value) {
  const NodeId producer = program.value(value).producer;
  return producer.valid() ? static_cast<int64_t>(producer.at()) : -1;
}

// In the order in which they are complete.
std::vector<Summed> gradients_to_sum(ProgramFamily& family, const Program& program,
                                     const StepOptions& options) {
  std::vector<Summed> summed;
  for (ParameterGradient& gradient : family.gradients[static_cast<size_t>(program.bucket())]) {
    if (const ShardedStorage* shard = find_shard(family, gradient.storage)) {
      summed.push_back({{gradient.gradient, shard->segments}, &gradient, shard->shard});
    } else {
      summed.push_back(
          {{gradient.gradient, segments_of(program.state(), gradient.storage, options)}, &gradient});
    }
  }
  std::stable_sort(summed.begin(), summed.end(), [&](const Summed& a, const Summed& b) {
    return producer_of(program, a.ring.value) < producer_of(program, b.ring.value);
  });
  return summed;
}

Summed loss_to_sum(const ProgramFamily& family, Program& program, const RankOptions& ranks) {
  const ValueId loss = program.result("loss");
  return {{loss.valid() ? loss : program.read_state(family.loss), {ring_segment(1, ranks.world_size)}}};
}

std::vector<std::vector<Summed>> buckets_of(const Program& program, const std::vector<Summed>& summed,
                                            int64_t bucket_bytes) {
  std::vector<std::vector<Summed>> buckets;
  int64_t bytes = 0;
  for (const Summed& one : summed) {
    const int64_t more = program.type(one.ring.value).bytes();
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

// What goes around of a part at a time: a bucket at once, and one with a tensor that is larger in pieces of a bucket's size.
int64_t chunk_elements_of(const std::vector<std::vector<Summed>>& buckets, const RankOptions& ranks) {
  const int64_t most = most_chunk_elements(ranks, DType::kF32);
  int64_t chunk = 1;
  for (const std::vector<Summed>& bucket : buckets) {
    int64_t stored = 0;
    for (const Summed& one : bucket) stored += stored_elements(one.ring.segments);
    // Each of its tensors is cut for itself, and rounded up.
    chunk = std::max(chunk, std::min(stored, most + std::ssize(bucket)));
  }
  return chunk;
}

// Whoever read a value behind here reads its sum, or what this rank has of it.
void take_sum(Program& program, const Summed& one, ValueId sum) {
  program.value(sum).role = program.value(one.ring.value).role;
  if (one.gradient != nullptr) {
    one.gradient->gradient = sum;
    if (one.shard.valid()) one.gradient->storage = one.shard;
  }
  for (Program::Result& result : program.results()) {
    if (result.value == one.ring.value) result.value = sum;
  }
}

// In the backward beside what lane 0 computes; but at stage 2 lane 0 waits, so that whole gradients are freed at once. (At
// stage 3 it waits for gathers of the same lane.)
void sum_over_ranks(Program& program, const std::vector<Summed>& summed, OpKind kind,
                    const RankOptions& ranks) {
  OpBuilder builder(program);
  const size_t old_nodes = program.nodes().size();
  const auto buckets = buckets_of(program, summed, ranks.bucket_bytes);
  const int64_t chunk_elements = chunk_elements_of(buckets, ranks);
  NewNodes behind;
  for (const std::vector<Summed>& bucket : buckets) {
    std::vector<RingValue> values;
    int64_t last = -1;
    for (const Summed& one : bucket) {
      values.push_back(one.ring);
      last = std::max(last, producer_of(program, one.ring.value));
    }
    const bool is_in_backward = last >= 0;
    builder.set_region(is_in_backward ? program.nodes()[static_cast<size_t>(last)].region
                                      : Region{.component = Component::kOptimizer, .phase = Phase::kUpdate});
    const bool is_beside = is_in_backward && ranks.stage() != 2;
    const NodeId node =
        append_collective(builder, kind, values, chunk_elements, ranks, is_beside, "sum_over_ranks");
    if (is_in_backward) behind[NodeId{static_cast<int32_t>(last)}].push_back(node);
    const std::vector<ValueId> sums = program.node(node).outputs;
    for (size_t i = 0; i < bucket.size(); ++i) take_sum(program, bucket[i], sums[i]);
  }
  if (!behind.empty()) place_behind(program, old_nodes, behind);
}

}  // namespace

void scatter_gradients(ProgramFamily& family, Program& program, const StepOptions& options) {
  sum_over_ranks(program, gradients_to_sum(family, program, options), OpKind::kReduceScatter, options.ranks);
}

void data_parallel(ProgramFamily& family, const StepOptions& options) {
  if (options.ranks.world_size == 1 || options.ranks.local_steps() > 0) return;
  const bool is_sharded = family.shards_what_is_trained();
  const bool is_scattered = is_sharded && has_scattered_gradients(family);
  for (Program& program : family.programs) {
    if (!program.traits().updates) continue;
    std::vector<Summed> summed;
    if (!is_sharded) {
      summed = gradients_to_sum(family, program, options);
    } else if (!is_scattered) {
      scatter_gradients(family, program, options);
    }
    // The loss is last, so that it needs no message of its own where gradients are not scattered.
    summed.push_back(loss_to_sum(family, program, options.ranks));
    sum_over_ranks(program, summed, OpKind::kAllReduce, options.ranks);
  }
}

}  // namespace shoehorn
