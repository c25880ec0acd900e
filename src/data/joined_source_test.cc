#include "data/joined_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error_testing.h"
#include "data/batch.h"
#include "data/sampler.h"
#include "data/shard_testing.h"
#include "data/test_support.h"
#include "data/window_iterator.h"

namespace shoehorn {
namespace {

using Order = std::vector<int64_t>;

// Rows of `count` samples of 1, 2, … `longest` tokens, all of which are `id`.
Dataset rows_of(int64_t count, int64_t longest, int64_t id) {
  Dataset::Rows rows;
  for (int64_t i = 0; i < count; ++i) rows.emplace_back(static_cast<size_t>(i % longest + 1), id);
  return Dataset::from_columns({{"input_ids", rows}});
}

Dataset mixed(const std::vector<Dataset>& sets, const std::vector<double>& weights,
              StoppingStrategy strategy = StoppingStrategy::kFirstExhausted) {
  std::vector<WeightedDataset> weighted;
  for (size_t i = 0; i < sets.size(); ++i)
    weighted.push_back({.name = fmt::format("set {}", i), .dataset = sets[i], .weight = weights[i]});
  return interleave_datasets(weighted, strategy);
}

Order order_of(Sampler& sampler, int64_t epoch) {
  Order order(static_cast<size_t>(sampler.size()));
  sampler.epoch_order(epoch, order);
  return order;
}

// The draws of one set, in order, numbered within the set.
Order draws_of(const Order& order, int64_t first, int64_t count) {
  Order draws;
  for (const int64_t sample : order)
    if (sample >= first && sample < first + count) draws.push_back(sample - first);
  return draws;
}

TEST(JoinedSource, HasTheSamplesOfAllEndToEnd) {
  const Dataset first = Dataset::from_columns(
      {{"input_ids", Dataset::Rows{{1, 2, 3}, {4}}}, {"labels", Dataset::Rows{{1, -100, 3}, {4}}}});
  const Dataset second = Dataset::from_columns({{"input_ids", Dataset::Rows{{5, 6}, {7, 8}, {9, 10}}},
                                                {"position_ids", Dataset::Rows{{0, 1}, {0, 0}, {0, 1}}},
                                                {"labels", Dataset::Rows{{5, 6}, {7, 8}, {9, -100}}}});
  const TestDirectory directory;
  std::vector<std::string> names;
  for (const Dataset& front : {first, in_shards(first, directory.path(), names)}) {
    const Dataset joined = concatenate_datasets({front, second});
    EXPECT_EQ(joined.size(), 5);
    EXPECT_EQ(joined.epoch_size(), 5);
    EXPECT_EQ(joined.lengths(), (std::vector<int32_t>{3, 1, 2, 2, 2}));
    EXPECT_EQ(joined.input_ids(1), (std::vector<int32_t>{4}));
    EXPECT_EQ(joined.input_ids(4), (std::vector<int32_t>{9, 10}));
    EXPECT_EQ(joined.token_labels(0), (std::vector<int32_t>{1, -100, 3}));
    EXPECT_EQ(joined.target_items(0), 2);
    EXPECT_EQ(joined.target_items(4), 1);
    EXPECT_EQ(joined.source().token_label(3, 1), 8);
    EXPECT_EQ(joined.source().document_count(3), 2);
    EXPECT_EQ(joined.source().document_length(3, 1), 1);
    EXPECT_EQ(joined.token_count(), 10);
    EXPECT_EQ(joined.max_length(), 3);
    EXPECT_EQ(joined.facts().of(TokenStream::kInput).shortest, 1);
    EXPECT_EQ(joined.facts().of(TokenStream::kInput).largest_id, 10);
    EXPECT_EQ(joined.facts().most_documents, 2);
    EXPECT_EQ(joined.facts().longest_document, 3);
    EXPECT_EQ(joined.memory_bytes(), front.memory_bytes() + second.memory_bytes());
  }
}

TEST(JoinedSource, ItsHashIsOfContentAndShares) {
  const Dataset first = rows_of(3, 2, 1);
  const Dataset second = rows_of(4, 2, 2);
  const std::string hash = mixed({first, second}, {1, 3}).content_hash();
  EXPECT_EQ(mixed({first, second}, {0.25, 0.75}).content_hash(), hash) << "the same shares";
  EXPECT_NE(mixed({first, second}, {1, 2}).content_hash(), hash);
  EXPECT_NE(mixed({first, rows_of(4, 2, 3)}, {1, 3}).content_hash(), hash);
  EXPECT_NE(mixed({first, second}, {1, 3}, StoppingStrategy::kAllExhausted).content_hash(), hash);
  EXPECT_NE(concatenate_datasets({first, second}).content_hash(), hash);
}

TEST(JoinedSource, RefusesWhatDoesNotGoTogether) {
  const Dataset rows = rows_of(3, 2, 1);
  const Dataset classes = Dataset::random_tokens({.count = 3, .length = 2});
  EXPECT_TRUE(contains(refusal_of([&] { mixed({rows, classes}, {1, 1}); }), "[set 1] expected the labels"));
  EXPECT_TRUE(contains(refusal_of([&] { mixed({rows, Dataset()}, {1, 1}); }), "[set 1] expected samples"));
  EXPECT_TRUE(
      contains(refusal_of([&] { mixed({rows, rows}, {1, 0}); }), "[set 1] expected a weight above 0, got 0"));
  EXPECT_TRUE(contains(refusal_of([&] { mixed({rows, mixed({rows}, {1})}, {1, 1}); }), "got a mixture"));
  EXPECT_TRUE(contains(refusal_of([] { mixed({}, {}); }), "[interleave_datasets] expected data sets"));
  EXPECT_TRUE(contains(refusal_of([] { concatenate_datasets({}); }), "[concatenate_datasets]"));
}

// Each set goes through all of its samples before one comes again, from one epoch into the next.
TEST(SamplerOfAMixture, ASetIsUsedUpBeforeItBeginsAnew) {
  for (const auto strategy : {StoppingStrategy::kFirstExhausted, StoppingStrategy::kAllExhausted}) {
    const Dataset dataset = mixed({rows_of(13, 3, 1), rows_of(40, 3, 2)}, {0.6, 0.4}, strategy);
    ASSERT_EQ(dataset.size(), 53);
    Sampler sampler({.seed = 7}, *dataset.source().mixture());
    ASSERT_EQ(sampler.size(), dataset.epoch_size());
    Order all;
    for (int64_t epoch = 0; epoch < 6; ++epoch) {
      const Order order = order_of(sampler, epoch);
      all.insert(all.end(), order.begin(), order.end());
    }
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 13}, {13, 40}}) {
      const Order draws = draws_of(all, first, count);
      ASSERT_GT(std::ssize(draws), 0);
      Order previous;
      for (int64_t at = 0; at + count <= std::ssize(draws); at += count) {
        const Order pass(draws.begin() + at, draws.begin() + at + count);
        Order sorted = pass;
        std::ranges::sort(sorted);
        Order every(static_cast<size_t>(count));
        std::iota(every.begin(), every.end(), 0);
        EXPECT_EQ(sorted, every);
        EXPECT_NE(pass, previous) << "another permutation";
        previous = pass;
      }
    }
    Sampler alone({.seed = 7}, 13);
    const Order first_set = draws_of(all, 0, 13);
    EXPECT_EQ(Order(first_set.begin(), first_set.begin() + 13), order_of(alone, 0));
  }
}

