#include "passes/zero.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/rounding.h"
#include "ops/op_info.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

using test_support::build;
using test_support::count;

StepOptions at_stage(int64_t stage, int64_t world_size = 4) {
  StepOptions options;
  options.ranks = {.world_size = world_size, .zero_stage = stage, .zero_persistence_threshold = 0};
  return options;
}

const Program& program_of(const ProgramFamily& family, ProgramKind kind) {
  return family.program(family.find(kind));
}

int64_t bytes_of(const ProgramFamily& family, Role role) {
  int64_t bytes = 0;
  for (const Storage& storage : family.state->storages())
    bytes += storage.role == role ? storage.type.bytes() : 0;
  return bytes;
}

// What a rank stores of all parameters, in elements: a piece of each.
int64_t pieces(const ProgramFamily& family, int64_t ranks) {
  int64_t elements = 0;
  for (const Parameter& parameter : family.state->parameters())
    elements += ceil_divide(parameter.global_elements(), ranks);
  return elements;
}

// Bytes that all ranks together send for a kind of collective in a run of a program.
int64_t sent_by_all(const Program& program, OpKind kind, int64_t ranks) {
  int64_t bytes = 0;
  for (const Node& node : program.nodes()) {
    for (int64_t rank = 0; rank < ranks && node.kind == kind; ++rank)
      bytes += sent_bytes({program, node}, rank);
  }
  return bytes;
}

TEST(Zero, DoesNothingForOneRank) {
  for (const int64_t stage : {1, 2, 3}) {
    const ProgramFamily family = build(at_stage(stage, 1));
    EXPECT_TRUE(family.shards.empty());
    EXPECT_FALSE(family.find(ProgramKind::kAfterLoad).valid());
    for (const Parameter& parameter : family.state->parameters()) EXPECT_FALSE(parameter.is_sharded());
  }
}

// Each rank has an N-th of every parameter and of its states, and together they have all of it once.
TEST(Zero, CutsEachParameterOnce) {
  for (const int64_t ranks : {2, 4, 7}) {
    std::map<std::string, int64_t> held;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      StepOptions options = at_stage(1, ranks);
      options.ranks.rank = rank;
      const ProgramFamily family = build(options);
      for (const Parameter& parameter : family.state->parameters()) {
        EXPECT_EQ(parameter.stored_elements(), ceil_divide(parameter.global_elements(), ranks));
        EXPECT_EQ(parameter.owner(), rank);
        EXPECT_EQ(parameter.slice().offset, parameter.local_elements() == 0 ? 0 : held[parameter.name]);
        held[parameter.name] += parameter.local_elements();
      }
      EXPECT_EQ(bytes_of(family, Role::kOptimizerState), 2 * 4 * pieces(family, ranks)) << "two moments";
      EXPECT_EQ(bytes_of(family, Role::kMasterWeight), 4 * pieces(family, ranks));
    }
    const ProgramFamily whole = build(at_stage(0, 1));
    for (const Parameter& parameter : whole.state->parameters())
      EXPECT_EQ(held.at(parameter.name), parameter.global_elements()) << parameter.name;
  }
}

// What each stage keeps from step to step under micro-batch accumulation.
TEST(Zero, EachStageKeepsLess) {
  const auto kept = [](int64_t stage) {
    StepOptions options = at_stage(stage);
    options.gradient_accumulation_steps = 3;
    return build(options);
  };
  const ProgramFamily none = kept(0);
  const int64_t whole = bytes_of(none, Role::kWeight);
  const int64_t part = 4 * pieces(none, 4);
  EXPECT_EQ(bytes_of(none, Role::kGradient), whole);
  for (const int64_t stage : {1, 2, 3}) {
    const ProgramFamily family = kept(stage);
    EXPECT_EQ(bytes_of(family, Role::kOptimizerState), 2 * part) << stage;
    EXPECT_EQ(bytes_of(family, Role::kGradient), stage == 1 ? whole : part) << stage;
    EXPECT_EQ(bytes_of(family, Role::kWeight), stage == 3 ? part : whole) << stage;
  }
}

