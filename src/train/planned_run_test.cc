#include "train/planned_run.h"

#include <gtest/gtest.h>

#include "base/error_testing.h"
#include "base/memory_limit.h"
#include "base/proc_file.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;

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

TEST(PlannedRunTest, MoreThanMayBeLockedIsRefusedWithTheLimitThatItNeeds) {
  check_lockable(4096, 4096);
  const std::string error = refusal_of([] { check_lockable((int64_t{3} << 20) + 1, int64_t{1} << 20); });
  EXPECT_TRUE(contains(error, "[--lock_memory] expected that 3.00 MiB may be locked in memory, got 1.00 MiB"))
      << error;
  EXPECT_TRUE(contains(error, "`ulimit -l 3073`")) << error;
}

}  // namespace
}  // namespace shoehorn
