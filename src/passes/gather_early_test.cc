#include "passes/gather_early.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "passes/passes_testing.h"
#include "tasks/single_label_classification.h"

namespace shoehorn {
namespace {

using test_support::build;
using test_support::small_bert;

ProgramFamily build_without(const Model& model, const std::set<std::string>& skipped) {
  StepOptions options;
  options.skip_passes = skipped;
  return build(model, options);
}

// Of the forward's products of a layer, how many have a row a token and how many a row a sequence.
struct Rows {
  int64_t tokens = 0, sequences = 0;
  bool operator==(const Rows&) const = default;
};
Rows product_rows(const Program& program, int32_t layer) {
  Rows rows;
  for (const Node& node : program.nodes()) {
    if (node.kind != OpKind::kMatmul || node.region.layer != layer || node.region.phase != Phase::kForward)
      continue;
    const CountId count = program.type(node.outputs[0]).shape[0].count;
    rows.tokens += count == batch_count(0, BatchAxis::kTokens) ? 1 : 0;
    rows.sequences += count == batch_count(0, BatchAxis::kSequences) ? 1 : 0;
  }
  return rows;
}

int64_t gathers(const Program& program) {
  return std::count_if(program.nodes().begin(), program.nodes().end(), [](const Node& node) {
    return node.kind == OpKind::kGatherRows && node.region.phase == Phase::kForward;
  });
}

TEST(GatherEarly, TheLastLayerBehindItsAttentionIsOfFirstTokens) {
  for (const int64_t layers : {1, 3}) {
    const ProgramFamily family = build(small_bert(layers));
    ASSERT_EQ(family.programs.size(), 2U);
    for (const Program& program : family.programs) {
      for (int32_t layer = 0; layer + 1 < layers; ++layer)
        EXPECT_EQ(product_rows(program, layer), (Rows{4, 0})) << program.name() << layer;
      // Query, key and value of all tokens; output, intermediate and outer product of the first ones.
      EXPECT_EQ(product_rows(program, static_cast<int32_t>(layers) - 1), (Rows{1, 3})) << program.name();
      EXPECT_EQ(gathers(program), 2) << "of the context and of the layer's input, in " << program.name();
    }
  }
}

// Recompute and layer-major order go by regions.
TEST(GatherEarly, WhatItAddsIsInTheLayerThatReadsIt) {
  const ProgramFamily family = build(small_bert());
  for (const Program& program : family.programs) {
    for (const Node& node : program.nodes()) {
      if (node.kind != OpKind::kGatherRows && node.kind != OpKind::kScatterRows) continue;
      EXPECT_EQ(node.region.layer, 2) << program.name();
    }
  }
}

TEST(GatherEarly, SkippedItLeavesTheModelAsItIs) {
  const ProgramFamily family = build_without(small_bert(2), {"gather_early"});
  for (const Program& program : family.programs) {
    EXPECT_EQ(product_rows(program, 1), (Rows{4, 0}));
    EXPECT_EQ(gathers(program), 1);
  }
}

// x ─► linear ─► y: gathered, and whatever a test adds.
class Reading : public Model {
 public:
  using Use = Tensor (*)(ModelBuilder&, Tensor y);
  explicit Reading(Use use) : use_(use) {}
  Outputs forward(ModelBuilder& b) const override {
    const Tensor table = b.parameter("table", {9, 4}, {});
    b.set_region(0, Component::kFeedForward);
    const Tensor x = b.embedding(table, b.input(BatchColumn::kInputIds), -1);
    const Tensor y = b.activation(
        b.linear(x, b.parameter("weight", {4, 4}, {}), b.parameter("bias", {4}, {})), Activation::kRelu);
    b.set_region(-1, Component::kHead);
    return use_(b, y);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 16; }
  int64_t vocab_size() const override { return 9; }

