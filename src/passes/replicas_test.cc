#include "passes/replicas.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/dump.h"
#include "ops/op_info.h"
#include "ops/update_layout.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

using test_support::build;
using test_support::count;

StepOptions on_replicas(int64_t rank, int64_t world_size = 4) {
  StepOptions options;
  options.ranks = {.mode = ParallelMode::kReplicas, .world_size = world_size, .rank = rank};
  return options;
}

int64_t state_bytes(const ProgramFamily& family, Role role) {
  int64_t bytes = 0;
  for (const Storage& storage : family.state->storages())
    bytes += storage.role == role ? storage.type.bytes() : 0;
  return bytes;
}

int64_t weight_bytes(const ProgramFamily& family) {
  int64_t bytes = 0;
  for (const Parameter& parameter : family.state->parameters())
    bytes += parameter.global_elements() * dtype_bytes(family.state->storage(parameter.storage).type.dtype);
  return bytes;
}

int64_t sent_in(const Program& program, int64_t rank) {
  int64_t bytes = 0;
  for (const Node& node : program.nodes()) bytes += sent_bytes({program, node}, rank);
  return bytes;
}

TEST(Replicas, DoNothingForOneRank) {
  const ProgramFamily family = build(on_replicas(0, 1));
  EXPECT_FALSE(family.find(ProgramKind::kReplicate).valid());
  for (const Program& program : family.programs) {
    EXPECT_EQ(count(program, OpKind::kBroadcast) + count(program, OpKind::kReduce), 0);
  }
}

// Losses to the first rank and back, gradients to the first rank; weights by a program of their own. Each rank but one sends
// all of it once.
TEST(Replicas, ExchangeLossesGradientsAndWeights) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    StepOptions options = on_replicas(0);
    options.precision = precision;
    const ProgramFamily family = build(options);
    const Program& step = family.program(family.find(ProgramKind::kTrainStep));
    const Program& replicate = family.program(family.find(ProgramKind::kReplicate));
    EXPECT_EQ(count(step, OpKind::kReduce), 2);
    EXPECT_EQ(count(step, OpKind::kBroadcast), 1);
    EXPECT_EQ(count(step, OpKind::kAllReduce), 0);
    int64_t gradients = 0;
    for (const Parameter& parameter : family.state->parameters())
      gradients += 4 * parameter.global_elements();
    for (int64_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(sent_in(replicate, rank), rank == 3 ? 0 : weight_bytes(family)) << rank;
      EXPECT_EQ(sent_in(step, rank), (rank == 0 ? 0 : gradients + 4) + (rank == 3 ? 0 : 4)) << rank;
    }
  }
}

// No backward begins before the first rank has had all losses.
TEST(Replicas, WaitForTheLossBeforeTheBackward) {
  const ProgramFamily family = build(on_replicas(1));
  const Program& step = family.program(family.find(ProgramKind::kTrainStep));
  int64_t exchanged = 0, computed_behind = 0;
  for (const Node& node : step.nodes()) {
    if (node.region.phase == Phase::kBackward && exchanged == 0)
      ADD_FAILURE() << "a gradient before the loss went around";
    if (node.kind == OpKind::kBroadcast) ++exchanged;
    if (exchanged > 0) computed_behind += node.region.phase == Phase::kBackward ? 1 : 0;
  }
  EXPECT_EQ(exchanged, 1);
  EXPECT_GT(computed_behind, 0);
}

// The others compute the same, and have nothing to update with.
TEST(Replicas, TheFirstRankAloneUpdates) {
  const ProgramFamily first = build(on_replicas(0));
  const ProgramFamily second = build(on_replicas(1));
  const auto updates = [](const ProgramFamily& family) {
    int64_t found = 0;
    for (const Program& program : family.programs) {
      for (const Node& node : program.nodes()) found += is_update(node) ? 1 : 0;
    }
    return found;
  };
  EXPECT_GT(updates(first), 0);
  EXPECT_EQ(updates(second), 0);
  EXPECT_EQ(state_bytes(first, Role::kOptimizerState), 2 * weight_bytes(first)) << "AdamW's moments";
  EXPECT_EQ(state_bytes(second, Role::kOptimizerState), 0);
  EXPECT_TRUE(first.grad_norm.valid());
  EXPECT_FALSE(second.grad_norm.valid());
  for (const ProgramKind kind : {ProgramKind::kReplicate, ProgramKind::kTrainStep}) {
    const std::string sent = dump_collectives(first.program(first.find(kind)));
    EXPECT_FALSE(sent.empty());
    EXPECT_EQ(sent, dump_collectives(second.program(second.find(kind)))) << "all ranks issue the same";
  }
}

TEST(Replicas, RefuseWhatDoesNotGoWithThem) {
  const auto refusal = [](const std::function<void(StepOptions&)>& set) -> std::string {
    StepOptions options = on_replicas(0);
    set(options);
    try {
      build(options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "builds";
  };
  const std::vector<std::pair<std::function<void(StepOptions&)>, std::string>> cases = {
      {[](StepOptions& o) { o.ranks.zero_stage = 1; }, "--zero_stage 1"},
      {[](StepOptions& o) { o.ranks.local_sgd_steps = 4; }, "--local_sgd_steps 4"},
      {[](StepOptions& o) { o.gradient_accumulation_steps = 2; }, "--gradient_accumulation_steps 1"},
      {[](StepOptions& o) {
         o.max_grad_norm = 0;
         o.update_in_backward = true;
       },
       "--update_in_backward"},
      {[](StepOptions& o) { o.precision = Precision::kFloat16; }, "--fp16"},
  };
  for (const auto& [set, expected] : cases) {
    const std::string text = refusal(set);
    EXPECT_NE(text.find("[--parallel_mode dp] expected"), std::string::npos) << text;
    EXPECT_NE(text.find(expected), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace shoehorn
