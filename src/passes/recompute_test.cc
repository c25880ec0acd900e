// What is made again in the backward, and what is kept.
#include "passes/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error_testing.h"
#include "ops/dump.h"
#include "ops/op_info.h"
#include "passes/passes_testing.h"
#include "passes/recompute_set.h"

namespace shoehorn {
namespace {

using test_support::build;
using test_support::count;
using test_support::kCapacity;
using test_support::small_bert;

class RecomputeTest : public testing::TestWithParam<int64_t> {};

TEST_P(RecomputeTest, ClonesStandBeforeTheirGroupsBackward) {
  StepOptions options;
  options.recompute_every_n_layers = GetParam();
  options.skip_passes = {"rematerialize"};
  const ProgramFamily family = build(options);
  const Program& program = family.programs[0];
  const auto readers = program.readers();
  const int32_t last_group = 2 / static_cast<int32_t>(GetParam());
  std::set<int32_t> recomputed;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    EXPECT_EQ(node.clone_of.valid(), node.region.phase == Phase::kRecompute);
    if (!node.clone_of.valid()) continue;
    const Node& original = program.node(node.clone_of);
    recomputed.insert(node.region.layer);
    EXPECT_EQ(original.kind, node.kind);
    EXPECT_EQ(original.region.phase, Phase::kForward);
    EXPECT_EQ(original.region.layer, node.region.layer);
    EXPECT_LT(node.region.layer / GetParam(), last_group) << "the last group's backward follows at once";
    // No dead work: somebody reads it.
    EXPECT_TRUE(std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](ValueId v) { return !readers[v.at()].empty(); }));
    // And nobody behind the forward keeps the original alive.
    for (const ValueId output : original.outputs) {
      for (const NodeId reader : readers[output.at()])
        EXPECT_EQ(program.node(reader).region.phase, Phase::kForward);
    }
  }
  std::set<int32_t> expected;
  for (int32_t layer = 0; layer < 3; ++layer) {
    if (layer / GetParam() < last_group) expected.insert(layer);
  }
  EXPECT_EQ(recomputed, expected);
}

INSTANTIATE_TEST_SUITE_P(Every, RecomputeTest, testing::Values(1, 2, 3));

// Of 3 layers the root is 2, rounded.
TEST(Recompute, RootOfLayers) {
  StepOptions root;
  root.recompute_every_n_layers = kRootOfLayers;
  for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
    root.accumulation_order = order;
    root.gradient_accumulation_steps = 2;
    StepOptions two = root;
    two.recompute_every_n_layers = 2;
    EXPECT_EQ(dump(build(root).programs[0]), dump(build(two).programs[0]));
    two.recompute_every_n_layers = 1;
    EXPECT_NE(dump(build(root).programs[0]), dump(build(two).programs[0]));
  }
}

TEST(Recompute, LeavesTheOutputOfAGroupAlone) {
  StepOptions options;
  options.recompute_every_n_layers = 1;
  const ProgramFamily family = build(options);
  // Of each layer's two norms the second leaves the layer, and lives on in any case.
  EXPECT_EQ(count(family.programs[0], OpKind::kBiasDropoutResidualLayerNorm, Phase::kRecompute), 2);
  EXPECT_EQ(count(family.programs[0], OpKind::kAttention, Phase::kRecompute), 2);
  EXPECT_EQ(count(family.program(family.find(ProgramKind::kEvaluate)), OpKind::kAttention, Phase::kRecompute),
            0);
}

TEST(Rematerialize, MakesActivationsAgain) {
  // With dropout the classifier's backward reads what that left of the pooler's: both are made again.
  EXPECT_EQ(count(build(StepOptions{}).programs[0], OpKind::kBiasActivation, Phase::kRecompute), 4);
  EXPECT_EQ(count(build({}, 0).programs[0], OpKind::kBiasActivation, Phase::kRecompute), 4);
  StepOptions skipped;
  skipped.skip_passes = {"rematerialize"};
  EXPECT_EQ(count(build(skipped).programs[0], OpKind::kBiasActivation, Phase::kRecompute), 0);
}