 private:
  Use use_;
  SingleLabelClassification task_{4};
};

TEST(GatherEarly, AValueThatOthersReadWholeStaysWhole) {
  const Reading gathered_only([](ModelBuilder& b, Tensor y) { return b.first_tokens(y); });
  EXPECT_EQ(product_rows(build(gathered_only).programs[0], 0), (Rows{0, 1}));

  // Attention over it wants all of its rows.
  const Reading mixed([](ModelBuilder& b, Tensor y) {
    return b.add(b.first_tokens(y), b.first_tokens(b.attention(y, y, y, {})));
  });
  const ProgramFamily family = build(mixed);
  EXPECT_EQ(product_rows(family.programs[0], 0), (Rows{1, 0}));
  EXPECT_EQ(gathers(family.programs[0]), 2);

  // Two gathers of the same rows share what is made of them.
  const Reading twice([](ModelBuilder& b, Tensor y) { return b.add(b.first_tokens(y), b.first_tokens(y)); });
  EXPECT_EQ(product_rows(build(twice).programs[0], 0), (Rows{0, 1}));
}

// The evaluation of a run, in which the hidden values are a result of the program.
TEST(GatherEarly, AResultStaysWhole) {
  const Reading model([](ModelBuilder& b, Tensor y) { return b.first_tokens(y); });
  for (const bool is_result : {false, true}) {
    ProgramFamily family = build_without(model, {"gather_early", "fuse"});
    Program& program = family.program(family.all(ProgramKind::kEvaluate).at(0));
    ASSERT_EQ(product_rows(program, 0), (Rows{1, 0}));
    const auto gather = std::ranges::find(program.nodes(), OpKind::kGatherRows, &Node::kind);
    if (is_result) program.add_result("hidden", gather->inputs[0]);
    gather_early(family, {});
    EXPECT_EQ(product_rows(program, 0), (is_result ? Rows{1, 0} : Rows{0, 1}));
  }
}

TEST(GatherEarly, LongChainsOfResidualsAreWalkedOnce) {
  const Reading deep([](ModelBuilder& b, Tensor y) {
    for (int i = 0; i < 60; ++i) y = b.add(b.activation(y, Activation::kRelu), y);
    return b.first_tokens(y);
  });
  EXPECT_EQ(product_rows(build(deep).programs[0], 0), (Rows{0, 1}));
}

// A decoder's classifier reads last tokens: its masks are of their samples and positions.
TEST(GatherEarly, LastTokensAreGatheredEarlyToo) {
  const Reading last([](ModelBuilder& b, Tensor y) { return b.last_tokens(b.token_dropout(y, 0.1F)); });
  const ProgramFamily family = build(last);
  const Program& program = family.programs[0];
  const BatchInputs& batch = family.train_batches[0];
  EXPECT_EQ(product_rows(program, 0), (Rows{0, 1}));
  const auto is_gather_of = [&](ValueId value, BatchColumn column) {
    const Node& gather = program.node(program.value(value).producer);
    return gather.kind == OpKind::kGatherRows &&
           program.value(gather.inputs[0]).storage == batch.find(column) &&
           program.node(program.value(gather.inputs[1]).producer).kind == OpKind::kLastRows;
  };
  int64_t dropouts = 0;
  for (const Node& node : program.nodes()) {
    if (node.kind != OpKind::kDropout || node.region.phase != Phase::kForward) continue;
    ++dropouts;
    EXPECT_TRUE(is_gather_of(node.inputs[2], BatchColumn::kTokenSample));
    EXPECT_TRUE(is_gather_of(node.inputs[3], BatchColumn::kPositionIds));
  }
  EXPECT_EQ(dropouts, 1);
}

TEST(GatherEarly, FirstAndLastTokensOfAValueLeaveItWhole) {
  const Reading both([](ModelBuilder& b, Tensor y) { return b.add(b.first_tokens(y), b.last_tokens(y)); });
  EXPECT_EQ(product_rows(build(both).programs[0], 0), (Rows{1, 0}));
}

TEST(GatherEarly, DropoutMasksAreOfTheSampleAndPlaceOfTheToken) {
  const Reading dropped([](ModelBuilder& b, Tensor y) { return b.first_tokens(b.token_dropout(y, 0.1F)); });
  const ProgramFamily family = build(dropped);
  const Program& program = family.programs[0];
  EXPECT_EQ(product_rows(program, 0), (Rows{0, 1}));
  for (const Node& node : program.nodes()) {
    if (node.kind != OpKind::kDropout) continue;
    const BatchInputs& batch = family.train_batches[0];
    EXPECT_EQ(program.value(node.inputs[2]).storage, batch.find(BatchColumn::kSequenceSample));
    EXPECT_EQ(program.value(node.inputs[3]).storage, batch.find(BatchColumn::kSequencePosition));
  }
}

}  // namespace
}  // namespace shoehorn