// Stages 1 and 2 send what data parallel sends, stage 3 no more than half as much again.
TEST(Zero, SendsWhatTheLiteratureSays) {
  const ProgramFamily none = build(at_stage(0));
  const int64_t weights = bytes_of(none, Role::kWeight);
  const int64_t loss = 2 * 3 * 4, norm = 2 * 3 * 8;
  const auto sent = [](const ProgramFamily& family, OpKind kind) {
    return sent_by_all(program_of(family, ProgramKind::kTrainStep), kind, 4);
  };
  EXPECT_EQ(sent(none, OpKind::kAllReduce), 2 * 3 * weights + loss);
  for (const int64_t stage : {1, 2, 3}) {
    const ProgramFamily family = build(at_stage(stage));
    EXPECT_EQ(sent(family, OpKind::kAllReduce), loss + norm) << stage;
    EXPECT_EQ(sent(family, OpKind::kReduceScatter), 3 * weights) << stage;
    if (stage < 3) {
      EXPECT_EQ(sent(family, OpKind::kAllGather), 3 * weights) << stage;
    } else {
      EXPECT_GT(sent(family, OpKind::kAllGather), 3 * weights);
      EXPECT_LE(sent(family, OpKind::kAllGather), 2 * 3 * weights);
    }
  }
}

// A bucket goes around beside the backward, until the next one is complete: no more than two are held whole.
TEST(Zero, StageTwoHoldsTwoBucketsOfGradients) {
  for (const int64_t micro_batches : {1, 3}) {
    StepOptions options = at_stage(2);
    options.ranks.bucket_bytes = 1024;
    options.gradient_accumulation_steps = micro_batches;
    const ProgramFamily family = build(options);
    const Program& step = family.programs[0];
    const std::vector<int64_t> last_running = step.last_running();
    std::vector<size_t> scatters;
    for (size_t at = 0; at < step.nodes().size(); ++at) {
      if (step.nodes()[at].kind == OpKind::kReduceScatter) scatters.push_back(at);
    }
    ASSERT_GT(scatters.size(), 3U);
    EXPECT_EQ(count(step, OpKind::kWait), std::ssize(scatters) - 1);
    size_t beside = 0;
    for (size_t i = 0; i + 1 < scatters.size(); ++i) {
      EXPECT_EQ(step.nodes()[scatters[i]].lane, 1);
      EXPECT_LT(last_running[scatters[i]], static_cast<int64_t>(scatters[i + 1]));
      if (last_running[scatters[i]] > static_cast<int64_t>(scatters[i]) + 1) ++beside;
    }
    EXPECT_GT(beside, 0U) << "the backward goes on meanwhile";
  }
}

// Weights are gathered anew behind all updates, and by a program of its own behind a load.
TEST(Zero, GathersBehindTheUpdate) {
  const ProgramFamily family = build(at_stage(2));
  const Program& step = program_of(family, ProgramKind::kTrainStep);
  EXPECT_EQ(step.nodes().back().kind, OpKind::kAllGather);
  EXPECT_EQ(count(step, OpKind::kAllGather), 1);
  const Program& loaded = program_of(family, ProgramKind::kAfterLoad);
  EXPECT_EQ(count(loaded, OpKind::kAllGather), 1);
  EXPECT_EQ(std::ssize(loaded.nodes()), 1);
  EXPECT_FALSE(build(at_stage(3)).find(ProgramKind::kAfterLoad).valid()) << "nothing is kept whole";
}

// Where the gathers of a stage 3 program stand, by the layer that they are for: the layer that runs there.
std::map<int32_t, int32_t> running_layer_at_gathers(const Program& program) {
  std::map<int32_t, int32_t> running;
  for (size_t at = 0; at + 1 < program.nodes().size(); ++at) {
    const Node& node = program.nodes()[at];
    if (node.kind != OpKind::kAllGather || node.region.phase != Phase::kForward || node.region.layer < 0)
      continue;
    EXPECT_EQ(node.lane, 1);
    const auto next = std::find_if(program.nodes().begin() + static_cast<int64_t>(at), program.nodes().end(),
                                   [](const Node& other) { return other.kind != OpKind::kAllGather; });
    running[node.region.layer] = next->region.layer;
  }
  return running;
}

