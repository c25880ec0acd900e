#include "passes/data_parallel.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "ops/op_info.h"
#include "ops/update_layout.h"
#include "passes/collective_nodes.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

using test_support::build;
using test_support::count;

StepOptions on_ranks(int64_t world_size, int64_t bucket_bytes = int64_t{25} << 20) {
  StepOptions options;
  options.ranks = {.world_size = world_size, .bucket_bytes = bucket_bytes};
  return options;
}

const Program& updating(const ProgramFamily& family) {
  return *std::find_if(family.programs.begin(), family.programs.end(),
                       [](const Program& program) { return program.traits().updates; });
}

// 3 MiB of gradients a layer.
BertConfig four_layers() {
  BertConfig config;
  config.vocab_size = 20'000;
  config.hidden_size = 256;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.intermediate_size = 1024;
  return config;
}

// The program in whose backward gradients go around.
const Program& exchanging(const ProgramFamily& family) {
  const ProgramId last = family.find(ProgramKind::kMicroBatchLast);
  return last.valid() ? family.program(last) : updating(family);
}

int64_t gradient_bytes(const ProgramFamily& family) {
  int64_t bytes = 0;
  for (const ParameterGradient& gradient : family.gradients[0])
    bytes += family.state->storage(gradient.storage).type.bytes();
  return bytes;
}

TEST(DataParallel, DoesNothingForOneRank) {
  for (const Program& program : build(on_ranks(1)).programs) EXPECT_EQ(count(program, OpKind::kAllReduce), 0);
}

// Every gradient and the loss go around once; what reads gradients reads the sums.
TEST(DataParallel, SumsEachGradientOnce) {
  for (const int64_t accumulated : {1, 3}) {
    StepOptions options = on_ranks(4, 2000);
    options.gradient_accumulation_steps = accumulated;
    options.accumulation_order = AccumulationOrder::kLayer;
    const ProgramFamily family = build(options);
    const Program& program = updating(family);
    std::set<ValueId> sums;
    int64_t bytes = 0;
    for (const Node& node : program.nodes()) {
      if (node.kind != OpKind::kAllReduce) continue;
      EXPECT_EQ(node.pass, "data_parallel");
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        bytes += program.type(node.inputs[i]).bytes();
        sums.insert(node.outputs[i]);
      }
      EXPECT_EQ(program.value(node.outputs.back()).role, Role::kCommunication);
    }
    EXPECT_EQ(bytes, gradient_bytes(family) + 4) << "and the loss";
    for (const Node& node : program.nodes()) {
      if (node.kind != OpKind::kSumOfSquares) continue;
      for (const ValueId input : node.inputs) EXPECT_TRUE(sums.contains(input));
    }
    for (const Program& other : family.programs) {
      if (&other == &program) continue;
      EXPECT_EQ(count(other, OpKind::kAllReduce), 0) << other.name();
    }
  }
}

// What a program exchanges: of each all_reduce the names of the storages.
std::vector<std::vector<std::string>> exchanged(const Program& program) {
  std::vector<std::vector<std::string>> names;
  for (const Node& node : program.nodes()) {
    if (node.kind != OpKind::kAllReduce) continue;
    names.emplace_back();
    for (const ValueId input : node.inputs)
      names.back().push_back(program.state().storage(program.value(input).storage).name);
  }
  return names;
}

