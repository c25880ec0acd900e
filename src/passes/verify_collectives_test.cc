#include "passes/verify_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ops/op_info.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

constexpr int64_t kRanks = 4;

ProgramFamily family_of(RankOptions ranks, int64_t micro_batches = 1,
                        AccumulationOrder order = AccumulationOrder::kMicroBatch) {
  StepOptions options;
  ranks.world_size = kRanks;
  ranks.bucket_bytes = 2000;
  options.ranks = ranks;
  options.gradient_accumulation_steps = micro_batches;
  options.accumulation_order = order;
  const BatchBuckets buckets(test_support::kCapacity, {{32, 4, 8}});
  return build_programs(test_support::small_bert(), RunKind::kTrain, buckets, buckets, options);
}

std::vector<size_t> nodes_of(const Program& program, OpKind kind) {
  std::vector<size_t> found;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    if (program.nodes()[i].kind == kind) found.push_back(i);
  }
  return found;
}

std::string defect_of(const ProgramFamily& family) {
  try {
    verify_collectives(family);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "nothing";
}

// The step of the second bucket, which ranks run beside that of the first.
Program& second_step(ProgramFamily& family) {
  return family.program(family.all(ProgramKind::kTrainStep).at(1));
}

TEST(VerifyCollectives, EveryMethodIssuesThemAlike) {
  for (const int64_t stage : {0, 1, 2, 3}) {
    for (const int64_t group : {0, 2}) {
      for (const int64_t micro_batches : {1, 2, 3}) {
        for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
          EXPECT_EQ(
              defect_of(family_of({.zero_stage = stage, .zero_group_size = group}, micro_batches, order)),
              "nothing")
              << stage << " in groups of " << group << ", " << micro_batches;
        }
      }
    }
  }
  for (const int64_t micro_batches : {1, 2}) {
    for (const float momentum : {0.0F, 0.9F}) {
      EXPECT_EQ(defect_of(family_of({.local_sgd_steps = 10, .outer_momentum = momentum}, micro_batches)),
                "nothing");
    }
  }
  for (int64_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(defect_of(family_of({.mode = ParallelMode::kReplicas, .rank = rank})), "nothing");
}

// Within groups and across them, and along the chain of DataParallel.
TEST(VerifyCollectives, ADifferenceOfEveryMethodIsFound) {
  struct Damage {
    RankOptions ranks;
    OpKind kind;
  };
  for (const auto& [ranks, kind] : {Damage{{.zero_stage = 3, .zero_group_size = 2}, OpKind::kAllGather},
                                    {{.zero_stage = 2, .zero_group_size = 2}, OpKind::kReduceScatter},
                                    {{.zero_stage = 1, .zero_group_size = 2}, OpKind::kAllReduce},
                                    {{.mode = ParallelMode::kReplicas}, OpKind::kReduce},
                                    {{.mode = ParallelMode::kReplicas, .rank = 1}, OpKind::kBroadcast}}) {
    const std::string what = fmt::format("stage {}, kind {}", ranks.zero_stage, op_info(kind).name);
    const auto damaged = [&](const auto& damage) {
      ProgramFamily family = family_of(ranks);
      Program& step = second_step(family);
      const std::vector<size_t> at = nodes_of(step, kind);
      EXPECT_FALSE(at.empty()) << what;
      if (!at.empty()) damage(std::get<CollectiveAttributes>(step.nodes()[at.back()].attributes));
      return defect_of(family);
    };
    EXPECT_NE(damaged([](CollectiveAttributes& one) { one.groups += 1; }).find("differ in collective"),
              std::string::npos)
        << what;
    EXPECT_NE(damaged([](CollectiveAttributes& one) { one.stride += 1; }).find("differ in collective"),
              std::string::npos)
        << what;
  }
}

// Between averages ranks that train alone exchange nothing, and none of their steps does.
TEST(VerifyCollectives, AnExchangeOfRanksThatTrainAloneIsFound) {
  ProgramFamily family = family_of({.local_sgd_steps = 10});
  Program& step = second_step(family);
  CollectiveAttributes exchange;
  exchange.ranks = kRanks;
  step.nodes()[0].attributes = exchange;
  EXPECT_NE(defect_of(family).find("differ in collective 0"), std::string::npos);
}

// Another order, another size, one that is missing: each would be waited for in vain.
TEST(VerifyCollectives, ADifferenceIsFound) {
  const auto damaged = [&](const auto& damage) {
    ProgramFamily family = family_of({}, 2);
    Program& exchange = family.program(family.find(ProgramKind::kExchange));
    const std::vector<size_t> at = nodes_of(exchange, OpKind::kAllReduce);
    EXPECT_GT(at.size(), 2U);
    damage(exchange, at);
    return defect_of(family);
  };
  EXPECT_NE(damaged([](Program& exchange, const std::vector<size_t>& at) {
              std::swap(exchange.nodes()[at[0]].attributes, exchange.nodes()[at[1]].attributes);
            }).find("differ in collective 0"),
            std::string::npos);
  EXPECT_NE(damaged([](Program& exchange, const std::vector<size_t>& at) {
              std::get<CollectiveAttributes>(exchange.nodes()[at[1]].attributes).chunk_elements += 1;
            }).find("differ in collective 1"),
            std::string::npos);
  EXPECT_NE(damaged([](Program& exchange, const std::vector<size_t>& at) {
              std::vector<NodeId> order;
              for (size_t i = 0; i < exchange.nodes().size(); ++i) {
                if (i != at.back()) order.push_back(NodeId{static_cast<int32_t>(i)});
              }
              exchange.reorder(order);
            }).find("exchange"),
            std::string::npos);
}

}  // namespace
}  // namespace shoehorn
