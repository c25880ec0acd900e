#include "data/part_source.h"

#include <gtest/gtest.h>

#include "data/dataset.h"
#include "data/joined_source.h"

namespace shoehorn {
namespace {

Dataset part(const Dataset& whole, int64_t begin, int64_t end) {
  return Dataset(std::make_shared<const PartSource>(whole.shared_source(), begin, end));
}

// As if the samples alone had been loaded: also by the hash that a checkpoint keeps.
TEST(PartSource, IsADataSetOfItsSamples) {
  const Dataset::Rows ids = {{1, 2, 3, 4, 5}, {6, 7}, {8, 9, 10}, {11}};
  const Dataset::Rows types = {{0, 0, 0, 1, 1}, {0, 1}, {0, 0, 1}, {0}};
  const Dataset whole = Dataset::from_columns(
      {{"input_ids", ids}, {"token_type_ids", types}, {"labels", std::vector<int64_t>{3, 0, 2, 1}}});
  const Dataset middle = part(whole, 1, 3);
  const Dataset expected = Dataset::from_columns({{"input_ids", Dataset::Rows{ids[1], ids[2]}},
                                                  {"token_type_ids", Dataset::Rows{types[1], types[2]}},
                                                  {"labels", std::vector<int64_t>{0, 2}}});
  EXPECT_EQ(middle.content_hash(), expected.content_hash());
  EXPECT_EQ(middle.size(), 2);
  EXPECT_EQ(middle.token_count(), 5);
  EXPECT_EQ(middle.max_length(), 3);
  EXPECT_EQ(middle.facts().of(TokenStream::kInput).shortest, 2);
  EXPECT_EQ(middle.facts().longest_document, 3);
  EXPECT_EQ(middle.lengths(), expected.lengths());
  EXPECT_EQ(middle.token_type_ids(1), types[2].empty() ? std::vector<int32_t>() : expected.token_type_ids(1));
  EXPECT_EQ(middle.class_label(1), 2);
}

// What has to be read for a hash is told, of each source that is read for it.
TEST(PartSource, TellsOfTheBytesThatAreHashed) {
  const Dataset whole = Dataset::random_tokens({.count = 6000, .length = 100});
  const Dataset half = part(whole, 0, 3000);
  using Calls = std::vector<std::pair<int64_t, int64_t>>;
  const auto told_of = [](const Dataset& dataset) {
    Calls calls;
    EXPECT_EQ(dataset.content_hash([&](int64_t done, int64_t bytes) { calls.emplace_back(done, bytes); }),
              dataset.content_hash());
    return calls;
  };
  const Calls once = told_of(half);
  ASSERT_EQ(once.size(), 2U) << "a mebibyte, and all";
  EXPECT_GE(once[0].first, int64_t{1} << 20);
  EXPECT_EQ(once[0].second, 3000 * 100 * 4);
  EXPECT_EQ(once[1], std::pair(once[0].second, once[0].second));
  Calls twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(told_of(concatenate_datasets({half, half})), twice);
}

TEST(PartSource, HasItsShareOfTheMemory) {
  const Dataset whole = Dataset::random_tokens({.count = 10, .length = 7});
  EXPECT_EQ(part(whole, 0, 3).memory_bytes() + part(whole, 3, 10).memory_bytes(), whole.memory_bytes());
}

TEST(PartSource, HasLabelsOfEveryKind) {
  const Dataset values = Dataset::from_columns(
      {{"input_ids", Dataset::Rows{{1}, {2}, {3}}}, {"labels", Dataset::ValueRows{{1, 0}, {0, 1}, {1, 1}}}});
  EXPECT_EQ(part(values, 1, 3).value_labels(0), (std::vector<float>{0, 1}));
  const Dataset tokens = Dataset::from_columns(
      {{"input_ids", Dataset::Rows{{1, 2}, {3, 4}}}, {"labels", Dataset::Rows{{5, 6}, {7, -100}}}});
  EXPECT_EQ(part(tokens, 1, 2).token_labels(0), (std::vector<int32_t>{7, -100}));
  EXPECT_EQ(part(tokens, 1, 2).target_items(0), 1);
}

}  // namespace
}  // namespace shoehorn
