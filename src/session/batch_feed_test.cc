#include "session/batch_feed.h"

#include <gtest/gtest.h>

#include "exec/executor_testing.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

TEST(BatchFeed, FillsTheInputsInPlace) {
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options;
  options.train = {64, 4, 20};
  Session session(model, options);
  session.reserve();
  const BatchInputs& inputs = session.family().train_batches[0];
  const auto in_arena = [&](BatchColumn column) {
    return session.executor().host_storage(inputs.find(column)).data();
  };
  const auto values_in = [&](BatchColumn column) {
    return values_of<int32_t>(session.executor(), inputs.find(column));
  };
  MicroBatchInputs filled(session.executor(), inputs);
  MicroBatch& batch = filled.batch();
  EXPECT_EQ(batch.ints(BatchColumn::kInputIds).size(), 64U);
  EXPECT_EQ(batch.ints(BatchColumn::kSequenceStart).size(), 4U);
  EXPECT_EQ(batch.bytes(BatchColumn::kInputIds).data(), in_arena(BatchColumn::kInputIds));
  EXPECT_EQ(batch.bytes(BatchColumn::kClassLabels).data(), in_arena(BatchColumn::kClassLabels));
  // No program of it reads any.
  EXPECT_FALSE(batch.has(BatchColumn::kValueLabels));
  EXPECT_FALSE(batch.has(BatchColumn::kTokenLabels));

  const Dataset data = Dataset::from_columns(
      {{"input_ids", Dataset::Rows{{7, 8, 9}, {4}, {5, 6}}}, {"labels", std::vector<int64_t>{2, 0, 1}}});
  const std::vector<int64_t> samples = {2, 0};
  // Samples 10 and 11 of the effective batch: earlier micro-batches had ten.
  pack_micro_batch(data, samples, 10, {.token_multiple = kTokenMultiple}, batch);
  filled.send();
  std::vector<int64_t> counts = {99};
  append_counts(batch, counts);
  EXPECT_EQ(counts, (std::vector<int64_t>{99, 16, 2, 0}));
  EXPECT_EQ(values_in(BatchColumn::kSequenceSample)[0], 10);
  EXPECT_EQ(values_in(BatchColumn::kSequenceSample)[1], 11);
  EXPECT_EQ(values_in(BatchColumn::kInputIds)[2], 7);
}

}  // namespace
}  // namespace shoehorn
