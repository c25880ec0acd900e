#include "train/batch_feed.h"

#include <gtest/gtest.h>

#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;

TEST(BatchFeed, FillsTheInputsInPlace) {
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options;
  options.train = {64, 4, 20};
  Session session(model, options);
  session.reserve();
  const BatchStorages& storages = session.family().train_batches[0];
  MicroBatch batch = micro_batch_in(session.executor(), storages, session.family().train_capacity);
  EXPECT_EQ(batch.input_ids.size(), 64U);
  EXPECT_EQ(batch.sequence_start.size(), 4U);
  EXPECT_EQ(batch.input_ids.data(), session.executor().storage_as<int32_t>(storages.input_ids));
  EXPECT_EQ(batch.class_labels.data(), session.executor().storage_as<int32_t>(storages.labels));

  const Dataset data = Dataset::from_columns(
      {{"input_ids", Dataset::Rows{{7, 8, 9}, {4}, {5, 6}}}, {"labels", std::vector<int64_t>{2, 0, 1}}});
  const std::vector<int64_t> samples = {2, 0};
  // Samples 10 and 11 of the effective batch: earlier micro-batches had ten.
  pack_micro_batch(data, samples, 10, {.token_multiple = kTokenMultiple}, batch);
  std::vector<int64_t> counts = {99};
  finish_micro_batch(session.executor(), storages, batch, counts);
  EXPECT_EQ(counts, (std::vector<int64_t>{99, 16, 2}));
  const auto* sample = session.executor().storage_as<int32_t>(storages.sequence_sample);
  const auto* position = session.executor().storage_as<int32_t>(storages.sequence_position);
  EXPECT_EQ(sample[0], 10);
  EXPECT_EQ(sample[1], 11);
  EXPECT_EQ(position[0], 0);
  EXPECT_EQ(position[1], 0);
  EXPECT_EQ(session.executor().storage_as<int32_t>(storages.input_ids)[2], 7);
}

}  // namespace
}  // namespace shoehorn
