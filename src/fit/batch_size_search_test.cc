#include "fit/batch_size_search.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "analysis/analysis_testing.h"
#include "base/stop_request.h"
#include "exec/null/null_backend.h"
#include "model/task.h"
#include "models/bert.h"
#include "train/planned_run.h"

namespace shoehorn {
namespace {

// int(0.9 * size) in Python, again and again.
TEST(BatchSizes, SizesAreThoseOfAccelerate) {
  std::vector<int64_t> sizes = {64};
  while (sizes.back() > 0) sizes.push_back(next_batch_size(sizes.back()));
  EXPECT_EQ(sizes, (std::vector<int64_t>{64, 57, 51, 45, 40, 36, 32, 28, 25, 22, 19, 17, 15,
                                         13, 11, 9,  8,  7,  6,  5,  4,  3,  2,  1,  0}));
}

class BatchSizeSearch : public testing::Test {
 protected:
  static constexpr int64_t kBesidesArenas = int64_t{20} << 20;
  static constexpr int64_t kOfCaller = int64_t{3} << 20;

  BatchSizeSearch() : model_(test_support::two_layer_bert()) {
    data_ = Dataset::alike(16, 128, model_.task().label_shape());
    args_.per_device_train_batch_size = 16;
    args_.gradient_accumulation_steps = 2;
    args_.max_seq_length = 128;
  }

  SessionOfArguments options_of(bool heeds_stops = true) const {
    return [this, heeds_stops](const TrainingArguments& args) {
      SessionOptions options = session_options_of(model_, args, {&data_, nullptr});
      options.backend = backend_;
      options.executor.heeds_stops = heeds_stops;
      return options;
    };
  }

  // Of the whole process with micro-batches of so many samples.
  int64_t bytes_with(int64_t size) const {
    TrainingArguments args = args_;
    set_micro_batch_size(args, size);
    return Session(model_, options_of()(args)).plan().arena_bytes() + kBesidesArenas + kOfCaller;
  }

  int64_t found_within(int64_t budget_bytes, bool heeds_stops = true) const {
    return find_smaller_batch_size(model_, options_of(heeds_stops), args_,
                                   {.budget_bytes = budget_bytes, .caller_bytes = kOfCaller});
  }

  BertForSequenceClassification model_;
  Dataset data_;
  TrainingArguments args_;
  std::shared_ptr<const Backend> backend_ = make_null_backend({.process_overhead_bytes = kBesidesArenas});
};

TEST_F(BatchSizeSearch, FindsTheFirstThatFits) {
  for (const int64_t size : {14, 12, 10, 9, 8, 2, 1}) {
    EXPECT_EQ(found_within(bytes_with(size)), size);
    if (size == 1) continue;
    EXPECT_LT(found_within(bytes_with(size) - 1), size);
  }
  EXPECT_EQ(found_within(std::numeric_limits<int64_t>::max()), 14) << "below the one that was asked for";
  EXPECT_EQ(found_within(0), 1) << "none fits";
}

TEST_F(BatchSizeSearch, KeepsAnEffectiveBatch) {
  args_.effective_batch_size = 32;
  EXPECT_EQ(found_within(std::numeric_limits<int64_t>::max()), 8)
      << "of 14 and less the first that divides it";
  EXPECT_EQ(found_within(bytes_with(8)), 8);
  EXPECT_EQ(found_within(bytes_with(8) - 1), 4);
  EXPECT_EQ(found_within(bytes_with(2) - 1), 1);
}

TEST_F(BatchSizeSearch, IsStoppedWhereNoRankWaits) {
  request_stop();
  EXPECT_THROW(found_within(0), Stopped);
  EXPECT_EQ(found_within(0, false), 1) << "ranks agree on a stop";
  clear_stop_request();
}

}  // namespace
}  // namespace shoehorn
