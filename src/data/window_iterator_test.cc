#include "data/window_iterator.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/error.h"
#include "data/shard_testing.h"
#include "data/test_support.h"

namespace {

std::atomic<int64_t> allocations{0};

void* count_and_allocate(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) {
  return count_and_allocate(size);
}
void* operator new[](std::size_t size) {
  return count_and_allocate(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace shoehorn {
namespace {

// Samples that can be told apart by their class, which is their index.
Dataset indexed_dataset(const std::vector<int32_t>& lengths) {
  DatasetBuilder builder;
  std::vector<int32_t> labels;
  for (const int32_t length : lengths) {
    labels.push_back(static_cast<int32_t>(labels.size()));
    builder.add(std::vector<int32_t>(static_cast<size_t>(length), labels.back() + 1));
  }
  builder.set_class_labels(std::move(labels));
  return builder.finish();
}

std::vector<int32_t> some_lengths(size_t count) {
  std::vector<int32_t> lengths(count);
  for (size_t i = 0; i < count; ++i) lengths[i] = static_cast<int32_t>(i * 37 % 23 + 1);
  return lengths;
}

struct Memory {
  explicit Memory(const BatchCapacity& capacity, LabelShape labels = {LabelKind::kClass})
      : bytes(static_cast<size_t>(micro_batch_bytes(capacity, labels))),
        batch(lay_out_micro_batch(bytes, capacity, labels)) {}

  std::vector<std::byte> bytes;
  MicroBatch batch;
};

struct Staging {
  std::vector<std::byte> staging;
};
// With staging of its own, which outlives it.
struct StagedWindows : Staging, WindowIterator {
  template <class... Arguments>
  explicit StagedWindows(Arguments&&... arguments) : WindowIterator(std::forward<Arguments>(arguments)...) {
    staging.resize(static_cast<size_t>(staging_bytes()));
    stage_in(staging);
  }
};

using Windows = std::vector<std::vector<std::vector<int64_t>>>;  // windows of micro-batches of samples

// Order and sizes of windows equal those that the Trainer gives its model, epoch by epoch, for each strategy,
// with drop_last, short windows and after resuming; without and with the worker.
TEST(WindowIterator, EqualsTheTrainer) {
  for (const auto& golden : read_golden("sampler")) {
    const auto lengths = golden["lengths"].get<std::vector<int32_t>>();
    const Dataset dataset = indexed_dataset(lengths);
    const BatchOptions options{.micro_batch_size = golden["micro_batch_size"],
                               .gradient_accumulation_steps = golden["gradient_accumulation_steps"],
                               .drop_last = golden["drop_last"]};
    SamplerOptions order{.strategy = parse_sampling_strategy(golden["strategy"].get<std::string>()),
                         .seed = golden["seed"],
                         .group_size = options.micro_batch_size * options.gradient_accumulation_steps};
    if (!golden["data_seed"].is_null()) order.data_seed = golden["data_seed"].get<int64_t>();
    for (const int64_t workers : {0, 1}) {
      StagedWindows windows(dataset, Sampler(order, lengths), options, workers);
      const ResumePoint resume = windows.schedule().resume_point(golden["resume_after"]);
      Memory memory(windows.capacity());
      Windows ours;
      Window window;
      for (int64_t epoch = resume.epoch; epoch < 3; ++epoch) {
        for (windows.start_epoch(epoch, epoch == resume.epoch ? resume.update_step : 0);
             windows.next_window(window);) {
          auto& micro_batches = ours.emplace_back();
          for (int64_t i = 0; i < window.micro_batches; ++i) {
            windows.load(i, memory.batch);
            micro_batches.emplace_back(
                memory.batch.ints(BatchColumn::kClassLabels).begin(),
                memory.batch.ints(BatchColumn::kClassLabels).begin() + memory.batch.sequences);
          }
        }
      }
      EXPECT_EQ(ours, golden["windows"].get<Windows>())
          << golden["strategy"] << " n " << golden["n"] << " seed " << golden["seed"] << " workers "
          << workers;
    }
  }
}

TEST(WindowIterator, KnowsTheWholeWindowBeforeItsFirstMicroBatch) {
  Dataset::Rows ids(11);
  Dataset::Rows labels(11);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i].assign(i + 1, 3);
    labels[i].assign(i + 1, static_cast<int64_t>(i % 2 == 0 ? 7 : -100));
  }
  const Dataset dataset = Dataset::from_columns({{"input_ids", ids}, {"labels", labels}});
  const BatchOptions options{.micro_batch_size = 2, .gradient_accumulation_steps = 4, .token_multiple = 4};
  for (const int64_t workers : {0, 2}) {
    StagedWindows windows(dataset, Sampler({.strategy = SamplingStrategy::kSequential}, dataset.lengths()),
                          options, workers);
    EXPECT_EQ(windows.schedule().micro_batches_per_epoch(), 6);
    EXPECT_EQ(windows.schedule().steps_in(0), 2);
    Window window;
    EXPECT_FALSE(windows.next_window(window));
    windows.start_epoch(5);
    ASSERT_TRUE(windows.next_window(window));
    EXPECT_EQ(window.epoch, 5);
    EXPECT_EQ(window.micro_batches, 4);
    EXPECT_EQ(window.samples, 8);
    EXPECT_EQ(window.tokens, 36);
    EXPECT_EQ(window.target_items, 1 + 3 + 5 + 7);
    EXPECT_FALSE(window.last_of_epoch);
    ASSERT_TRUE(windows.next_window(window));
    EXPECT_EQ(window.update_step, 1);
    EXPECT_EQ(window.micro_batches, 2);
    EXPECT_EQ(window.samples, 3);
    EXPECT_EQ(window.target_items, 9 + 11);
    EXPECT_TRUE(window.last_of_epoch);
    Memory memory(windows.capacity(), {LabelKind::kToken});
    windows.load(1, memory.batch);
    EXPECT_EQ(memory.batch.sequences, 1);
    EXPECT_EQ(memory.batch.ints(BatchColumn::kTokenSample)[0], 2);  // counted over the window
    EXPECT_THROW(windows.load(2, memory.batch), InternalError);
    EXPECT_FALSE(windows.next_window(window));
    EXPECT_FALSE(windows.next_window(window));
    EXPECT_THROW(windows.load(0, memory.batch), InternalError);
  }
}

// Ranks deal the micro-batches of a window in turn: together they have those of one rank, with the same numbers of sequences
// and the same counts over the window. A rank that has none runs another's, which does not count.
TEST(WindowIterator, RanksDealTheMicroBatches) {
  const auto lengths = some_lengths(26);
  const Dataset dataset = indexed_dataset(lengths);
  const BatchOptions whole{.micro_batch_size = 3, .gradient_accumulation_steps = 6};
  for (const int64_t workers : {0, 1}) {
    StagedWindows one(dataset, Sampler({}, lengths), whole, workers);
    std::vector<std::unique_ptr<StagedWindows>> ranks;
    for (int32_t rank = 0; rank < 4; ++rank) {
      BatchOptions own = whole;
      own.rank = rank;
      own.world_size = 4;
      ranks.push_back(std::make_unique<StagedWindows>(dataset, Sampler({}, lengths), own, workers));
      EXPECT_LE(ranks.back()->staging_bytes(), one.staging_bytes());
      ranks.back()->start_epoch(1);
    }
    Memory expected(one.capacity());
    Memory dealt(one.capacity());
    Window window, own;
    for (one.start_epoch(1); one.next_window(window);) {
      for (int32_t rank = 0; rank < 4; ++rank) {
        StagedWindows& windows = *ranks[static_cast<size_t>(rank)];
        ASSERT_TRUE(windows.next_window(own));
        EXPECT_EQ(own.micro_batches, window.micro_batches);
        EXPECT_EQ(own.samples, window.samples);
        EXPECT_EQ(own.tokens, window.tokens);
        EXPECT_EQ(own.target_items, window.target_items);
        if (rank < window.micro_batches) {
          EXPECT_EQ(own.target_weight, window.target_weight);
        } else {
          EXPECT_TRUE(std::isinf(own.target_weight)) << "what it runs is another's";
          EXPECT_EQ(own.own_micro_batches, 1);
        }
        for (int64_t i = 0; i < own.own_micro_batches; ++i) {
          windows.load(i, dealt.batch);
          const int64_t place = i * 4 + rank;
          one.load(place % window.micro_batches, expected.batch);
          ASSERT_EQ(dealt.batch.sequences, expected.batch.sequences);
          ASSERT_EQ(dealt.batch.tokens, expected.batch.tokens);
          const auto tokens = static_cast<size_t>(expected.batch.tokens);
          for (const BatchColumn column : {BatchColumn::kInputIds, BatchColumn::kTokenSample}) {
            EXPECT_TRUE(std::ranges::equal(dealt.batch.ints(column).first(tokens),
                                           expected.batch.ints(column).first(tokens)));
          }
        }
        EXPECT_THROW(windows.load(own.own_micro_batches, dealt.batch), InternalError);
      }
    }
    for (const auto& windows : ranks) EXPECT_FALSE(windows->next_window(own));
  }
}

// The same bytes with and without the worker, micro-batches read twice and backwards, epochs left in their
// middle.
class WindowIteratorPrefetch : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Stages, WindowIteratorPrefetch, testing::Values(1, 2, 3, 9, 40));

TEST_P(WindowIteratorPrefetch, TheWorkerChangesNothing) {
  const auto lengths = some_lengths(83);
  const Dataset dataset = indexed_dataset(lengths);
  const BatchOptions options{.micro_batch_size = 3, .gradient_accumulation_steps = 4};
  StagedWindows inline_windows(dataset, Sampler({}, lengths), options, 0);
  StagedWindows staged_windows(dataset, Sampler({}, lengths), options, 1, GetParam());
  EXPECT_EQ(inline_windows.staging_bytes(), 0);
  const int64_t windows_of_an_epoch = 7;
  EXPECT_EQ(staged_windows.staging_bytes(),
            std::min(GetParam(), windows_of_an_epoch) * 4 *
                micro_batch_bytes(staged_windows.capacity(), {LabelKind::kClass}));
  EXPECT_EQ(staged_windows.order_bytes(), 83 * 8);
  Memory a(inline_windows.capacity());
  Memory b(staged_windows.capacity());
  Window window;
  Window staged;
  for (int64_t round = 0; round < 60; ++round) {
    const int64_t first = round % 7;
    const int64_t leave_after = round % 5 == 0 ? round % 3 : 100;
    inline_windows.start_epoch(round, first);
    staged_windows.start_epoch(round, first);
    for (int64_t w = 0; w < leave_after && inline_windows.next_window(window); ++w) {
      ASSERT_TRUE(staged_windows.next_window(staged));
      ASSERT_EQ(window.update_step, staged.update_step);
      ASSERT_EQ(window.epoch, staged.epoch);
      ASSERT_EQ(window.tokens, staged.tokens);
      ASSERT_EQ(window.target_items, staged.target_items);
      for (int64_t k = 0; k < 2 * window.micro_batches; ++k) {
        const int64_t i = (2 * window.micro_batches - 1 - k) / 2;
        inline_windows.load(i, a.batch);
        staged_windows.load(i, b.batch);
        ASSERT_EQ(a.bytes, b.bytes) << "round " << round << " window " << window.update_step
                                    << " micro-batch " << i;
        ASSERT_EQ(a.batch.tokens_padded, b.batch.tokens_padded);
      }
    }
  }
}

// A ramp's windows hold the samples of the run without one, in the same order, with and without the worker.
TEST(WindowIterator, ARampCutsTheSameSamplesOtherwise) {
  const auto lengths = some_lengths(83);
  const Dataset dataset = indexed_dataset(lengths);
  const BatchOptions plain{.micro_batch_size = 3, .gradient_accumulation_steps = 4};
  BatchOptions ramped = plain;
  ramped.ramp = {{0, 1}, {30, 2}, {100, 4}};
  const auto samples_of = [&](const BatchOptions& options, int64_t workers, std::vector<int64_t>& sizes) {
    StagedWindows windows(dataset, Sampler({}, lengths), options, workers);
    Memory memory(windows.capacity());
    std::vector<int32_t> samples;
    Window window;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      for (windows.start_epoch(epoch); windows.next_window(window);) {
        int64_t targets = 0;
        for (int64_t i = 0; i < window.micro_batches; ++i) {
          windows.load(i, memory.batch);
          targets += memory.batch.sequences;
          samples.insert(samples.end(), memory.batch.ints(BatchColumn::kClassLabels).begin(),
                         memory.batch.ints(BatchColumn::kClassLabels).begin() + memory.batch.sequences);
        }
        EXPECT_EQ(window.target_items, targets);
        EXPECT_EQ(window.samples, targets);
        sizes.push_back(targets);
      }
    }
    return samples;
  };
  std::vector<int64_t> plain_sizes;
  const std::vector<int32_t> expected = samples_of(plain, 0, plain_sizes);
  for (const int64_t workers : {0, 1}) {
    std::vector<int64_t> sizes;
    EXPECT_EQ(samples_of(ramped, workers, sizes), expected) << "workers " << workers;
    EXPECT_EQ(sizes, (std::vector<int64_t>{3, 3, 3, 3, 3,  3,  3,  3,  3,  3, 6,  6,  6,  6,  6,  6,  6, 6,
                                           5, 6, 6, 6, 12, 12, 12, 12, 12, 5, 12, 12, 12, 12, 12, 12, 11}));
  }
}

TEST(WindowIterator, AllocatesNothingAfterConstruction) {
  const auto lengths = some_lengths(200);
  const Dataset in_memory = indexed_dataset(lengths);
  const TestDirectory directory;
  std::vector<std::string> names;
  const Dataset in_files = in_shards(in_memory, directory.path(), names);
  const BatchOptions options{
      .micro_batch_size = 4, .gradient_accumulation_steps = 3, .ramp = {{0, 1}, {300, 3}}};
  for (const auto strategy : {SamplingStrategy::kRandom, SamplingStrategy::kGroupByLength}) {
    for (const auto& [workers, dataset] :
         {std::pair{0, in_memory}, {1, in_memory}, {0, in_files}, {1, in_files}}) {
      StagedWindows windows(dataset, Sampler({.strategy = strategy, .group_size = 12}, lengths), options,
                            workers);
      Memory memory(windows.capacity());
      Window window;
      int64_t tokens = 0;
      const int64_t before = allocations;
      for (int64_t epoch = 0; epoch < 3; ++epoch) {
        for (windows.start_epoch(epoch); windows.next_window(window);) {
          for (int64_t i = 0; i < window.micro_batches; ++i) {
            windows.load(i, memory.batch);
            tokens += memory.batch.tokens;
          }
        }
      }
      EXPECT_EQ(allocations - before, 0) << "workers " << workers;
      EXPECT_EQ(tokens, 3 * dataset.token_count());
    }
  }
  const int64_t before = allocations;
  std::vector<int> probe(100);
  EXPECT_GT(allocations, before) << "the counter does not count";
}

TEST(WindowIterator, Errors) {
  const auto lengths = some_lengths(5);
  const Dataset dataset = indexed_dataset(lengths);
  const Sampler sampler({}, lengths);
  EXPECT_THROW(WindowIterator(dataset, sampler, {}, -1), UserError);
  EXPECT_THROW(WindowIterator(dataset, sampler, {}, 1, 0), UserError);
  EXPECT_THROW(WindowIterator(dataset, sampler, {.drop_last = true}), UserError);
  EXPECT_THROW(WindowIterator(dataset, Sampler({}, some_lengths(4)), {}), InternalError);
  WindowIterator windows(dataset, sampler, {});
  EXPECT_THROW(windows.start_epoch(0, 2), InternalError);
  EXPECT_THROW(windows.start_epoch(-1), InternalError);
}

// A sample of several documents is several sequences, whose numbers go on from micro-batch to micro-batch.
TEST(WindowIterator, SequencesAreNumberedOverTheWindow) {
  using Rows = Dataset::Rows;
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{1, 2, 3}, {4}, {5, 6}, {7}, {8, 9}}},
                                                 {"position_ids", Rows{{0, 0, 0}, {0}, {0, 0}, {0}, {0, 0}}},
                                                 {"labels", Rows{{1, 2, 3}, {4}, {5, 6}, {7}, {8, 9}}}});
  for (const int64_t num_workers : {0, 1}) {
    StagedWindows windows(dataset, Sampler({.strategy = SamplingStrategy::kSequential}, dataset.size()),
                          BatchOptions{.micro_batch_size = 2, .gradient_accumulation_steps = 2}, num_workers);
    EXPECT_EQ(windows.capacity().sequences, 5);
    Memory memory(windows.capacity(), dataset.label_shape());
    Window window;
    windows.start_epoch(0);
    ASSERT_TRUE(windows.next_window(window));
    EXPECT_EQ(window.samples, 4);
    EXPECT_EQ(window.target_items, 7);
    const auto numbers = [&](int64_t micro_batch) {
      windows.load(micro_batch, memory.batch);
      const auto all = memory.batch.ints(BatchColumn::kSequenceSample);
      return std::vector<int32_t>(all.begin(), all.begin() + memory.batch.sequences);
    };
    EXPECT_EQ(numbers(0), (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(numbers(1), (std::vector<int32_t>{4, 5, 6}));
    ASSERT_TRUE(windows.next_window(window));
    EXPECT_EQ(numbers(0), (std::vector<int32_t>{0, 1}));
  }
}

}  // namespace
}  // namespace shoehorn
