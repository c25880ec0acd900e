#include "train/step_share.h"

#include <gtest/gtest.h>

#include "session/session.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

struct Walk {
  double first = -1;
  double last = -1;
};

// Goes through the nodes of one run of a program; shares must not fall.
Walk walk(StepShare& share, const std::vector<Program>& programs, size_t index) {
  Walk seen;
  for (size_t node = 0; node < programs[index].nodes().size(); ++node) {
    const auto at = share.before(ProgramId{static_cast<int32_t>(index)}, node);
    EXPECT_TRUE(at.has_value());
    if (!at) break;
    EXPECT_GE(*at, seen.last);
    if (node == 0) seen.first = *at;
    seen.last = *at;
  }
  return seen;
}

std::optional<size_t> index_of(const std::vector<Program>& programs, ProgramKind kind) {
  for (size_t i = 0; i < programs.size(); ++i)
    if (programs[i].kind() == kind) return i;
  return std::nullopt;
}

SessionOptions options_for(int64_t micro_batches) {
  SessionOptions options;
  options.train = {64, 4, 20};
  options.evaluation = options.train;
  options.step.gradient_accumulation_steps = micro_batches;
  return options;
}

TEST(StepShare, OneProgramIsTheStep) {
  const BertForSequenceClassification model(tiny_bert());
  const Session session(model, options_for(1));
  const std::vector<Program>& programs = session.family().programs;
  StepShare share(session.family());
  for (int step = 0; step < 2; ++step) {
    share.begin_step(1);
    const Walk seen = walk(share, programs, *index_of(programs, ProgramKind::kTrainStep));
    EXPECT_EQ(seen.first, 0);
    EXPECT_GT(seen.last, 0.9);
  }
  const std::optional<size_t> evaluation = index_of(programs, ProgramKind::kEvaluate);
  ASSERT_TRUE(evaluation);
  EXPECT_FALSE(share.before(ProgramId{static_cast<int32_t>(*evaluation)}, 0));
}

TEST(StepShare, MicroBatchesAddUp) {
  const BertForSequenceClassification model(tiny_bert());
  const Session session(model, options_for(3));
  const std::vector<Program>& programs = session.family().programs;
  StepShare share(session.family());
  for (const int64_t micro_batches : {3, 2}) {
    share.begin_step(micro_batches);
    double last = walk(share, programs, *index_of(programs, ProgramKind::kMicroBatchFirst)).last;
    for (int64_t m = 1; m < micro_batches; ++m) {
      const Walk next = walk(share, programs, *index_of(programs, ProgramKind::kMicroBatchNext));
      EXPECT_GE(next.first, last);
      EXPECT_NEAR(next.first, static_cast<double>(m) / static_cast<double>(micro_batches), 0.05);
      last = next.last;
    }
    const Walk update = walk(share, programs, *index_of(programs, ProgramKind::kUpdate));
    EXPECT_GE(update.first, last);
    EXPECT_LE(update.last, 1);
    EXPECT_GT(update.first, 0.9);
  }
}

}  // namespace
}  // namespace shoehorn