TEST(Zero, GathersLayersAhead) {
  for (const int64_t ahead : {0, 1, 2}) {
    StepOptions options = at_stage(3);
    options.ranks.zero_prefetch_layers = ahead;
    const ProgramFamily family = build(options);
    for (const ProgramKind kind : {ProgramKind::kTrainStep, ProgramKind::kEvaluate}) {
      const auto running = running_layer_at_gathers(program_of(family, kind));
      ASSERT_EQ(running.size(), 3U) << traits_of(kind).name;
      EXPECT_EQ(running.at(2), 2 - ahead) << traits_of(kind).name;
    }
  }
}

// A gathered weight has no reader outside of its layer and phase, so that its bytes are free again behind it.
TEST(Zero, FreesWeightsBehindTheirLayer) {
  const ProgramFamily family = build(at_stage(3));
  const Program& program = program_of(family, ProgramKind::kTrainStep);
  const auto readers = program.readers();
  for (const Node& node : program.nodes()) {
    if (node.kind != OpKind::kAllGather) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      for (const NodeId reader : readers[node.outputs[i].at()]) {
        EXPECT_EQ(program.node(reader).region.layer, node.region.layer);
        const bool is_last = node.region.layer == 2 || node.region.layer < 0;  // forward and backward touch
        if (!is_last && node.region.phase == Phase::kForward) {
          EXPECT_EQ(program.node(reader).region.phase, Phase::kForward);
        }
      }
    }
  }
  for (const ShardedStorage& shard : family.shards)
    EXPECT_EQ(family.state->storage(shard.whole).type.bytes(), 0) << "nothing lies there";
}

// Biases and norms stay whole, so that no run of reads stands within another's layer.
StepOptions gathering_products(int64_t layers_ahead) {
  StepOptions options = at_stage(3);
  options.ranks.zero_persistence_threshold = 40;
  options.ranks.zero_prefetch_layers = layers_ahead;
  return options;
}

// The head stands between the forward and the backward of the last layer, whose weights are to be gathered while it runs.
TEST(Zero, WhatWouldBeGatheredAtOnceStaysWhole) {
  for (const int64_t ahead : {0, 1}) {
    const ProgramFamily family = build(gathering_products(ahead));
    std::map<int32_t, int64_t> gathers;
    for (const Node& node : program_of(family, ProgramKind::kTrainStep).nodes())
      gathers[node.region.layer] += node.kind == OpKind::kAllGather ? 1 : 0;
    EXPECT_EQ(gathers[2], ahead == 0 ? 2 : 1);
    EXPECT_EQ(gathers[1], 2);
  }
}

// The head and the last layer take turns, a micro-batch after the other.
TEST(Zero, LayerByLayerOneGatherServesAllMicroBatches) {
  std::set<int64_t> gathers;
  for (const int64_t micro_batches : {2, 3, 5}) {
    StepOptions options = gathering_products(1);
    options.gradient_accumulation_steps = micro_batches;
    options.accumulation_order = AccumulationOrder::kLayer;
    gathers.insert(count(program_of(build(options), ProgramKind::kTrainStep), OpKind::kAllGather));
  }
  EXPECT_EQ(gathers.size(), 1U) << *gathers.begin() << " to " << *gathers.rbegin();
}

TEST(Zero, KeepsSmallWeightsWhole) {
  StepOptions options = at_stage(3);
  options.ranks.zero_persistence_threshold = 20;  // biases, but not three of them in one storage
  const ProgramFamily family = build(options);
  for (const ShardedStorage& shard : family.shards)
    EXPECT_EQ(shard.is_kept, shard.whole_type.shape.elements() <= 20);
  EXPECT_TRUE(family.find(ProgramKind::kAfterLoad).valid());
}

// Frozen weights are gathered too; they have no gradient to scatter and no state.
TEST(Zero, ShardsFrozenWeightsInStage3) {
  for (const int64_t stage : {1, 2, 3}) {
    StepOptions options = at_stage(stage);
    options.freeze = {"^bert\\.encoder"};
    const ProgramFamily family = build(options);
    for (const Parameter& parameter : family.state->parameters())
      EXPECT_EQ(parameter.is_sharded(), parameter.trainable || stage == 3) << parameter.name;
  }
}

