#include "data/next_token_source.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "data/batch.h"
#include "data/shard_testing.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

using Ints = std::vector<int32_t>;
using Rows = Dataset::Rows;

// What the packer makes of the samples, in their order.
struct Packed {
  Packed(const Dataset& dataset, BatchOptions options) {
    options.micro_batch_size = dataset.size();
    const BatchCapacity capacity = micro_batch_capacity(dataset, options);
    bytes.assign(static_cast<size_t>(micro_batch_bytes(capacity, dataset.label_shape())), std::byte{0xa5});
    batch = lay_out_micro_batch(bytes, capacity, dataset.label_shape());
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < dataset.size(); ++i) samples.push_back(i);
    pack_micro_batch(dataset, samples, 0, options, batch);
  }
  Ints column(BatchColumn column) const {
    const auto values = batch.ints(column);
    return {values.begin(), values.begin() + batch.count(batch_column_info(column).axis)};
  }

  std::vector<std::byte> bytes;
  MicroBatch batch;
};

Ints packed_labels(const Dataset& dataset, const BatchOptions& options = {.token_multiple = 1}) {
  return Packed(dataset, options).column(BatchColumn::kTokenLabels);
}

// Two samples, the second of three documents.
Dataset samples(bool has_labels = false) {
  Dataset::NamedColumns columns = {{"input_ids", Rows{{5, 6, 7}, {8, 9, 10, 11, 12, 13}}},
                                   {"position_ids", Rows{{0, 1, 2}, {0, 1, 0, 0, 1, 2}}}};
  if (has_labels) columns.emplace_back("labels", Rows{{-100, 6, -100}, {8, 109, -100, -100, 112, 113}});
  return Dataset::from_columns(columns);
}

TEST(NextToken, ATokenHasTheLabelOfTheOneBehindItInItsDocument) {
  const Dataset dataset = Dataset::next_token(samples());
  EXPECT_EQ(dataset.label_shape(), (LabelShape{LabelKind::kNextToken}));
  EXPECT_EQ(packed_labels(dataset), (Ints{6, 7, -100, 9, -100, -100, 12, 13, -100}));
  EXPECT_EQ(dataset.target_items(0), 2);
  EXPECT_EQ(dataset.target_items(1), 3);
  EXPECT_EQ(dataset.token_labels(1), dataset.input_ids(1)) << "not moved";
  EXPECT_EQ(packed_labels(Dataset::next_token(dataset)), packed_labels(dataset));
  EXPECT_EQ(packed_labels(dataset, {.token_multiple = 4, .pad_to_max_length = 7}),
            (Ints{6, 7, -100, -100, -100, -100, -100, 9, -100, -100, 12, 13, -100, -100, -100, -100}));
}

// As Hugging Face's labels, which its models move: the first of a document is nobody's target.
TEST(NextToken, RowsOfLabelsAreMovedWhilePacking) {
  const Dataset dataset = Dataset::next_token(samples(true));
  EXPECT_EQ(packed_labels(dataset), (Ints{6, -100, -100, 109, -100, -100, 112, 113, -100}));
  EXPECT_EQ(dataset.target_items(0), 1);
  EXPECT_EQ(dataset.target_items(1), 3);
  EXPECT_EQ(packed_labels(samples(true)), (Ints{-100, 6, -100, 8, 109, -100, -100, 112, 113}))
      << "labels of tokens stay where they are";
}

TEST(NextToken, KeepsNothingOfItsOwn) {
  for (const bool has_labels : {false, true}) {
    const Dataset plain = samples(has_labels);
    const Dataset dataset = Dataset::next_token(plain);
    EXPECT_EQ(dataset.memory_bytes(), plain.memory_bytes());
    EXPECT_EQ(dataset.facts().longest_document, 3);
    EXPECT_EQ(dataset.facts().most_documents, 3);
    EXPECT_NE(dataset.content_hash(), plain.content_hash());
  }
  EXPECT_NE(Dataset::next_token(samples()).content_hash(), Dataset::next_token(samples(true)).content_hash());
}

TEST(NextToken, OfFilesIsThatOfMemory) {
  const Dataset memory = Dataset::from_columns(
      {{"input_ids", Rows{{5, 6, 7}, {8}, {9, 70000}}}, {"labels", Rows{{5, -100, 7}, {8}, {-100, 3}}}});
  const TestDirectory directory;
  std::vector<std::string> names;
  const Dataset files = in_shards(memory, directory.path(), names, 1);
  EXPECT_EQ(names.size(), 3U);
  const Dataset expected = Dataset::next_token(memory);
  const Dataset found = Dataset::next_token(files);
  EXPECT_EQ(packed_labels(expected), (Ints{-100, 7, -100, -100, 3, -100}));
  EXPECT_EQ(packed_labels(found), packed_labels(expected));
  EXPECT_EQ(found.content_hash(), expected.content_hash());
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(found.target_items(i), expected.target_items(i)) << i;
}

TEST(NextToken, OfSamplesForPlansAndBenchmarks) {
  const Dataset alike = Dataset::alike(int64_t{1} << 40, 3, {LabelKind::kNextToken});
  EXPECT_EQ(alike.distinct_size(), 1);
  EXPECT_EQ(alike.target_items((int64_t{1} << 40) - 1), 2);
  EXPECT_LT(alike.memory_bytes(), 100);
  const Dataset random =
      Dataset::random_tokens({.count = 4, .length = 6, .num_labels = 0, .label_kind = LabelKind::kNextToken});
  const Ints ids = random.input_ids(3);
  const Ints labels = packed_labels(random);
  EXPECT_EQ(Ints(labels.begin() + 18, labels.end()), (Ints{ids[1], ids[2], ids[3], ids[4], ids[5], -100}));
  EXPECT_EQ(random.input_ids(3), Dataset::random_tokens({.count = 4, .length = 6}).input_ids(3));
}

TEST(NextToken, RefusesOtherLabels) {
  const Dataset classes =
      Dataset::from_columns({{"input_ids", Rows{{5, 6}}}, {"labels", std::vector<int64_t>{1}}});
  EXPECT_TRUE(contains(message_of<UserError>([&] { Dataset::next_token(classes); }),
                       "[next_token] expected samples without labels or with one for each token"));
  const Dataset decoder =
      Dataset::from_columns({{"input_ids", Rows{{5, 6}}}, {"decoder_input_ids", Rows{{5}}}});
  EXPECT_TRUE(contains(message_of<UserError>([&] { Dataset::next_token(decoder); }),
                       "[next_token] expected samples without decoder_input_ids"));
}

}  // namespace
}  // namespace shoehorn
