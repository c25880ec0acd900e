#include "train/rank_waits.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

class NoMessages final : public Communicator {
 public:
  NoMessages() : Communicator({.rank = 0, .size = 3}) { set_hosts({"a", "b", "c"}); }

 private:
  void begin(int32_t, std::span<const std::byte>, int32_t, std::span<std::byte>) override {}
  bool is_done() override { return true; }
};

TEST(RankWaits, WhoWaitsLeastIsTheStraggler) {
  const Straggler straggler = straggler_of({7.5, 0.5, 6.0});
  EXPECT_EQ(straggler.rank, 1);
  EXPECT_DOUBLE_EQ(straggler.seconds, 7.0);
}

TEST(RankWaits, AStragglerIsNamedWhereItCostsTime) {
  const NoMessages ranks;
  EXPECT_EQ(format_straggler(ranks, {1, 7.0}, 70),
            "rank 1 on b is the slowest: another rank waited 7.0 s longer for messages (10% of the time)");
  EXPECT_EQ(format_straggler(ranks, {1, 7.0}, 700), "");
  EXPECT_EQ(format_straggler(ranks, {0, 0.0}, 0.0), "");
}

// The first rank is ahead of the second and waits for it; the second waits for nobody.
TEST(MessageOverlapOfRanks, IsThatOfTheSlowest) {
  const MessageOverlap ahead{.bytes = 100, .done_bytes = 20, .early_bytes = 80, .hidden_bytes = 20};
  const MessageOverlap behind{.bytes = 100, .done_bytes = 70, .early_bytes = 80, .hidden_bytes = 72};
  EXPECT_EQ(overlap_of_slowest({ahead, behind}).hidden_share(), 0.9);
  EXPECT_EQ(overlap_of_slowest({behind, ahead}).hidden_share(), 0.9);
  const MessageOverlap late{.bytes = 100, .done_bytes = 10}, later{.bytes = 100, .done_bytes = 30};
  EXPECT_EQ(overlap_of_slowest({late, later, late}).done_share(), 0.3) << "none could be hidden";
}

}  // namespace
}  // namespace shoehorn