// Adapters are cut as other weights are; in stage 3 so is the frozen model under them.
TEST(Zero, ShardsAdapters) {
  for (const int64_t stage : {1, 2, 3}) {
    StepOptions options = at_stage(stage);
    options.lora.rank = 2;
    const ProgramFamily family = build(options);
    int64_t trained = 0;
    for (const Parameter& parameter : family.state->parameters()) {
      EXPECT_EQ(parameter.is_sharded(), parameter.trainable || stage == 3) << parameter.name;
      if (parameter.trainable) trained += ceil_divide(parameter.global_elements(), 4);
    }
    EXPECT_EQ(bytes_of(family, Role::kOptimizerState), 2 * 4 * trained);
    const Program& step = program_of(family, ProgramKind::kTrainStep);
    EXPECT_EQ(count(step, OpKind::kAllReduce), 2) << "the loss and the norm";
    EXPECT_GT(count(step, OpKind::kReduceScatter), 0);
  }
}

// What multiplies an fp16 weight reads it as it was cast before it went around; tables are read in fp32. A cast is of a part,
// and made for the layer that reads it.
TEST(Zero, GathersHalfWeightsInHalfTheBytes) {
  for (const int64_t micro_batches : {1, 3}) {
    StepOptions options = at_stage(3);
    options.precision = Precision::kFloat16;
    options.gradient_accumulation_steps = micro_batches;
    const ProgramFamily family = build(options);
    std::set<StorageId> parts;
    for (const ShardedStorage& shard : family.shards) parts.insert(shard.shard);
    int64_t half = 0, single = 0, casts = 0;
    for (const Program& program : family.programs) {
      for (const Node& node : program.nodes()) {
        if (node.kind == OpKind::kAllGather) {
          const bool is_half = program.type(node.outputs[0]).dtype == DType::kF16;
          for (const ValueId part : node.inputs)
            (is_half ? half : single) += program.type(part).shape.elements();
        }
        if (node.kind != OpKind::kCast || program.type(node.outputs[0]).dtype != DType::kF16) continue;
        const StorageId cast = program.value(node.inputs[0]).storage;
        if (!cast.valid() || family.state->storage(cast).role == Role::kInput) continue;
        ++casts;
        EXPECT_TRUE(parts.contains(cast)) << family.state->storage(cast).name << " is cast whole";
        EXPECT_FALSE(program.value(node.outputs[0]).storage.valid()) << "a cast is kept";
      }
    }
    EXPECT_GT(casts, 0);
    EXPECT_GT(half, 2 * single) << "most weights are multiplied";
    EXPECT_EQ(bytes_of(family, Role::kMasterWeight) + bytes_of(family, Role::kWeight), 4 * pieces(family, 4))
        << micro_batches << ": nothing is kept whole";
  }
}

// Adafactor's parts are whole rows, with the moments of these; moments of columns are whole on each rank. 8 ranks are more
// than some matrices have rows.
TEST(Zero, CutsBetweenRowsForAdafactor) {
  for (const int64_t lora_rank : {0, 2}) {
    for (const int64_t ranks : {2, 8}) {
      std::map<std::string, int64_t> held;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        StepOptions options = at_stage(2, ranks);
        options.lora.rank = lora_rank;
        options.optimizer.settings = AdafactorSettings{};
        options.ranks.rank = rank;
        const ProgramFamily family = build(options);
        int64_t states = 0;
        for (const Parameter& parameter : family.state->parameters()) {
          if (!parameter.trainable) continue;
          const bool is_matrix = parameter.shape.size() > 1;
          const int64_t columns = is_matrix ? parameter.shape.back() : 1;
          const int64_t rows = ceil_divide(parameter.global_elements() / columns, ranks);
          EXPECT_EQ(parameter.stored_elements(), rows * columns) << parameter.name;
          EXPECT_EQ(parameter.local_elements() % columns, 0) << parameter.name;
          states += rows + (is_matrix ? columns : 0);
          held[parameter.name] += parameter.local_elements();
        }
        EXPECT_EQ(bytes_of(family, Role::kOptimizerState), 4 * states) << "rank " << rank;
      }
      const ProgramFamily whole = build(at_stage(0, 1));
      for (const Parameter& parameter : whole.state->parameters()) {
        if (lora_rank == 0) {
          EXPECT_EQ(held.at(parameter.name), parameter.global_elements()) << parameter.name;
        }
      }
    }
  }
}