// In micro-batch order sums go around once, in the last micro-batch or behind the only one, in one order whichever program a
// rank runs.
TEST(DataParallel, SumsInTheLastMicroBatch) {
  for (const int64_t accumulated : {2, 3}) {
    StepOptions options = on_ranks(4, 2000);
    options.gradient_accumulation_steps = accumulated;
    const BatchBuckets buckets(test_support::kCapacity, {{32, 4, 8}});
    const ProgramFamily family = build_programs(test_support::small_bert(), RunKind::kTrain, buckets,
                                                test_support::kCapacity, options);
    const auto alone = exchanged(family.program(family.find(ProgramKind::kExchange)));
    EXPECT_GT(alone.size(), 3U);
    std::set<std::string> once;
    for (const auto& bucket : alone) {
      for (const std::string& name : bucket) EXPECT_TRUE(once.insert(name).second) << name;
    }
    EXPECT_EQ(std::ssize(once), std::ssize(family.gradients[0]) + 1) << "and the loss";
    EXPECT_EQ(family.all(ProgramKind::kMicroBatchNext).size(), accumulated == 2 ? 0U : 2U);
    ASSERT_EQ(family.all(ProgramKind::kMicroBatchLast).size(), 2U);
    for (int64_t micro_batches = 1; micro_batches <= accumulated; ++micro_batches) {
      int64_t exchanges = 0, batches = 0;
      for (const Program& program : family.programs) {
        const int64_t runs = family.runs_in_step(program, micro_batches);
        if (count(program, OpKind::kAllReduce) > 0) exchanges += runs;
        if (program.traits().reads_batch && program.traits().trains) batches += runs;
      }
      EXPECT_EQ(exchanges, 1) << micro_batches;
      EXPECT_EQ(batches, micro_batches);
    }
    for (const Program& program : family.programs) {
      if (program.kind() == ProgramKind::kExchange) continue;
      if (program.kind() != ProgramKind::kMicroBatchLast) {
        EXPECT_EQ(count(program, OpKind::kAllReduce), 0) << program.name();
        continue;
      }
      EXPECT_EQ(exchanged(program), alone) << program.name();
      const auto& nodes = program.nodes();
      const auto first =
          std::ranges::find(nodes, OpKind::kAllReduce, [](const Node& node) { return node.kind; });
      EXPECT_TRUE(std::any_of(first, nodes.end(), [](const Node& node) {
        return node.kind != OpKind::kAllReduce && node.region.phase == Phase::kBackward;
      })) << program.name();
      EXPECT_TRUE(std::all_of(first, nodes.end(), [](const Node& node) {
        return node.kind != OpKind::kAllReduce || node.lane == kCommunicationLane;
      })) << program.name();
    }
  }
}

// A bucket goes around as soon as it is full, while earlier layers' gradients are still to be computed.
TEST(DataParallel, SendsFullBucketsWithinTheBackward) {
  const ProgramFamily family = build(on_ranks(2, 3000));
  const Program& program = updating(family);
  size_t last_backward = 0, first_sum = program.nodes().size();
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.kind == OpKind::kAllReduce) {
      first_sum = std::min(first_sum, i);
    } else if (node.region.phase == Phase::kBackward) {
      last_backward = i;
    }
  }
  EXPECT_LT(first_sum, last_backward);
  EXPECT_GT(count(program, OpKind::kAllReduce), 3);
}

// Nothing hides the messages of the last bucket of the layers, and so it is small: the bytes of what is in a layer at most half of what is
// left of the layers, or one tensor. What is complete behind the layers waits for no bucket of theirs.
TEST(DataParallel, BucketsBecomeSmallerTowardsTheEndOfTheLayers) {
  const BertForSequenceClassification model(four_layers());
  for (const int64_t accumulated : {1, 2}) {
    StepOptions options = on_ranks(2, 4 << 20);
    options.gradient_accumulation_steps = accumulated;
    const ProgramFamily family = build(model, options);
    const Program& program = exchanging(family);
    std::vector<int64_t> buckets;  // bytes of those of the layers
    for (const Node& node : program.nodes()) {
      if (node.kind != OpKind::kAllReduce || node.region.layer < 0) continue;
      buckets.push_back(0);
      for (const ValueId input : node.inputs) buckets.back() += program.type(input).bytes();
    }
    const int64_t layers = std::accumulate(buckets.begin(), buckets.end(), int64_t{0});
    ASSERT_GT(layers, 12 << 20);
    EXPECT_LE(buckets.front(), 4 << 20);
    EXPECT_GT(buckets.front(), 2 << 20) << "full, as long as much is left";
    EXPECT_LE(buckets.back(), layers / 10);
    EXPECT_GE(buckets.back(), 1 << 19) << "no message is smaller than its latency is worth";
    EXPECT_LE(std::ssize(buckets), 9);
  }
}

