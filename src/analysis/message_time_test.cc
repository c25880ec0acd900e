#include "analysis/message_time.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/message_testing.h"
#include "analysis/rank_methods.h"
#include "analysis/ranked_session_testing.h"
#include "analysis/step_time.h"
#include "base/error_testing.h"
#include "ranks/agreement.h"

namespace shoehorn {
namespace {

// Nodes that compute take a second each.
class MessageTimeTest : public test_support::MessageProgram {
 protected:
  MessageTime time(double runs = 1) const {
    MessageTime time{.link = {.latency_seconds = 0.75, .bytes_per_second = 1e30}};
    add_messages(program_, runs, [](const OpContext&) { return 1.0; }, time);
    return time;
  }
};

// squares  [0 1]      squares [1 2]     found_inf [2.5 3.5]
//              sum [1      2.5]
TEST_F(MessageTimeTest, ComputesBesideMessagesUntilSomebodyReadsThem) {
  const ValueId summed = sum(squares(), true);
  squares();
  read(summed);
  EXPECT_DOUBLE_EQ(time().computing_seconds, 3);
  EXPECT_DOUBLE_EQ(time().seconds, 1.5);
  EXPECT_DOUBLE_EQ(time().step_seconds, 3.5);
  EXPECT_DOUBLE_EQ(time().unhidden_step_seconds(), 4.5);
  EXPECT_DOUBLE_EQ(time().hidden_share(), 1 / 1.5);
  EXPECT_DOUBLE_EQ(time(3).step_seconds, 3 * 3.5);
}

// Two hosts of a rank each: both messages go between them.
TEST_F(MessageTimeTest, ARingThatLeavesAHostTakesAsLongAsItsMessagesThere) {
  sum(squares(), false);
  const auto seconds = [&](int64_t ranks_of_host) {
    MessageTime time{.link = {.latency_seconds = 0.75,
                              .bytes_per_second = 1e30,
                              .between_hosts = HostLink{.latency_seconds = 5, .bytes_per_second = 1e30}},
                     .ranks_of_host = ranks_of_host};
    add_messages(program_, 1, [](const OpContext&) { return 1.0; }, time);
    return time.seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(0), 1.5) << "one host has all";
  EXPECT_DOUBLE_EQ(seconds(2), 1.5);
  EXPECT_DOUBLE_EQ(seconds(1), 10);
}

TEST_F(MessageTimeTest, NothingIsHiddenOnTheLaneThatComputes) {
  const ValueId summed = sum(squares(), false);
  squares();
  read(summed);
  EXPECT_DOUBLE_EQ(time().step_seconds, 4.5);
  EXPECT_DOUBLE_EQ(time().hidden_share(), 0);
}

// The second begins when the first is done, and the program ends when both are.
TEST_F(MessageTimeTest, CollectivesGoOneAfterTheOther) {
  sum(squares(), true);
  sum(squares(), true);
  EXPECT_DOUBLE_EQ(time().seconds, 3);
  EXPECT_DOUBLE_EQ(time().step_seconds, 4);
}

// Of the time that a message takes a processor, what lane 0 does not wait: half a second of the second node here, and of the third
// nothing, for it waits as long.
//
// squares  [0 1]      squares [1  2.5]  found_inf [2.5 3.5]
//              sum [1         2.5]
TEST_F(MessageTimeTest, ComputingIsSlowedWhereMessagesHaveNoProcessor) {
  const ValueId summed = sum(squares(), true);
  squares();
  read(summed);
  const auto time = [&](double processor_seconds_per_byte) {
    MessageTime time{.link = {.latency_seconds = 0.75,
                              .bytes_per_second = 1e30,
                              .processor_seconds_per_byte = processor_seconds_per_byte}};
    add_messages(program_, 1, [](const OpContext&) { return 1.0; }, time);
    return time;
  };
  constexpr double kSentBytes = sizeof(double);
  EXPECT_DOUBLE_EQ(time(0.5 / kSentBytes).step_seconds, 3.5) << "it waits for the sum in any case";
  EXPECT_DOUBLE_EQ(time(1 / kSentBytes).step_seconds, 4) << "longer than it would have waited";
  EXPECT_DOUBLE_EQ(time(100).step_seconds, 4.5) << "no more than the message takes";
  EXPECT_DOUBLE_EQ(time(100).hidden_share(), 0);
  EXPECT_DOUBLE_EQ(time(100).computing_seconds, 3);
}

TEST_F(MessageTimeTest, AWaitGivesMessagesTheProcessor) {
  read(sum(squares(), true));
  MessageTime time{
      .link = {.latency_seconds = 0.75, .bytes_per_second = 1e30, .processor_seconds_per_byte = 100}};
  add_messages(program_, 1, [](const OpContext&) { return 1.0; }, time);
  EXPECT_DOUBLE_EQ(time.step_seconds, 3.5);
}

using test_support::RankedSession;

TEST_F(RankedSession, OneRankSendsNothing) {
  const Session session(model_, options(1, 0));
  EXPECT_TRUE(step_traffic(session).kinds.empty());
  EXPECT_EQ(format_traffic({}), "");
  const StepTime time = least_step_time(session, machine_);
  EXPECT_FALSE(time.lacks_messages);
  EXPECT_FALSE(to_json(time).contains("messages"));
}

TEST_F(RankedSession, TrafficIsWhatTheStepSends) {
  for (const int64_t stage : {0, 1, 2, 3}) {
    for (const int64_t micro_batches : {1, 3}) {
      const Session session(model_, options(4, stage, micro_batches));
      double bytes = 0;
      for (const RankTraffic& one : step_traffic(session).kinds) bytes += one.bytes;
      EXPECT_EQ(bytes, static_cast<double>(session.sent_bytes_in_step(0))) << "stage " << stage;
    }
  }
}

// In front of a step each rank sends a word to the next, for every other rank; one rank has nobody to tell.
TEST_F(RankedSession, AStepBeginsWithAWordAboutStops) {
  const RankTraffic words = step_traffic(Session(model_, options(4, 0))).kinds.back();
  EXPECT_EQ(words.name, "agree_on_stop");
  EXPECT_EQ(words.runs, 1);
  EXPECT_EQ(words.messages, 3);
  EXPECT_EQ(words.bytes, 3 * static_cast<double>(kStopWordBytes));
  SessionOptions alone = options(4, 0);
  alone.step.ranks.local_sgd_steps = 2;
  EXPECT_EQ(step_traffic(Session(model_, alone)).kinds.back().messages, 1.5)
      << "in front of every other step";
  const Session session(model_, options(4, 0));
  MessageTime time{.link = link_};
  add_messages_in_front(session, time);
  EXPECT_DOUBLE_EQ(time.seconds, 3 * (link_.latency_seconds + kStopWordBytes / link_.bytes_per_second));
  EXPECT_EQ(time.hidden_share(), 0) << "nothing computes meanwhile";
}

// Neither more than both in turn nor less than the longer of both; and a link that takes no time changes nothing.
TEST_F(RankedSession, AStepHasItsMessagesInIt) {
  for (const int64_t stage : {0, 1, 2, 3}) {
    const Session session(model_, options(4, stage));
    const StepTime alone = least_step_time(session, machine_);
    EXPECT_TRUE(alone.lacks_messages);
    EXPECT_TRUE(to_json(alone)["messages"].is_null());
    const StepTime time = least_step_time(session, machine_, {}, &link_);
    ASSERT_TRUE(time.messages);
    EXPECT_FALSE(time.lacks_messages);
    EXPECT_DOUBLE_EQ(time.messages->computing_seconds, alone.seconds);
    EXPECT_NEAR(time.messages->seconds, message_seconds_in_step(session, link_), 1e-9);
    EXPECT_LE(time.seconds, time.messages->unhidden_step_seconds() * (1 + 1e-9));
    EXPECT_GE(time.seconds, std::max(alone.seconds, time.messages->seconds));
    const RankLink none{.latency_seconds = 0, .bytes_per_second = 1e30};
    EXPECT_NEAR(least_step_time(session, machine_, {}, &none).seconds, alone.seconds, 1e-9);
    EXPECT_NE(format_step_time(time).find("of messages"), std::string::npos);
    EXPECT_NE(format_step_time(alone).find("without the ranks' messages"), std::string::npos);
  }
}

// Gradients go around beside the backward; at stage 2, where it waits for a bucket when the next one is complete, in smaller
// part. Weights that are gathered behind the update are not hidden.
TEST_F(RankedSession, OverlapIsThatOfTheMethod) {
  const auto hidden = [&](int64_t stage) {
    SessionOptions of = options(4, stage);
    of.step.ranks.bucket_bytes = 1 << 16;
    return least_step_time(Session(model_, of), machine_, {}, &link_).messages->hidden_share();
  };
  EXPECT_GT(hidden(0), 0.01);
  EXPECT_GT(hidden(2), 0.01);
  EXPECT_LT(hidden(2), hidden(0));
}

// Over a link between hosts of two ranks: a ring of all goes over it as a whole; one that stays within hosts goes over the other.
// Parts of groups go over it from both ranks of a host, which share it.
TEST_F(RankedSession, MessagesBetweenHostsGoOverTheirLink) {
  RankLink link = link_;
  link.between_hosts = HostLink{.latency_seconds = 0, .bytes_per_second = 1e6};
  const auto seconds = [&](SessionOptions options, int64_t ranks_per_host) {
    options.step.ranks.ranks_per_host = ranks_per_host;
    const Session session(model_, options);
    const StepTime time = least_step_time(session, machine_, {}, &link);
    EXPECT_NEAR(time.messages->seconds, message_seconds_in_step(session, link), 1e-9);
    return time.messages->seconds;
  };
  const auto sent = [&](const SessionOptions& options, const char* kind) {
    return kinds_of(step_traffic(Session(model_, options))).at(kind);
  };
  const SessionOptions all = options(4, 0);
  EXPECT_NEAR(seconds(all, 2), (sent(all, "all_reduce").bytes + sent(all, "agree_on_stop").bytes) / 1e6,
              1e-9);
  EXPECT_LT(seconds(all, 4), seconds(all, 2) / 100);
  SessionOptions grouped = options(4, 3);
  grouped.step.ranks.zero_group_size = 2;
  const double within = sent(grouped, "all_gather").bytes / link.bytes_per_second +
                        sent(grouped, "all_gather").messages * link.latency_seconds +
                        sent(grouped, "reduce_scatter").bytes / link.bytes_per_second +
                        sent(grouped, "reduce_scatter").messages * link.latency_seconds;
  const double between = 2 * sent(grouped, "all_reduce_across_groups").bytes +
                         sent(grouped, "all_reduce").bytes + sent(grouped, "agree_on_stop").bytes;
  constexpr double kNormWithinAGroup = 1e-4;  // which is taken to go between hosts here, as the loss does
  EXPECT_NEAR(seconds(grouped, 2), within + between / 1e6, kNormWithinAGroup);
}

// As plans of each would have it. (Of so small a model a gathered layer is as large as what stage 3 saves.)
TEST_F(RankedSession, MethodsAreWhatPlansSayOfThem) {
  const auto of_stage = [&](int64_t stage) {
    SessionOptions of = options(4, stage);
    of.step.ranks.bucket_bytes = 1 << 14;  // stage 2 holds two buckets of gradients
    return of;
  };
  const auto methods = compare_rank_methods(model_, of_stage(1), [&](const Session& session) {
    return least_step_time(session, machine_, {}, &link_);
  });
  ASSERT_EQ(methods.size(), 4U);
  EXPECT_EQ(methods[0].name, "ddp");
  EXPECT_EQ(methods[3].name, "zero_stage 3");
  for (size_t stage = 0; stage < methods.size(); ++stage) {
    const Session planned(model_, of_stage(static_cast<int64_t>(stage)));
    EXPECT_EQ(methods[stage].refusal, "");
    EXPECT_EQ(methods[stage].arena_bytes, planned.plan().arena_bytes()) << stage;
    EXPECT_EQ(methods[stage].sent_bytes, planned.sent_bytes_in_step(0)) << stage;
  }
  EXPECT_LT(methods[1].arena_bytes, methods[0].arena_bytes);
  EXPECT_LT(methods[2].arena_bytes, methods[1].arena_bytes);
  EXPECT_GT(methods[3].sent_bytes, methods[0].sent_bytes);
  EXPECT_NE(format_rank_methods(methods, true).find("zero_stage 2"), std::string::npos);
  EXPECT_EQ(to_json(methods, true)[0]["sent_bytes_in_step"], methods[0].sent_bytes);
  EXPECT_FALSE(to_json(methods, false)[0].contains("step_seconds"));
  EXPECT_FALSE(methods[0].between_hosts_bytes) << "one host has all";
  EXPECT_FALSE(contains(format_rank_methods(methods, false), "between hosts"));
}

// The ring of data parallel leaves a host by one rank, which sends what it sends there.
TEST_F(RankedSession, MethodsOnSeveralHostsSayWhatGoesBetweenThem) {
  SessionOptions on_hosts = options(4, 1);
  on_hosts.step.ranks.ranks_per_host = 2;
  on_hosts.step.ranks.zero_group_size = 2;
  const auto methods = compare_rank_methods(model_, on_hosts, [](const Session&) { return StepTime{}; });
  ASSERT_EQ(methods.size(), 7U);
  EXPECT_NEAR(static_cast<double>(*methods[0].between_hosts_bytes),
              static_cast<double>(methods[0].sent_bytes), 0.01 * static_cast<double>(methods[0].sent_bytes));
  EXPECT_EQ(methods[6].name, "zero_stage 3, groups of 2");
  EXPECT_LT(*methods[6].between_hosts_bytes, *methods[3].between_hosts_bytes / 3);
  EXPECT_TRUE(contains(format_rank_methods(methods, false), "between hosts"));
  EXPECT_EQ(to_json(methods, false)[6]["between_hosts_bytes_in_step"], *methods[6].between_hosts_bytes);
}

TEST_F(RankedSession, AMethodThatTheRunCannotHaveSaysWhy) {
  SessionOptions clipped = options(4, 0);
  clipped.step.update_in_backward = true;  // which no clipping allows
  const auto methods = compare_rank_methods(model_, clipped, [](const Session&) { return StepTime{}; });
  EXPECT_NE(methods[1].refusal.find("max_grad_norm"), std::string::npos) << methods[1].refusal;
  EXPECT_TRUE(to_json(methods, true)[1].contains("refusal"));
  EXPECT_NE(format_rank_methods(methods, true).find(methods[1].refusal), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