// What a norm gave is read by the backward of the products behind it only: z and the statistics, which the
// norm's own backward reads, give it again. Nothing else of a norm's size is kept.
TEST(Rematerialize, MakesOutputsOfNormsAgain) {
  for (const int64_t every : {0, 1}) {
    StepOptions options;
    options.recompute_every_n_layers = every;
    const ProgramFamily family = build(options);
    const Program& program = family.programs[0];
    const auto readers = program.readers();
    int64_t norms = 0;
    for (const Node& node : program.nodes()) {
      if (node.kind != OpKind::kBiasDropoutResidualLayerNorm || node.region.phase != Phase::kForward)
        continue;
      ++norms;
      for (const NodeId reader : readers[node.outputs[0].at()])
        EXPECT_EQ(program.node(reader).region.phase, Phase::kForward) << "recompute every " << every;
    }
    EXPECT_EQ(norms, 6);
    EXPECT_EQ(count(program, OpKind::kLayerNormOutput, Phase::kRecompute), every == 0 ? 7 : 5)
        << "the layers' and the embeddings'";
  }
}

// Tables, norm and dropout of the embeddings are made again one from the other, and what the dropout of
// adapters left: nothing of the embeddings is kept but the norm's statistics, of frozen ones not even these.
TEST(Rematerialize, MakesChainsAgain) {
  StepOptions adapters;
  adapters.lora.rank = 2;
  adapters.lora.dropout = 0.1F;
  for (const StepOptions& options : {StepOptions{}, adapters}) {
    const ProgramFamily family = build(options);
    const Program& program = family.programs[0];
    const auto readers = program.readers();
    const std::set<OpKind> kinds = {OpKind::kEmbedding, OpKind::kLayerNorm, OpKind::kDropout};
    for (const Node& node : program.nodes()) {
      if (node.region.phase != Phase::kForward || !kinds.contains(node.kind)) continue;
      for (const NodeId reader : readers[node.outputs[0].at()])
        EXPECT_EQ(program.node(reader).region.phase, Phase::kForward) << op_info(node.kind).name;
    }
    EXPECT_GT(count(program, OpKind::kDropout, Phase::kRecompute), 0);
    EXPECT_EQ(count(program, OpKind::kEmbedding, Phase::kRecompute), 3);
    EXPECT_EQ(count(program, OpKind::kLayerNorm, Phase::kRecompute), options.lora.rank > 0 ? 1 : 0);
  }
}

// Where ranks keep parts of the tables, looking up again would gather them again; the layers' backward gathers theirs anyway.
TEST(Rematerialize, GathersNoTableAgain) {
  StepOptions options;
  const auto made_again = [&](OpKind kind) {
    return count(build(options).programs[0], kind, Phase::kRecompute);
  };
  const int64_t norms = made_again(OpKind::kLayerNormOutput);
  options.ranks = {.world_size = 4, .zero_stage = 2, .zero_persistence_threshold = 0};
  EXPECT_EQ(made_again(OpKind::kEmbedding), 3) << "whole in stage 2";
  options.ranks.zero_stage = 3;
  EXPECT_EQ(made_again(OpKind::kEmbedding), 0);
  EXPECT_EQ(made_again(OpKind::kLayerNormOutput), norms - 1) << "the embeddings' norm has weights, too";
  int64_t gathers_of_tables = 0;
  const ProgramFamily family = build(options);
  for (const Node& node : family.programs[0].nodes()) {
    gathers_of_tables +=
        node.kind == OpKind::kAllGather && node.region.component == Component::kEmbeddings ? 1 : 0;
  }
  EXPECT_EQ(gathers_of_tables, 2) << "the second of the norm's weight, for its backward";
  options.precision = Precision::kFloat16;
  EXPECT_EQ(made_again(OpKind::kEmbedding), 0);
  options.gradient_accumulation_steps = 2;
  EXPECT_EQ(made_again(OpKind::kEmbedding), 0);
  options.accumulation_order = AccumulationOrder::kLayer;
  EXPECT_EQ(made_again(OpKind::kEmbedding), 2 * 3) << "one gather serves both micro-batches";
  options.gradient_accumulation_steps = 1;
  options.ranks.zero_persistence_threshold = 1 << 30;
  EXPECT_EQ(made_again(OpKind::kEmbedding), 3) << "small weights are kept whole";
}

// What is made from what had to be kept for it alone is not made again: the last norm below what is trained,
// whose own backward does not run.
TEST(Rematerialize, KeepsWhatNothingGivesAgain) {
  StepOptions options;
  options.freeze = {"embeddings", R"(layer\.0\.)"};
  const ProgramFamily family = build(options);
  const Program& program = family.programs[0];
  const auto readers = program.readers();
  const auto has_backward_reader = [&](ValueId value) {
    const auto& list = readers[value.at()];
    return std::any_of(list.begin(), list.end(),
                       [&](NodeId reader) { return program.node(reader).region.phase == Phase::kBackward; });
  };
  int64_t kept_norms = 0;
  for (const Node& node : program.nodes()) {
    if (node.kind == OpKind::kBiasDropoutResidualLayerNorm && has_backward_reader(node.outputs[0]))
      ++kept_norms;
    if (node.region.phase != Phase::kRecompute) continue;
    for (const ValueId input : node.inputs) {
      if (!input.valid()) continue;
      const NodeId producer = program.value(input).producer;
      if (!producer.valid() || program.node(producer).region.phase == Phase::kRecompute) continue;
      EXPECT_TRUE(has_backward_reader(input)) << "only clones keep " << program.value(input).name;
    }
  }
  EXPECT_EQ(kept_norms, 1);
}

