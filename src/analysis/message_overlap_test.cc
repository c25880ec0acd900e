#include "analysis/message_overlap.h"

#include <gtest/gtest.h>

#include "analysis/message_testing.h"

namespace shoehorn {
namespace {

class MessageOverlapTest : public test_support::MessageProgram {
 protected:
  void go_on_with(Phase phase) { builder_.set_region({.phase = phase}); }
  MessageOverlap overlap(const std::vector<NodeTimes>& times) const {
    EXPECT_EQ(times.size(), program_.nodes().size());
    MessageOverlap overlap;
    add_overlap(program_, 0, times, overlap);
    return overlap;
  }
};

// squares [0 1]   squares [1 2]               found_inf [3 3.5]        found_inf [4 5]
//           sum [1            3]  sum [3                      4]
TEST_F(MessageOverlapTest, IsOfBytesThatTheBackwardCanHide) {
  go_on_with(Phase::kBackward);
  const ValueId early = sum(squares(), true);
  const ValueId late = sum(squares(), true);
  go_on_with(Phase::kUpdate);
  read(early);
  read(late);
  const MessageOverlap of = overlap({{0, 1}, {1, 3}, {1, 2}, {3, 4}, {3, 3.5}, {4, 5}});
  EXPECT_GT(of.bytes, 0);
  EXPECT_DOUBLE_EQ(of.early_share(), 0.5) << "the second is complete at the backward's end";
  EXPECT_DOUBLE_EQ(of.done_share(), 0.25) << "half of the first";
  EXPECT_DOUBLE_EQ(of.hidden_share(), 0.5) << "for the other half lane 0 waits";
  const std::string text = format_overlap(of, 1);
  EXPECT_NE(text.find("25.0 % of them sent by the backward's end; 50.0 % were complete before it, and "
                      "computing hid 50.0 % of these"),
            std::string::npos)
      << text;
}

// squares [0 1]  squares [1 3]  found_inf [3 4]
//           sum [1      2.5]
TEST_F(MessageOverlapTest, IsWholeWhereLane0NeverWaits) {
  go_on_with(Phase::kBackward);
  const ValueId early = sum(squares(), true);
  squares();
  go_on_with(Phase::kUpdate);
  read(early);
  const MessageOverlap of = overlap({{0, 1}, {1, 2.5}, {1, 3}, {3, 4}});
  EXPECT_DOUBLE_EQ(of.done_share(), 1);
  EXPECT_DOUBLE_EQ(of.early_share(), 1);
  EXPECT_DOUBLE_EQ(of.hidden_share(), 1);
}

// What lane 0 sends itself is not beside anything; and behind the backward nothing hides what is sent.
TEST_F(MessageOverlapTest, OfMessagesBehindTheBackwardThereIsNone) {
  go_on_with(Phase::kBackward);
  const ValueId gradient = squares();
  read(sum(gradient, false));
  EXPECT_EQ(overlap({{0, 1}, {1, 2}, {2, 3}}).bytes, 0);
  EXPECT_EQ(format_overlap({}, 1), "");
  go_on_with(Phase::kUpdate);
  sum(gradient, true);
  const MessageOverlap of = overlap({{0, 1}, {1, 2}, {2, 3}, {3, 4}});
  EXPECT_GT(of.bytes, 0);
  EXPECT_EQ(of.early_bytes, 0);
  EXPECT_EQ(of.done_bytes, 0);
  EXPECT_NE(format_overlap(of, 1).find("none was complete before it"), std::string::npos);
}

// A reader of a view waits for the node that made the bytes, and so does the program's end.
TEST_F(MessageOverlapTest, Lane0WaitsBehindViewsAndAtTheEnd) {
  const ValueId summed = sum(squares(), true);
  const TensorType type = program_.type(summed);
  const ValueId view = builder_.value(OpKind::kView, {summed}, ViewAttributes{type, 0}, "view");
  read(view);
  sum(squares(), true);
  const std::vector<NodeTimes> times = {{0, 1}, {1, 3}, {1, 1}, {3, 4}, {4, 5}, {5, 7}};
  const std::vector<LaneWait> waits = waits_of_lane_0(program_, 0, times);
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_EQ(waits[0].begin, 1);
  EXPECT_EQ(waits[0].end, 3);
  EXPECT_EQ(waits[1].begin, 5);
  EXPECT_EQ(waits[1].end, 7);
}

}  // namespace
}  // namespace shoehorn
