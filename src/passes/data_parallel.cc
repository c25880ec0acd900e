#include "passes/data_parallel.h"

#include <algorithm>
#include <iterator>
#include <numeric>

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

// In the order in which the program completes them.
std::vector<Summed> gradients_to_sum(const ProgramFamily& family, const Program& program,
                                     std::vector<ParameterGradient>& gradients, const StepOptions& options) {
  std::vector<Summed> summed;
  for (ParameterGradient& gradient : gradients) {
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

// The storage as the program leaves it.
ValueId last_of(Program& program, StorageId storage) {
  const ValueId newest = program.newest_version(storage);
  return newest.valid() ? newest : program.read_state(storage);
}

Summed loss_to_sum(const ProgramFamily& family, Program& program, const RankOptions& ranks) {
  const ValueId loss = program.result("loss");
  return {{loss.valid() ? loss : last_of(program, family.loss), {ring_segment(1, ranks.world_size)}}};
}

using Bucket = std::vector<Summed>;

// Below which a message takes about as long as its latency, on the links of hosts.
constexpr int64_t kLeastPieceBytes = int64_t{256} << 10;

// The layer whose gradient it is; -1 for none.
int32_t layer_of(const Program& program, const Summed& one) {
  const NodeId producer = program.value(one.ring.value).producer;
  return producer.valid() ? program.node(producer).region.layer : -1;
}

// Complete with the backward only, so that nothing is left to hide its messages: gradients of embeddings, and the loss.
bool is_late(const Program& program, const Summed& one) {
  return one.gradient == nullptr || layer_of(program, one) < 0;
}

// How many of those to be summed, in their order, are in each bucket. Nothing behind the layers hides their last messages, and so
// buckets become smaller towards these: none has more than half of what is left of the layers. Layer by layer, the gradients of a
// layer are complete in its last micro-batch, and those of the next one as late as in theirs: a bucket ends with its layer then.
std::vector<size_t> bucket_sizes(const Program& program, const std::vector<Summed>& summed,
                                 const StepOptions& options, RingOf of) {
  const RankOptions& ranks = options.ranks;
  std::vector<int64_t> bytes;
  for (const Summed& one : summed) bytes.push_back(program.type(one.ring.value).bytes());
  size_t layers_end = summed.size();
  while (layers_end > 0 && is_late(program, summed[layers_end - 1])) --layers_end;
  int64_t left = std::accumulate(bytes.begin(), bytes.begin() + static_cast<int64_t>(layers_end), int64_t{0});
  const int64_t least = std::min(ranks.bucket_bytes, kLeastPieceBytes * ring_size(ranks, of));
  const auto begins_layer = [&](size_t i) {
    return options.accumulation_order == AccumulationOrder::kLayer && i > 0 &&
           layer_of(program, summed[i]) != layer_of(program, summed[i - 1]);
  };
  std::vector<size_t> sizes;
  int64_t held = 0, most = 0;  // of the last bucket
  for (size_t i = 0; i < summed.size(); ++i) {
    const bool is_in_layers = i < layers_end;
    if (i == layers_end) most = held < least ? ranks.bucket_bytes : held;
    const bool is_full = held + bytes[i] > (is_in_layers && left < least ? ranks.bucket_bytes : most) ||
                         (is_in_layers && held >= least && begins_layer(i));
    const bool is_loss = summed[i].gradient == nullptr;
    if (sizes.empty() || (is_full && !is_loss)) {
      sizes.push_back(0);
      held = 0;
      most = is_in_layers ? std::clamp(left / 2, least, ranks.bucket_bytes) : ranks.bucket_bytes;
    }
    ++sizes.back();
    held += bytes[i];
    if (is_in_layers) left -= bytes[i];
  }
  return sizes;
}

std::vector<Bucket> buckets_of(const std::vector<Summed>& summed, const std::vector<size_t>& sizes) {
  std::vector<Bucket> buckets;
  auto next = summed.begin();
  for (const size_t size : sizes) {
    buckets.emplace_back(next, next + static_cast<int64_t>(size));
    next += static_cast<int64_t>(size);
  }
  return buckets;
}

// What goes around of a part at a time: a bucket at once, where its messages are not too large for that.
int64_t chunk_elements_of(const std::vector<Bucket>& buckets, const RankOptions& ranks, RingOf of) {
  const int64_t most = most_chunk_elements(ranks, of, DType::kF32);
  int64_t chunk = 1;
  for (const Bucket& bucket : buckets) {
    int64_t stored = 0;
    for (const Summed& one : bucket) stored += stored_elements(one.ring.segments);
    // Each of its tensors is cut for itself, and rounded up.
    chunk = std::max(chunk, std::min(stored, most + std::ssize(bucket)));
  }
  return chunk;
}

// Whoever read a value behind here reads what became of it: its sum, or what this rank has of it.
void take_sum(Program& program, const Summed& one, ValueId value, ValueId sum) {
  program.value(sum).role = program.value(one.ring.value).role;
  if (one.gradient != nullptr) {
    one.gradient->gradient = sum;
    if (one.shard.valid()) one.gradient->storage = one.shard;
  }
  for (Program::Result& result : program.results()) {
    if (result.value == value) result.value = sum;
  }
}

void take_sums(Program& program, const Bucket& bucket, const std::vector<ValueId>& sums) {
  for (size_t i = 0; i < bucket.size(); ++i) take_sum(program, bucket[i], bucket[i].ring.value, sums[i]);
}

// Lane 0 waits here for the sums of a bucket.
NodeId append_wait(OpBuilder& builder, const Bucket& bucket, const std::vector<ValueId>& sums) {
  Program& program = builder.program();
  const NodeId node = builder.add(OpKind::kWait, sums, {}, "wait_for_sums");
  for (size_t i = 0; i < bucket.size(); ++i)
    take_sum(program, bucket[i], sums[i], program.node(node).outputs[i]);
  return node;
}

// The parts of this rank that a sum over its group was scattered to, to be summed over the groups.
Bucket parts_of(const Bucket& bucket, const std::vector<ValueId>& parts, const RankOptions& ranks) {
  Bucket summed;
  for (size_t i = 0; i < bucket.size(); ++i) {
    const int64_t elements = stored_elements(bucket[i].ring.segments);
    summed.push_back({{parts[i], {ring_segment(elements, ranks.groups())}}, bucket[i].gradient});
  }
  return summed;
}

std::vector<RingValue> ring_values(const Bucket& bucket) {
  std::vector<RingValue> values;
  for (const Summed& one : bucket) values.push_back(one.ring);
  return values;
}

// How the sums of one program are taken.
struct SumSettings {
  OpKind kind = OpKind::kAllReduce;
  RingOf of = RingOf::kAll;
  bool goes_on_across_groups = false;  // what was scattered is summed over groups at once
};

// In the backward beside what lane 0 computes. At stage 2 lane 0 waits for each bucket when the next one is complete, so that no
// more than two of them are held whole. (At stage 3 it waits for gathers of the same lane.)
void sum_over_ranks(Program& program, const std::vector<Bucket>& buckets, const SumSettings& settings,
                    const RankOptions& ranks) {
  OpBuilder builder(program);
  const size_t old_nodes = program.nodes().size();
  const int64_t chunk_elements = chunk_elements_of(buckets, ranks, settings.of);
  int64_t chunk_across = 0;
  if (settings.goes_on_across_groups) {
    std::vector<Bucket> parts;
    for (const Bucket& bucket : buckets)
      parts.push_back(parts_of(bucket, std::vector<ValueId>(bucket.size()), ranks));
    chunk_across = chunk_elements_of(parts, ranks, RingOf::kPlace);
  }
  NewNodes behind;
  int64_t last = -1;  // never earlier than that of the bucket before, so that all ranks exchange in one order
  const Bucket* before = nullptr;  // the bucket that goes around beside the backward
  std::vector<ValueId> sums_before;
  for (const Bucket& bucket : buckets) {
    for (const Summed& one : bucket) last = std::max(last, producer_of(program, one.ring.value));
    const bool is_in_backward = last >= 0;
    builder.set_region(is_in_backward ? program.nodes()[static_cast<size_t>(last)].region
                                      : Region{.component = Component::kOptimizer, .phase = Phase::kUpdate});
    std::vector<NodeId> nodes;
    if (before != nullptr && ranks.stage() == 2) nodes.push_back(append_wait(builder, *before, sums_before));
    nodes.push_back(append_collective(builder, settings.kind, ring_values(bucket), chunk_elements, ranks,
                                      settings.of, is_in_backward, "sum_over_ranks"));
    if (settings.goes_on_across_groups) {
      const Bucket parts = parts_of(bucket, program.node(nodes.back()).outputs, ranks);
      nodes.push_back(append_collective(builder, OpKind::kAllReduce, ring_values(parts), chunk_across, ranks,
                                        RingOf::kPlace, is_in_backward, "sum_over_groups"));
    }
    if (is_in_backward) {
      std::vector<NodeId>& made = behind[NodeId{static_cast<int32_t>(last)}];
      made.insert(made.end(), nodes.begin(), nodes.end());
    }
    const std::vector<ValueId>& outputs = program.node(nodes.back()).outputs;
    sums_before.assign(outputs.begin(), outputs.begin() + std::ssize(bucket));
    take_sums(program, bucket, sums_before);
    before = is_in_backward ? &bucket : nullptr;
  }
  if (!behind.empty()) place_behind(program, old_nodes, behind);
}

void sum_over_ranks(Program& program, const std::vector<Summed>& summed, const SumSettings& settings,
                    const StepOptions& options) {
  const std::vector<size_t> sizes = bucket_sizes(program, summed, options, settings.of);
  sum_over_ranks(program, buckets_of(summed, sizes), settings, options.ranks);
}

// Gradients that each micro-batch scattered, and that were added up since.
std::vector<Summed> scattered_to_sum(ProgramFamily& family, const Program& program,
                                     const RankOptions& ranks) {
  auto& gradients = family.gradients[static_cast<size_t>(program.bucket())];
  std::vector<Summed> summed;
  for (ParameterGradient& gradient : gradients) {
    const int64_t elements = program.type(gradient.gradient).shape.elements();
    summed.push_back({{gradient.gradient, {ring_segment(elements, ranks.groups())}}, &gradient});
  }
  return summed;
}

// The gradients as a program of a micro-batch leaves them; of whole weights.
std::vector<ParameterGradient> gradients_in(const ProgramFamily& family, Program& program) {
  const Program& update = family.program(family.find(ProgramKind::kUpdate));
  std::vector<ParameterGradient> gradients;
  for (const ParameterGradient& gradient : family.gradients.at(0)) {
    const StorageId sum = update.value(gradient.gradient).storage;
    gradients.push_back({gradient.storage, last_of(program, sum)});
  }
  return gradients;
}

// Sums are complete in the last micro-batch, and go around beside its backward. Ranks run programs of different buckets
// beside each other, or the exchange alone, and so all of them exchange in the order and the buckets of bucket 0.
void sum_in_last_micro_batch(ProgramFamily& family, const StepOptions& options) {
  std::vector<Program> exchanging;
  for (const ProgramId next : family.all(ProgramKind::kMicroBatchNext)) {
    exchanging.push_back(family.program(next));
    exchanging.back().set_kind(ProgramKind::kMicroBatchLast);
  }
  exchanging.emplace_back(ProgramKind::kExchange, family.state.get());
  std::vector<StorageId> order;
  std::vector<size_t> sizes;
  for (Program& program : exchanging) {
    std::vector<ParameterGradient> gradients = gradients_in(family, program);
    std::vector<Summed> summed = gradients_to_sum(family, program, gradients, options);
    if (order.empty()) {
      for (const Summed& one : summed) order.push_back(one.gradient->storage);
    }
    const auto place_of = [&order](const Summed& one) {
      return std::ranges::find(order, one.gradient->storage);
    };
    std::ranges::sort(summed, {}, place_of);
    summed.push_back(loss_to_sum(family, program, options.ranks));
    if (sizes.empty()) sizes = bucket_sizes(program, summed, options, RingOf::kAll);
    sum_over_ranks(program, buckets_of(summed, sizes), {}, options.ranks);
  }
  const bool has_others = options.gradient_accumulation_steps > 2;
  if (!has_others) {
    std::erase_if(family.programs,
                  [](const Program& program) { return program.kind() == ProgramKind::kMicroBatchNext; });
  }
  const auto update = std::ranges::find(family.programs, ProgramKind::kUpdate, &Program::kind);
  family.programs.insert(update, std::make_move_iterator(exchanging.begin()),
                         std::make_move_iterator(exchanging.end()));
}

}  // namespace

void scatter_gradients(ProgramFamily& family, Program& program, const StepOptions& options,
                       bool is_complete) {
  auto& gradients = family.gradients[static_cast<size_t>(program.bucket())];
  sum_over_ranks(program, gradients_to_sum(family, program, gradients, options),
                 {OpKind::kReduceScatter, RingOf::kGroup, is_complete && options.ranks.groups() > 1},
                 options);
}

void data_parallel(ProgramFamily& family, const StepOptions& options) {
  const RankOptions& ranks = options.ranks;
  if (ranks.world_size == 1 || ranks.local_steps() > 0 || ranks.are_replicas()) return;
  const bool is_sharded = family.shards_what_is_trained();
  const bool is_scattered = is_sharded && has_scattered_gradients(family);
  if (!is_sharded && family.find(ProgramKind::kMicroBatchNext).valid()) {
    sum_in_last_micro_batch(family, options);
    return;
  }
  for (Program& program : family.programs) {
    if (!program.traits().updates) continue;
    std::vector<Summed> summed;
    if (!is_sharded) {
      auto& gradients = family.gradients[static_cast<size_t>(program.bucket())];
      summed = gradients_to_sum(family, program, gradients, options);
    } else if (!is_scattered) {
      scatter_gradients(family, program, options, true);
    } else if (options.ranks.groups() > 1) {
      sum_over_ranks(program, scattered_to_sum(family, program, options.ranks),
                     {OpKind::kAllReduce, RingOf::kPlace}, options);
    }
    // The loss is last, so that it needs no message of its own where gradients are not scattered.
    summed.push_back(loss_to_sum(family, program, options.ranks));
    sum_over_ranks(program, summed, {OpKind::kAllReduce, RingOf::kAll}, options);
  }
}

}  // namespace shoehorn
