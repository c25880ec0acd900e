#include "train/planned_run.h"

#include <gtest/gtest.h>

#include "base/error_testing.h"
#include "base/memory_limit.h"
#include "base/proc_file.h"
#include "exec/null/null_backend.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

int64_t locked_bytes() {
  return bytes_of_key("/proc/self/status", "VmLck").value_or(0);
}

TEST(PlannedRunTest, LocksItsArenasOnRequest) {
  const BertForSequenceClassification model(tiny_bert());
  const Dataset samples = tiny_samples(8, 1);
  for (const bool locks : {false, true}) {
    TrainingArguments args = quiet_arguments();
    args.lock_memory = locks;
    PlannedRun run(model, args, {.train = &samples});
    if (lockable_memory_bytes() < 2 * run.forecast().arena_bytes())
      GTEST_SKIP() << "`ulimit -l` leaves too little";
    const int64_t before = locked_bytes();
    run.reserve();
    const int64_t locked = locked_bytes() - before;
    if (locks) {
      EXPECT_GE(locked, run.forecast().arena_bytes());
    } else {
      EXPECT_EQ(locked, 0);
    }
    EXPECT_EQ(run.executor().resident_arena_bytes(), run.forecast().arena_bytes())
        << "the plan's bytes either way";
  }
}

// A plan of ranks that are not there has the budget that each of them would have.
TEST(PlannedRunTest, ARankThatIsPlannedHasItsShareOfTheHost) {
  constexpr int64_t kAvailable = int64_t{1} << 34;
  const BertForSequenceClassification model(tiny_bert());
  const Dataset samples = tiny_samples(8, 1);
  const auto budget = [&](int64_t ranks, std::optional<int64_t> ranks_per_host) {
    TrainingArguments args = quiet_arguments();
    args.world_size = ranks;
    args.ranks_per_host = ranks_per_host;
    const PlannedRun run(
        model, args, {.train = &samples},
        {.backend = make_null_backend({.profile = {.threads = 4}, .available_memory_bytes = kAvailable})});
    return run.forecast().budget_bytes;
  };
  EXPECT_EQ(budget(1, {}), kAvailable);
  EXPECT_EQ(budget(4, {}), kAvailable / 4) << "one host has all";
  EXPECT_EQ(budget(5, {}), kAvailable) << "one host has no processors for all";
  EXPECT_EQ(budget(4, 2), kAvailable / 2);
  EXPECT_EQ(budget(4, 1), kAvailable);
  EXPECT_EQ(budget(2, 8), kAvailable / 2) << "a host with room for more";
}

TEST(PlannedRunTest, MoreThanMayBeLockedIsRefusedWithTheLimitThatItNeeds) {
  check_lockable(4096, 4096);
  const std::string error = refusal_of([] { check_lockable((int64_t{3} << 20) + 1, int64_t{1} << 20); });
  EXPECT_TRUE(contains(error, "[--lock_memory] expected that 3.00 MiB may be locked in memory, got 1.00 MiB"))
      << error;
  EXPECT_TRUE(contains(error, "`ulimit -l 3073`")) << error;
}

}  // namespace
}  // namespace shoehorn