// The values of a set are read by nobody behind the forward; what runs again for them stands before its first reader.
TEST(RecomputeSet, IsNotKept) {
  StepOptions options;
  options.recompute_set = {"layer.0.feed_forward.product", "layer.1.attention.attention",
                           "layer.1.attention.residual_norm", "layer.2.attention.qkv"};
  const ProgramFamily family = build(options);
  const Program& program = family.programs[0];
  const auto readers = program.readers();
  const std::vector<std::string> names = forward_names(program);
  size_t found = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!options.recompute_set.contains(names[i])) continue;
    ++found;
    for (const ValueId output : program.nodes()[i].outputs) {
      for (const NodeId reader : readers[output.at()])
        EXPECT_EQ(program.node(reader).region.phase, Phase::kForward) << names[i];
    }
  }
  EXPECT_EQ(found, options.recompute_set.size());
  // The feed-forward's, the output projection in front of layer 1's norm, and the one of layer 2.
  EXPECT_EQ(count(program, OpKind::kMatmul, Phase::kRecompute), 3);
  EXPECT_EQ(count(program, OpKind::kAttention, Phase::kRecompute), 1);
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.region.phase != Phase::kRecompute) continue;
    size_t first = program.nodes().size();
    for (const ValueId output : node.outputs) {
      for (const NodeId reader : readers[output.at()]) first = std::min(first, reader.at());
    }
    for (size_t between = i + 1; between < first; ++between)
      EXPECT_EQ(program.nodes()[between].region.phase, Phase::kRecompute) << "made before it is needed";
  }
}

TEST(RecomputeSet, OfGroupsRunsWhatTheyRun) {
  for (const int64_t every : {1, 2}) {
    StepOptions groups;
    groups.recompute_every_n_layers = every;
    const ProgramFamily grouped = build(groups);
    const ProgramFamily begun =
        begin_programs(small_bert(), RunKind::kTrain, kCapacity, kCapacity, StepOptions{});
    StepOptions set;
    set.recompute_set = recompute_set_of_groups(begun.programs[0], every);
    EXPECT_FALSE(set.recompute_set.empty());
    const ProgramFamily chosen = build(set);
    for (const OpKind kind : {OpKind::kMatmul, OpKind::kAttention, OpKind::kBiasActivation})
      EXPECT_EQ(count(chosen.programs[0], kind, Phase::kRecompute),
                count(grouped.programs[0], kind, Phase::kRecompute))
          << every << " " << op_info(kind).name;
  }
}

TEST(RecomputeSet, NamesDependOnNoSizes) {
  StepOptions half;
  half.precision = Precision::kBfloat16;
  const auto names = [](const StepOptions& options, const BatchCapacity& capacity) {
    const ProgramFamily family =
        begin_programs(small_bert(), RunKind::kTrain, capacity, BatchBuckets{}, options);
    std::set<std::string> read;
    const std::vector<std::string> all = forward_names(family.programs[0]);
    for (const NodeId node : nodes_read_later(family.programs[0])) read.insert(all[node.at()]);
    return read;
  };
  EXPECT_EQ(names(half, {32, 2, 16}), names({}, kCapacity));
}

TEST(RecomputeSet, RefusesWhatTheModelHasNot) {
  StepOptions options;
  options.recompute_set = {"layer.3.attention.qkv"};
  EXPECT_TRUE(contains(refusal_of([&] { build(options); }), "layer.3.attention.qkv"));
  options.recompute_set = {"layer.0.attention.qkv"};
  options.recompute_every_n_layers = 1;
  EXPECT_TRUE(contains(refusal_of([&] { build(options); }), "--gradient_checkpointing"));
  options.recompute_every_n_layers = 0;
  options.skip_passes = {"rematerialize"};
  EXPECT_TRUE(contains(refusal_of([&] { build(options); }), "--skip_pass rematerialize"));
}

}  // namespace
}  // namespace shoehorn