// Layer by layer the gradients of a layer are complete long before the next one's: none waits for these that is worth a message.
TEST(DataParallel, BucketsEndWithTheirLayerInLayerOrder) {
  const BertForSequenceClassification model(four_layers());
  StepOptions options = on_ranks(2, 4 << 20);
  options.gradient_accumulation_steps = 2;
  for (const AccumulationOrder order : {AccumulationOrder::kLayer, AccumulationOrder::kMicroBatch}) {
    options.accumulation_order = order;
    const ProgramFamily family = build(model, options);
    const Program& program = exchanging(family);
    int64_t most_waiting = 0;  // bytes of a bucket that are of another layer than its last
    for (const Node& node : program.nodes()) {
      if (node.kind != OpKind::kAllReduce || node.region.layer < 0) continue;
      int64_t waiting = 0;
      for (const ValueId input : node.inputs) {
        const bool waits = program.node(program.value(input).producer).region.layer != node.region.layer;
        waiting += waits ? program.type(input).bytes() : 0;
      }
      most_waiting = std::max(most_waiting, waiting);
    }
    EXPECT_EQ(most_waiting < 512 << 10, order == AccumulationOrder::kLayer) << most_waiting;
  }
}

// Larger buckets are fewer, and what they hold while they go around is a bucket, cut by the ranks.
TEST(DataParallel, BucketsBoundWhatGoesAroundAtATime) {
  for (const int64_t ranks : {2, 4}) {
    int64_t before = 1000;
    for (const int64_t bucket_bytes : {400, 4000, 1 << 20}) {
      const ProgramFamily family = build(on_ranks(ranks, bucket_bytes));
      const Program& program = updating(family);
      const int64_t buckets = count(program, OpKind::kAllReduce);
      EXPECT_LT(buckets, before);
      before = buckets;
      size_t most = 0;  // tensors of a bucket, each of which is cut for itself
      for (const Node& node : program.nodes()) {
        if (node.kind == OpKind::kAllReduce) most = std::max(most, node.inputs.size());
      }
      for (const Node& node : program.nodes()) {
        if (node.kind != OpKind::kAllReduce) continue;
        EXPECT_LE(program.type(node.outputs.back()).bytes(),
                  2 * (bucket_bytes / ranks + 4 * static_cast<int64_t>(most)));
      }
    }
    EXPECT_EQ(before, 1);
  }
}

TEST(DataParallel, MessagesArePartsOfABucketOrAsLargeAsAny) {
  const auto most_bytes = [](int64_t ranks, int64_t bucket_bytes, DType dtype) {
    return most_chunk_elements({.world_size = ranks, .bucket_bytes = bucket_bytes}, RingOf::kAll, dtype) *
           dtype_bytes(dtype);
  };
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(most_bytes(2, 25 * kMiB, DType::kF32), 4 * kMiB);
  EXPECT_EQ(most_bytes(2, 25 * kMiB, DType::kBF16), 4 * kMiB);
  EXPECT_EQ(most_bytes(2, kMiB, DType::kF32), kMiB / 2);
  EXPECT_EQ(most_bytes(16, 32 * kMiB, DType::kF64), 2 * kMiB);
}

// 2 (N - 1) / N of the gradients and the loss, up to the rounding of chunks.
TEST(DataParallel, SendsTheBytesOfARing) {
  const ProgramFamily family = build(on_ranks(4));
  const Program& program = updating(family);
  int64_t sent = 0;
  for (int64_t rank = 0; rank < 4; ++rank) {
    for (const Node& node : program.nodes()) sent += sent_bytes({program, node}, rank);
  }
  EXPECT_EQ(sent, 2 * 3 * (gradient_bytes(family) + 4)) << "of all four ranks";
}

// With the update in the backward a gradient lives until its bucket is full.
TEST(DataParallel, LeavesUpdatesInTheBackward) {
  StepOptions options = on_ranks(2, 3000);
  options.max_grad_norm = 0;
  options.update_in_backward = true;
  const ProgramFamily family = build(options);
  const Program& program = updating(family);
  size_t first_update = program.nodes().size(), last_sum = 0;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (is_update(program.nodes()[i])) first_update = std::min(first_update, i);
    if (program.nodes()[i].kind == OpKind::kAllReduce) last_sum = i;
  }
  EXPECT_LT(first_update, last_sum);
}

}  // namespace
}  // namespace shoehorn
