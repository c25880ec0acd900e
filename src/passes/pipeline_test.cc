// The name of a pass on the nodes that it makes or moves.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "ops/update_layout.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

using test_support::build;
using test_support::small_bert;

std::map<std::string, int64_t> nodes_by_pass(const Program& program,
                                             const std::function<bool(const Node&)>& counts) {
  std::map<std::string, int64_t> nodes;
  for (const Node& node : program.nodes()) {
    if (counts(node)) ++nodes[std::string(node.pass)];
  }
  return nodes;
}

TEST(PassOfANode, IsTheOneThatMadeOrMovedIt) {
  StepOptions options;
  options.lora.rank = 2;
  options.recompute_every_n_layers = 1;
  options.max_grad_norm = 0;
  options.update_in_backward = true;
  const ProgramFamily family = build(options);
  const Program& program = family.programs[0];
  std::set<std::string> found;
  for (const Node& node : program.nodes()) {
    const std::string& name = program.value(node.outputs[0]).name;
    const std::string pass(node.pass);
    found.insert(pass);
    if (is_update(node)) {
      EXPECT_EQ(pass, "update_in_backward") << name;
    } else if (node.region.phase == Phase::kBackward) {
      EXPECT_EQ(pass, "backward") << name;
    } else if (node.region.phase == Phase::kRecompute) {
      EXPECT_TRUE(pass == "recompute" || pass == "rematerialize") << name << " of " << pass;
    } else if (name.starts_with("lora_")) {
      EXPECT_EQ(pass, "lora") << name;
    } else if (node.kind == OpKind::kAttention) {
      EXPECT_EQ(pass, "fuse_attention");
    } else if (node.kind == OpKind::kEmbedding || node.kind == OpKind::kCrossEntropy) {
      EXPECT_EQ(pass, "model") << name;
    }
  }
  for (const char* pass :
       {"model", "lora", "gather_early", "fuse_attention", "fuse_residual_norm", "fuse_bias_activation",
        "fuse_bias", "backward", "recompute", "update_in_backward"})
    EXPECT_TRUE(found.contains(pass)) << pass;
}

TEST(PassOfANode, TellsTheTwoWaysOfMakingAgainApart) {
  const auto made_again = [](const StepOptions& options) {
    return nodes_by_pass(build(options).programs[0],
                         [](const Node& node) { return node.region.phase == Phase::kRecompute; });
  };
  StepOptions options;
  const auto plain = made_again(options);
  EXPECT_GT(plain.at("rematerialize"), 0);
  EXPECT_EQ(plain.size(), 1U) << "nothing is recomputed where that was not asked for";
  options.recompute_every_n_layers = 1;
  EXPECT_GT(made_again(options).at("recompute"), 0);
  options.skip_passes = {"rematerialize"};
  EXPECT_EQ(made_again(options).size(), 1U);
}

TEST(PassOfANode, IsKeptByCopiesForOtherMicroBatches) {
  StepOptions options;
  options.gradient_accumulation_steps = 2;
  const ProgramFamily split = build(options);
  const auto all = [](const Node&) { return true; };
  EXPECT_EQ(nodes_by_pass(split.programs[0], all), nodes_by_pass(split.programs[1], all));
  for (const auto& [pass, nodes] : nodes_by_pass(split.programs[2], all))
    EXPECT_TRUE(pass == "update" || pass == "fuse_update") << pass;
  options.accumulation_order = AccumulationOrder::kLayer;
  const ProgramFamily whole = build(options);
  const auto of_micro_batch = [&](int32_t index) {
    auto nodes = nodes_by_pass(whole.programs[0], [&](const Node& node) {
      return node.region.micro_batch == index && node.region.phase != Phase::kUpdate;
    });
    nodes.erase("accumulate");  // sums that no kernel takes into itself
    return nodes;
  };
  EXPECT_GT(of_micro_batch(0).at("model"), 0);
  EXPECT_EQ(of_micro_batch(0), of_micro_batch(1));
}

TEST(PassOfANode, IsThereInEveryProgram) {
  std::set<std::string> known = {"model"};
  for (const Pass& pass : pass_list()) known.insert(pass.name);
  StepOptions options;
  options.precision = Precision::kFloat16;
  for (const RunKind kind : {RunKind::kTrain, RunKind::kEvaluate}) {
    const ProgramFamily family = build(small_bert(), options, kind);
    for (const Program& program : family.programs) {
      for (const Node& node : program.nodes())
        EXPECT_TRUE(known.contains(std::string(node.pass))) << program.name() << ": '" << node.pass << "'";
    }
  }
}

}  // namespace
}  // namespace shoehorn
