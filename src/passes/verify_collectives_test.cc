#include "passes/verify_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

ProgramFamily family_of(int64_t stage, int64_t micro_batches, AccumulationOrder order) {
  StepOptions options;
  options.ranks = {.world_size = 4, .bucket_bytes = 2000, .zero_stage = stage};
  options.gradient_accumulation_steps = micro_batches;
  options.accumulation_order = order;
  const BatchBuckets buckets(testing::kCapacity, {{32, 4, 8}});
  return build_programs(testing::small_bert(), RunKind::kTrain, buckets, buckets, options);
}

TEST(VerifyCollectives, EveryMethodIssuesThemAlike) {
  for (const int64_t stage : {0, 1, 2, 3}) {
    for (const int64_t micro_batches : {1, 2, 3}) {
      for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer})
        EXPECT_NO_THROW(verify_collectives(family_of(stage, micro_batches, order)))
            << stage << " " << micro_batches;
    }
  }
}

// Another order, another size, one that is missing: each would be waited for in vain.
TEST(VerifyCollectives, ADifferenceIsFound) {
  const auto collectives = [](Program& program) {
    std::vector<size_t> found;
    for (size_t i = 0; i < program.nodes().size(); ++i) {
      if (program.nodes()[i].kind == OpKind::kAllReduce) found.push_back(i);
    }
    return found;
  };
  const auto damaged = [&](const auto& damage) {
    ProgramFamily family = family_of(0, 2, AccumulationOrder::kMicroBatch);
    Program& exchange = family.program(family.find(ProgramKind::kExchange));
    const std::vector<size_t> at = collectives(exchange);
    EXPECT_GT(at.size(), 2U);
    damage(exchange, at);
    try {
      verify_collectives(family);
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
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