// So that a run resumes in any epoch.
TEST(SamplerOfAMixture, AnEpochFollowsFromSeedAndNumberAlone) {
  const Dataset dataset = mixed({rows_of(11, 3, 1), rows_of(30, 3, 2), rows_of(17, 3, 3)}, {5, 2, 1});
  const Mixture& mixture = *dataset.source().mixture();
  Sampler on({.seed = 3}, mixture);
  std::vector<Order> epochs;
  for (int64_t epoch = 0; epoch < 5; ++epoch) epochs.push_back(order_of(on, epoch));
  for (const int64_t epoch : {4, 1, 3, 0, 0}) {
    Sampler fresh({.seed = 3}, mixture);
    EXPECT_EQ(order_of(fresh, epoch), epochs[static_cast<size_t>(epoch)]);
    EXPECT_EQ(order_of(on, epoch), epochs[static_cast<size_t>(epoch)]);
  }
  Sampler other({.seed = 3, .data_seed = 4}, mixture);
  EXPECT_NE(order_of(other, 0), epochs[0]);
  Sampler sequential({.strategy = SamplingStrategy::kSequential}, mixture);
  const Order draws = draws_of(order_of(sequential, 0), 0, 11);
  EXPECT_TRUE(std::ranges::is_sorted(draws));
  EXPECT_TRUE(contains(refusal_of([&] { Sampler({.strategy = SamplingStrategy::kGroupByLength}, mixture); }),
                       "[train_sampling_strategy] expected random or sequential"));
}

// The micro-batches of two ranks are those of one process, and there is room where the longest sample of a small set
// comes again and again.
TEST(WindowsOfAMixture, RanksDealFromOneOrder) {
  // Four of a batch's six samples are of this set: more tokens than its two with the longest four of the other.
  const Dataset small_set = Dataset::from_columns(
      {{"input_ids", Dataset::Rows{std::vector<int64_t>(19, 1), std::vector<int64_t>(20, 1)}}});
  const Dataset dataset =
      Dataset::next_token(mixed({small_set, rows_of(23, 5, 2)}, {3, 1}, StoppingStrategy::kAllExhausted));
  ASSERT_NE(dataset.source().mixture(), nullptr);
  ASSERT_GT(dataset.epoch_size(), dataset.size());
  const auto ids_of = [&](int32_t rank, int32_t world_size) {
    BatchOptions options;
    options.micro_batch_size = 6;
    options.gradient_accumulation_steps = 2;
    options.rank = rank;
    options.world_size = world_size;
    WindowIterator windows(dataset, Sampler({.seed = 1}, *dataset.source().mixture()), options);
    std::vector<std::byte> memory(
        static_cast<size_t>(micro_batch_bytes(windows.capacity(), dataset.label_shape())));
    std::vector<std::vector<int32_t>> batches;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      windows.start_epoch(epoch);
      for (Window window; windows.next_window(window);) {
        for (int64_t i = 0; i < window.own_micro_batches; ++i) {
          MicroBatch batch = lay_out_micro_batch(memory, windows.capacity(), dataset.label_shape());
          windows.load(i, batch);
          const auto ids = batch.ints(BatchColumn::kInputIds);
          batches.emplace_back(ids.begin(), ids.begin() + batch.tokens_padded);
        }
      }
    }
    return batches;
  };
  const auto one = ids_of(0, 1);
  const auto first = ids_of(0, 2);
  const auto second = ids_of(1, 2);
  size_t at = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    ASSERT_LT(at, one.size());
    EXPECT_EQ(first[i], one[at++]);
    // A rank without a micro-batch of its own in the last window runs another's.
    if (i < second.size() && at < one.size() && second[i] == one[at]) ++at;
  }
  EXPECT_EQ(at, one.size());
}

}  // namespace
}  // namespace shoehorn
