#include "passes/local_sgd.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ops/op_info.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

using test_support::build;
using test_support::count;

StepOptions local_options(int64_t world_size = 4) {
  StepOptions options;
  options.ranks = {.world_size = world_size, .rank = 1, .local_sgd_steps = 8, .outer_momentum = 0.9F};
  return options;
}

int64_t collectives(const Program& program) {
  return count(program, OpKind::kAllReduce);
}

int64_t bytes_of_trained(const ProgramFamily& family) {
  int64_t bytes = 0;
  for (const Parameter& parameter : family.state->parameters())
    bytes += parameter.trainable ? 4 * parameter.global_elements() : 0;
  return bytes;
}

TEST(LocalSgd, DoesNothingForOneRank) {
  const ProgramFamily family = build(local_options(1));
  EXPECT_FALSE(family.find(ProgramKind::kOuterUpdate).valid());
  EXPECT_FALSE(family.find(ProgramKind::kAfterLoad).valid());
}

// No step sends anything; the outer update sends every trained weight once, and begins at what was loaded.
TEST(LocalSgd, SendsWeightsInAProgramOfTheirOwn) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    StepOptions options = local_options();
    options.precision = precision;
    options.freeze = {"embeddings"};
    const ProgramFamily family = build(options);
    const Program& update = family.program(family.find(ProgramKind::kOuterUpdate));
    const Program& begin = family.program(family.find(ProgramKind::kAfterLoad));
    for (const Program& program : family.programs) {
      if (program.kind() == ProgramKind::kOuterUpdate) continue;
      EXPECT_EQ(collectives(program), 0) << program.name();
    }
    const auto weights = std::ssize(family.gradients[0]);
    EXPECT_EQ(count(begin, OpKind::kOuterStart), weights);
    EXPECT_EQ(count(update, OpKind::kOuterGradient), weights);
    EXPECT_EQ(count(update, OpKind::kOuterUpdate), weights);
    int64_t sent = 0;
    for (const Node& node : update.nodes()) {
      for (int64_t rank = 0; rank < 4; ++rank) sent += sent_bytes({update, node}, rank);
    }
    EXPECT_EQ(sent, 2 * 3 * bytes_of_trained(family)) << "2 (N - 1) / N of them by each of N ranks";
  }
}

TEST(LocalSgd, BucketsBoundWhatGoesAroundTogether) {
  StepOptions options = local_options();
  const ProgramFamily one = build(options);
  EXPECT_EQ(collectives(one.program(one.find(ProgramKind::kOuterUpdate))), 1);
  options.ranks.bucket_bytes = 4096;
  const ProgramFamily many = build(options);
  const Program& update = many.program(many.find(ProgramKind::kOuterUpdate));
  EXPECT_GT(collectives(update), 1);
  for (const Node& node : update.nodes()) {
    if (node.kind != OpKind::kAllReduce) continue;
    int64_t bytes = 0;
    for (const ValueId input : node.inputs) bytes += update.type(input).bytes();
    EXPECT_TRUE(bytes <= 4096 || node.inputs.size() == 1) << bytes;
  }
}

// The states of four ranks are one tensor in files, of which each has a row; the momentum over averages is all ranks' alike.
TEST(LocalSgd, EachRankHasStatesOfItsOwn) {
  const StepOptions options = local_options();
  const ProgramFamily family = build(options);
  for (const Parameter& parameter : family.state->parameters()) {
    ASSERT_TRUE(parameter.own_states) << parameter.name;
    EXPECT_FALSE(parameter.is_sharded());
    for (const OptimizerState& kept : optimizer_states(options.optimizer.settings, parameter)) {
      EXPECT_EQ(kept.shape.front(), 4);
      EXPECT_EQ(kept.slice(), Slice::range(parameter.global_elements(), 2 * parameter.global_elements()));
      EXPECT_EQ(kept.owner(), 1);
    }
  }
  const auto bytes = [&](std::string_view suffix) {
    int64_t all = 0;
    for (const Storage& storage : family.state->storages())
      all += storage.name.ends_with(suffix) ? storage.type.bytes() : 0;
    return all;
  };
  EXPECT_EQ(bytes(".outer_momentum"), bytes_of_trained(family));
  EXPECT_EQ(bytes(".outer_start"), bytes_of_trained(family));
  EXPECT_EQ(bytes(".exp_avg"), bytes_of_trained(family));
}

TEST(LocalSgd, RefusesByName) {
  const auto message = [](const StepOptions& options) -> std::string {
    try {
      build(options);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  StepOptions options = local_options();
  options.ranks.zero_stage = 1;
  EXPECT_NE(message(options).find("[--local_sgd_steps 8] expected --zero_stage 0"), std::string::npos);
  options = local_options();
  options.precision = Precision::kFloat16;
  EXPECT_NE(message(options).find("--fp16"), std::string::npos);
  options = local_options();
  options.precision = Precision::kBfloat16;
  options.master_weights = MasterWeights::kNone;
  EXPECT_NE(message(options).find("--master_weights none"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