// What Adafactor's sums over whole parameters have, in bytes: two numbers a column and one a matrix, or one a vector; with
// scale_parameter one more each.
int64_t bytes_of_sums(const ProgramFamily& family, bool scales) {
  int64_t elements = 0;
  for (const Parameter& parameter : family.state->parameters())
    elements += (parameter.shape.size() > 1 ? 2 * parameter.shape.back() : 0) + 1 + (scales ? 1 : 0);
  return 8 * elements;
}

// All sums go around at once in front of the update, which is one node of all tensors as ever. Nothing else is sent than with
// another optimizer.
TEST(Zero, SendsAdafactorsSums) {
  for (const int64_t stage : {1, 2, 3}) {
    for (const bool scales : {false, true}) {
      StepOptions options = at_stage(stage);
      const int64_t others =
          sent_by_all(program_of(build(options), ProgramKind::kTrainStep), OpKind::kAllReduce, 4);
      options.optimizer.settings = AdafactorSettings{.scale_parameter = scales};
      const ProgramFamily family = build(options);
      const Program& step = program_of(family, ProgramKind::kTrainStep);
      EXPECT_EQ(sent_by_all(step, OpKind::kAllReduce, 4), others + 2 * 3 * bytes_of_sums(family, scales))
          << stage;
      EXPECT_EQ(count(step, OpKind::kAllReduce), 3) << "the loss, the norm and the sums";
      const int64_t weights = bytes_of(build(at_stage(0)), Role::kWeight);
      EXPECT_EQ(sent_by_all(step, OpKind::kReduceScatter, 4), 3 * weights) << stage;
      EXPECT_EQ(count(step, OpKind::kAdafactor), 2) << "of matrices and of vectors";
    }
  }
}

// Each update in the backward has its own sums directly in front of it, on the lane that gradients are summed on.
TEST(Zero, SumsForEachUpdateInTheBackward) {
  for (const int64_t stage : {1, 2, 3}) {
    StepOptions options = at_stage(stage);
    options.optimizer.settings = AdafactorSettings{.scale_parameter = true};
    options.max_grad_norm = 0;
    options.update_in_backward = true;
    const ProgramFamily family = build(options);
    const Program& step = program_of(family, ProgramKind::kTrainStep);
    int64_t updates = 0;
    for (size_t at = 0; at < step.nodes().size(); ++at) {
      if (step.nodes()[at].kind != OpKind::kAdafactor) continue;
      ++updates;
      ASSERT_GE(at, 2U);
      EXPECT_EQ(step.nodes()[at - 2].kind, OpKind::kAdafactorSums) << stage;
      EXPECT_EQ(step.nodes()[at - 1].kind, OpKind::kAllReduce) << stage;
      EXPECT_EQ(step.nodes()[at - 1].lane, 1) << stage;
    }
    EXPECT_EQ(updates, std::ssize(family.shards));
    EXPECT_EQ(sent_by_all(step, OpKind::kAllReduce, 4), 2 * 3 * (bytes_of_sums(family, true) + 4))
        << "and the loss";
    EXPECT_NE(step.nodes().back().kind, OpKind::kAdafactorSums);
  }
}

// Nothing is cut on ranks that have everything, and no sums go around.
TEST(Zero, SendsNoSumsAtStage0) {
  StepOptions options = at_stage(0);
  options.optimizer.settings = AdafactorSettings{};
  const ProgramFamily family = build(options);
  const Program& step = program_of(family, ProgramKind::kTrainStep);
  EXPECT_EQ(count(step, OpKind::kAdafactorSums), 0);
  EXPECT_EQ(count(step, OpKind::kAllReduce), 1);
}

StepOptions in_groups(int64_t stage, int64_t world_size, int64_t group_size) {
  StepOptions options = at_stage(stage, world_size);
  options.ranks.zero_group_size = group_size;
  return options;
}

// A rank has what one of so many ranks has as its group has, and the first group's writes it.
TEST(ZeroInGroups, CutsAsForOneGroup) {
  for (const int64_t stage : {1, 2, 3}) {
    for (int64_t rank = 0; rank < 6; ++rank) {
      StepOptions options = in_groups(stage, 6, 2);
      options.ranks.rank = rank;
      StepOptions of_two = at_stage(stage, 2);
      of_two.ranks.rank = rank % 2;
      const ProgramFamily family = build(options), alone = build(of_two);
      for (size_t i = 0; i < family.state->parameters().size(); ++i) {
        const Parameter& parameter = family.state->parameters()[i];
        const Parameter& expected = alone.state->parameters()[i];
        EXPECT_EQ(parameter.slice(), expected.slice()) << parameter.name;
        EXPECT_EQ(parameter.stored_elements(), expected.stored_elements()) << parameter.name;
        EXPECT_EQ(parameter.owner(), rank % 2) << parameter.name;
      }
      for (const Role role : {Role::kOptimizerState, Role::kWeight, Role::kMasterWeight})
        EXPECT_EQ(bytes_of(family, role), bytes_of(alone, role)) << stage;
    }
  }
}

// Within groups what ZeRO sends on as many ranks; between groups the sums of parts, once a step however many micro-batches.
TEST(ZeroInGroups, SendsPartsBetweenGroups) {
  const int64_t groups = 3, group_size = 2, ranks = groups * group_size;
  for (const int64_t stage : {1, 2, 3}) {
    for (const int64_t micro_batches : {1, 2}) {
      StepOptions options = in_groups(stage, ranks, group_size);
      options.gradient_accumulation_steps = micro_batches;
      StepOptions of_two = at_stage(stage, group_size);
      of_two.gradient_accumulation_steps = micro_batches;
      const ProgramFamily family = build(options), alone = build(of_two);
      int64_t across = 0;
      for (size_t i = 0; i < family.programs.size(); ++i) {
        const Program& program = family.programs[i];
        for (const OpKind kind : {OpKind::kReduceScatter, OpKind::kAllGather}) {
          EXPECT_EQ(sent_by_all(program, kind, ranks),
                    groups * sent_by_all(alone.programs[i], kind, group_size))
              << program.name();
        }
        for (const Node& node : program.nodes()) {
          const auto* attributes = std::get_if<CollectiveAttributes>(&node.attributes);
          if (attributes == nullptr || attributes->stride == 1) continue;
          EXPECT_TRUE(program.traits().updates) << "once a step, not in " << program.name();
          EXPECT_EQ(attributes->ranks, groups);
          EXPECT_EQ(attributes->stride, group_size);
          for (int64_t rank = 0; rank < ranks; ++rank) across += sent_bytes({program, node}, rank);
        }
      }
      EXPECT_EQ(across, group_size * 2 * (groups - 1) * 4 * pieces(family, group_size)) << stage;
    }
  }
}

// Of groups that are all ranks nothing is different.
TEST(ZeroInGroups, OfAllRanksAreNone) {
  const ProgramFamily family = build(in_groups(3, 4, 4)), plain = build(at_stage(3));
  const Program& step = program_of(family, ProgramKind::kTrainStep);
  EXPECT_EQ(std::ssize(step.nodes()), std::ssize(program_of(plain, ProgramKind::kTrainStep).nodes()));
  EXPECT_EQ(bytes_of(family, Role::kCommunication), bytes_of(plain, Role::kCommunication));
}

TEST(ZeroInGroups, MustBeOfOneSize) {
  for (const int64_t group_size : {3, 8, -1}) {
    const StepOptions options = in_groups(2, 4, group_size);
    try {
      build(options);
      ADD_FAILURE() << group_size;
    } catch (const UserError& error) {
      EXPECT_TRUE(std::string(error.what())
                      .starts_with(fmt::format(
                          "[--zero_group_size {}] expected a number that divides the 4 ranks", group_size)))
          << error.what();
    }
  }
  EXPECT_NO_THROW(build(in_groups(0, 4, 3))) << "nothing is shared";
}

}  // namespace
}  // namespace shoehorn
