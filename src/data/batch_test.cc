#include "data/batch.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

using Rows = Dataset::Rows;

struct FilledMemory {
  FilledMemory(const Dataset& dataset, const BatchOptions& options)
      : capacity(micro_batch_capacity(dataset, options)),
        bytes(static_cast<size_t>(micro_batch_bytes(capacity, dataset.label_shape())), std::byte{0xa5}),
        batch(lay_out_micro_batch(bytes, capacity, dataset.label_shape())) {}

  BatchCapacity capacity;
  std::vector<std::byte> bytes;
  MicroBatch batch;
};

std::vector<int32_t> first(std::span<const int32_t> values, int64_t count) {
  return {values.begin(), values.begin() + count};
}

TEST(Batch, PackedLayout) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}, {8}, {9, 10}}},
                                                 {"token_type_ids", Rows{{0, 0, 1}, {0}, {0, 1}}},
                                                 {"labels", std::vector<int64_t>{1, 0, 2}}});
  const BatchOptions options{.micro_batch_size = 2, .token_multiple = 8, .pad_token_id = 99};
  FilledMemory memory(dataset, options);
  EXPECT_EQ(memory.capacity.tokens, 8);
  EXPECT_EQ(memory.capacity.sequences, 2);
  MicroBatch& batch = memory.batch;
  pack_micro_batch(dataset, std::vector<int64_t>{2, 0}, 4, options, batch);
  EXPECT_EQ(batch.tokens, 5);
  EXPECT_EQ(batch.tokens_padded, 8);
  EXPECT_EQ(batch.sequences, 2);
  EXPECT_EQ(first(batch.ints(BatchColumn::kInputIds), 8), (std::vector<int32_t>{9, 10, 5, 6, 7, 99, 99, 99}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kTokenTypeIds), 8), (std::vector<int32_t>{0, 1, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kPositionIds), 8), (std::vector<int32_t>{0, 1, 0, 1, 2, 0, 0, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kTokenSample), 8), (std::vector<int32_t>{4, 4, 5, 5, 5, 0, 0, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceStart), 2), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceLength), 2), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceSample), 2), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequencePosition), 2), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kClassLabels), 2), (std::vector<int32_t>{2, 1}));
}

TEST(Batch, PaddedToMaxLength) {
  const Dataset dataset =
      Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}, {8}}}, {"labels", Rows{{1, -100, 2}, {3}}}});
  const BatchOptions options{
      .micro_batch_size = 2, .token_multiple = 5, .pad_to_max_length = 4, .pad_token_id = 99};
  FilledMemory memory(dataset, options);
  EXPECT_EQ(memory.capacity.tokens, 10);
  MicroBatch& batch = memory.batch;
  pack_micro_batch(dataset, std::vector<int64_t>{1, 0}, 2, options, batch);
  EXPECT_EQ(batch.tokens, 4);
  EXPECT_EQ(batch.tokens_padded, 10);
  EXPECT_EQ(first(batch.ints(BatchColumn::kInputIds), 10),
            (std::vector<int32_t>{8, 99, 99, 99, 5, 6, 7, 99, 99, 99}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kPositionIds), 10),
            (std::vector<int32_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kTokenSample), 10),
            (std::vector<int32_t>{2, 2, 2, 2, 3, 3, 3, 3, 0, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceStart), 2), (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceLength), 2), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kTokenLabels), 10),
            (std::vector<int32_t>{3, -100, -100, -100, 1, -100, 2, -100, -100, -100}));
}

TEST(Batch, TokensOfADecoderHaveAnAxisOfTheirOwn) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}, {8}}},
                                                 {"decoder_input_ids", Rows{{1}, {2, 3}}},
                                                 {"labels", Rows{{11}, {12, -100}}}});
  BatchOptions options{.micro_batch_size = 2, .token_multiple = 4, .pad_token_id = 99};
  FilledMemory memory(dataset, options);
  EXPECT_EQ(memory.capacity.tokens, 4);
  EXPECT_EQ(memory.capacity.decoder_tokens, 4);
  EXPECT_EQ(memory.capacity.longest(BatchAxis::kTokens), 3);
  EXPECT_EQ(memory.capacity.longest(BatchAxis::kDecoderTokens), 2);
  MicroBatch& batch = memory.batch;
  pack_micro_batch(dataset, std::vector<int64_t>{1, 0}, 6, options, batch);
  EXPECT_EQ(batch.tokens, 4);
  EXPECT_EQ(batch.decoder_tokens, 3);
  EXPECT_EQ(batch.count(BatchAxis::kDecoderTokens), 4);
  EXPECT_EQ(batch.count(BatchAxis::kSequences), 2);
  using Ints = std::vector<int32_t>;
  EXPECT_EQ(first(batch.ints(BatchColumn::kInputIds), 4), (Ints{8, 5, 6, 7}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceStart), 2), (Ints{0, 1}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kDecoderInputIds), 4), (Ints{2, 3, 1, 99}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kDecoderPositionIds), 4), (Ints{0, 1, 0, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kDecoderTokenSample), 4), (Ints{6, 6, 7, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kDecoderSequenceStart), 2), (Ints{0, 2}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kDecoderSequenceLength), 2), (Ints{2, 1}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kDecoderTokenLabels), 4), (Ints{12, -100, 11, -100}));
  EXPECT_FALSE(batch.has(BatchColumn::kTokenLabels));
  EXPECT_EQ(dataset.target_items(1), 1);
  options.pad_decoder_to_max_length = 3;
  FilledMemory padded(dataset, options);
  EXPECT_EQ(padded.capacity.decoder_tokens, 8);
  pack_micro_batch(dataset, std::vector<int64_t>{1, 0}, 6, options, padded.batch);
  EXPECT_EQ(padded.batch.tokens_padded, 4);
  EXPECT_EQ(first(padded.batch.ints(BatchColumn::kDecoderInputIds), 8), (Ints{2, 3, 99, 1, 99, 99, 99, 99}));
  EXPECT_EQ(first(padded.batch.ints(BatchColumn::kDecoderPositionIds), 8), (Ints{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_EQ(first(padded.batch.ints(BatchColumn::kDecoderSequenceLength), 2), (Ints{2, 1}));
  MicroBatch copy = padded.batch;
  std::vector<std::byte> bytes(padded.bytes.size());
  copy = lay_out_micro_batch(bytes, padded.capacity, dataset.label_shape());
  copy_micro_batch(padded.batch, copy);
  EXPECT_EQ(copy.count(BatchAxis::kDecoderTokens), 8);
  EXPECT_EQ(first(copy.ints(BatchColumn::kDecoderTokenLabels), 8),
            first(padded.batch.ints(BatchColumn::kDecoderTokenLabels), 8));
}

// A sample without tokens of a decoder takes no memory for columns of them.
TEST(Batch, ColumnsOfADecoderAreThereWhereItHasTokens) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}}}});
  FilledMemory memory(dataset, {});
  EXPECT_EQ(memory.capacity.decoder_tokens, 0);
  for (const BatchColumn column : {BatchColumn::kDecoderInputIds, BatchColumn::kDecoderSequenceStart})
    EXPECT_FALSE(memory.batch.has(column));
  pack_micro_batch(dataset, std::vector<int64_t>{0}, 0, {}, memory.batch);
  EXPECT_EQ(memory.batch.count(BatchAxis::kDecoderTokens), 0);
}

// Each document of a sample has its own positions, its own rows for attention, and its own number.
TEST(Batch, DocumentsAreSequences) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 7, 8}, {9}}},
                                                 {"position_ids", Rows{{0, 1, 2, 0}, {0}}},
                                                 {"labels", Rows{{1, 2, -100, 4}, {5}}}});
  EXPECT_EQ(dataset.facts().longest_document, 3);
  BatchOptions options{.micro_batch_size = 2, .token_multiple = 1};
  FilledMemory memory(dataset, options);
  EXPECT_EQ(memory.capacity.sequences, 3);
  EXPECT_EQ(memory.capacity.longest_sequence, 3);
  MicroBatch& batch = memory.batch;
  using Ints = std::vector<int32_t>;
  pack_micro_batch(dataset, std::vector<int64_t>{0, 1}, 4, options, batch);
  EXPECT_EQ(batch.sequences, 3);
  EXPECT_EQ(first(batch.ints(BatchColumn::kPositionIds), 5), (Ints{0, 1, 2, 0, 0}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kTokenSample), 5), (Ints{4, 4, 4, 5, 6}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceStart), 3), (Ints{0, 3, 4}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceLength), 3), (Ints{3, 1, 1}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kSequenceSample), 3), (Ints{4, 5, 6}));
  EXPECT_EQ(first(batch.ints(BatchColumn::kTokenLabels), 5), (Ints{1, 2, -100, 4, 5}));
  options.pad_to_max_length = 5;
  FilledMemory padded(dataset, options);
  pack_micro_batch(dataset, std::vector<int64_t>{0, 1}, 0, options, padded.batch);
  EXPECT_EQ(first(padded.batch.ints(BatchColumn::kPositionIds), 10), (Ints{0, 1, 2, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(first(padded.batch.ints(BatchColumn::kTokenSample), 10), (Ints{0, 0, 0, 1, 1, 2, 2, 2, 2, 2}));
  EXPECT_EQ(first(padded.batch.ints(BatchColumn::kSequenceStart), 3), (Ints{0, 3, 5}));
}

TEST(Batch, ValueLabelsAndNone) {
  const Dataset values =
      Dataset::from_columns({{"input_ids", Rows{{5}, {8}}}, {"labels", std::vector<double>{0.5, 2.0}}});
  FilledMemory memory(values, {});
  pack_micro_batch(values, std::vector<int64_t>{1}, 0, {}, memory.batch);
  EXPECT_EQ(memory.batch.floats(BatchColumn::kValueLabels)[0], 2.0F);
  EXPECT_EQ(memory.batch.sequences, 1);
  EXPECT_TRUE(memory.batch.ints(BatchColumn::kClassLabels).empty());
  const Dataset none = Dataset::from_columns({{"input_ids", Rows{{5}}}});
  FilledMemory unlabelled(none, {});
  pack_micro_batch(none, std::vector<int64_t>{0}, 0, {}, unlabelled.batch);
  EXPECT_EQ(unlabelled.batch.tokens_padded, 16);
}

// Whatever the samples: every token stands once where its sequence says, and the capacity is never exceeded.
TEST(Batch, RandomSamplesHoldTogether) {
  std::mt19937 engine(3);
  for (int round = 0; round < 200; ++round) {
    Rows ids(1 + engine() % 40);
    for (auto& row : ids) {
      row.resize(1 + engine() % 19);
      for (auto& id : row) id = static_cast<int64_t>(engine() % 1000);
    }
    const Dataset dataset = Dataset::from_columns({{"input_ids", ids}});
    const BatchOptions options{
        .micro_batch_size = 1 + static_cast<int64_t>(engine() % 9),
        .token_multiple = 1 + static_cast<int64_t>(engine() % 20),
        .pad_to_max_length = engine() % 2 == 0 ? 0 : 19 + static_cast<int64_t>(engine() % 3),
        .pad_token_id = 1001};
    FilledMemory memory(dataset, options);
    MicroBatch& batch = memory.batch;
    std::vector<int64_t> samples(static_cast<size_t>(dataset.size()));
    std::iota(samples.begin(), samples.end(), int64_t{0});
    std::shuffle(samples.begin(), samples.end(), engine);
    samples.resize(std::min(samples.size(), static_cast<size_t>(options.micro_batch_size)));
    pack_micro_batch(dataset, samples, 7, options, batch);

    ASSERT_LE(batch.tokens_padded, memory.capacity.tokens);
    ASSERT_EQ(batch.tokens_padded % options.token_multiple, 0);
    ASSERT_EQ(batch.sequences, static_cast<int64_t>(samples.size()));
    int64_t tokens = 0;
    for (size_t s = 0; s < samples.size(); ++s) {
      const auto start = static_cast<size_t>(batch.ints(BatchColumn::kSequenceStart)[s]);
      const auto expected = dataset.input_ids(samples[s]);
      ASSERT_EQ(batch.ints(BatchColumn::kSequenceLength)[s], static_cast<int32_t>(expected.size()));
      ASSERT_TRUE(
          std::ranges::equal(batch.ints(BatchColumn::kInputIds).subspan(start, expected.size()), expected));
      for (size_t t = 0; t < expected.size(); ++t) {
        ASSERT_EQ(batch.ints(BatchColumn::kPositionIds)[start + t], static_cast<int32_t>(t));
        ASSERT_EQ(batch.ints(BatchColumn::kTokenSample)[start + t], static_cast<int32_t>(7 + s));
      }
      tokens += static_cast<int64_t>(expected.size());
    }
    ASSERT_EQ(batch.tokens, tokens);
    const auto pads = std::ranges::count(
        batch.ints(BatchColumn::kInputIds).first(static_cast<size_t>(batch.tokens_padded)), 1001);
    ASSERT_EQ(pads, batch.tokens_padded - tokens);
  }
}

// The bound is reached: by the longest samples together.
TEST(Batch, CapacityIsTight) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{1}, {1, 2, 3}, {1, 2}, {1, 2, 3, 4}}}});
  for (int64_t size = 1; size <= 6; ++size) {
    const int64_t expected[] = {4, 7, 9, 10, 10, 10};
    EXPECT_EQ(micro_batch_capacity(dataset, {.micro_batch_size = size, .token_multiple = 1}).tokens,
              expected[size - 1]);
  }
}

TEST(Batch, ArraysAreAlignedAndDoNotOverlap) {
  const BatchCapacity capacity{.tokens = 48, .sequences = 3};
  for (const LabelShape labels : {LabelShape{LabelKind::kNone}, LabelShape{LabelKind::kClass},
                                  LabelShape{LabelKind::kValue, 7}, LabelShape{LabelKind::kToken}}) {
    std::vector<std::byte> bytes(static_cast<size_t>(micro_batch_bytes(capacity, labels)));
    MicroBatch batch = lay_out_micro_batch(bytes, capacity, labels);
    std::vector<std::span<const std::byte>> arrays;
    for (const BatchColumn column : batch_columns()) {
      if (batch.has(column)) arrays.emplace_back(batch.bytes(column));
    }
    EXPECT_EQ(arrays.size(), labels.kind == LabelKind::kNone ? 8U : 9U);
    std::ranges::sort(arrays, {}, [](const auto& array) { return array.data(); });
    for (size_t i = 0; i < arrays.size(); ++i) {
      EXPECT_EQ((arrays[i].data() - bytes.data()) % 64, 0);
      const auto* end = i + 1 < arrays.size() ? arrays[i + 1].data() : bytes.data() + bytes.size();
      EXPECT_LE(arrays[i].data() + arrays[i].size(), end);
    }
  }
}

TEST(Batch, RowsOfValues) {
  const Dataset dataset =
      Dataset::from_columns({{"input_ids", Rows{{5, 6}, {8}, {1}}},
                             {"labels", Dataset::ValueRows{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}}});
  const BatchOptions options{.micro_batch_size = 2, .token_multiple = 1};
  FilledMemory source(dataset, options);
  FilledMemory target(dataset, options);
  pack_micro_batch(dataset, std::vector<int64_t>{2, 0}, 0, options, source.batch);
  copy_micro_batch(source.batch, target.batch);
  for (const MicroBatch& batch : {source.batch, target.batch}) {
    ASSERT_EQ(batch.width(BatchColumn::kValueLabels), 3);
    const auto values = batch.floats(BatchColumn::kValueLabels);
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()), (std::vector<float>{7, 8, 9, 1, 2, 3}));
  }
  // Without labels, as for predictions, the rows are zeros.
  const Dataset unlabelled = Dataset::from_columns({{"input_ids", Rows{{5}, {6}}}});
  pack_micro_batch(unlabelled, std::vector<int64_t>{0, 1}, 0, options, source.batch);
  EXPECT_TRUE(
      std::ranges::all_of(source.batch.floats(BatchColumn::kValueLabels), [](float v) { return v == 0; }));
  // Rows of another width are another program's.
  const Dataset narrow =
      Dataset::from_columns({{"input_ids", Rows{{5}, {6}}}, {"labels", std::vector<float>{1, 2}}});
  EXPECT_THROW(pack_micro_batch(narrow, std::vector<int64_t>{0, 1}, 0, options, source.batch), InternalError);
}

TEST(Batch, CopyTakesWhatIsInUse) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}, {8}, {1, 2, 3, 4, 5}}},
                                                 {"labels", Rows{{1, 2, 3}, {4}, {5, 6, 7, 8, 9}}}});
  const BatchOptions options{.micro_batch_size = 3, .token_multiple = 2};
  FilledMemory source(dataset, options);
  FilledMemory target(dataset, options);
  pack_micro_batch(dataset, std::vector<int64_t>{1, 0}, 3, options, source.batch);
  copy_micro_batch(source.batch, target.batch);
  EXPECT_EQ(target.bytes, source.bytes);
  EXPECT_EQ(target.batch.tokens, 4);
  EXPECT_EQ(target.batch.tokens_padded, 4);
  EXPECT_EQ(target.batch.sequences, 2);
}

TEST(Batch, Errors) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}, {8}}}});
  EXPECT_THROW(micro_batch_capacity(dataset, {.micro_batch_size = 0}), UserError);
  EXPECT_THROW(micro_batch_capacity(dataset, {.gradient_accumulation_steps = 0}), UserError);
  EXPECT_THROW(micro_batch_capacity(dataset, {.token_multiple = 0}), UserError);
  EXPECT_THROW(micro_batch_capacity(dataset, {.pad_to_max_length = -1}), UserError);
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { micro_batch_capacity(dataset, {.pad_to_max_length = 2}); }),
               "got one of 3"));
  EXPECT_THROW(micro_batch_capacity(dataset, {.pad_to_max_length = int64_t{1} << 40}), UserError);
}

std::span<std::byte> bytes_of(std::vector<int32_t>& values) {
  return std::as_writable_bytes(std::span(values));
}

TEST(Batch, FillsTheColumnsThatAreWanted) {
  const Dataset dataset =
      Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}, {8}}}, {"labels", std::vector<int64_t>{1, 0}}});
  std::vector<int32_t> ids(16, -7);
  std::vector<int32_t> labels(2, -7);
  MicroBatch batch;
  batch.set(BatchColumn::kInputIds, bytes_of(ids));
  batch.set(BatchColumn::kClassLabels, bytes_of(labels));
  pack_micro_batch(dataset, std::vector<int64_t>{1, 0}, 0, {}, batch);
  EXPECT_EQ(first(batch.ints(BatchColumn::kInputIds), 5), (std::vector<int32_t>{8, 5, 6, 7, 0}));
  EXPECT_EQ(labels, (std::vector<int32_t>{0, 1}));
  EXPECT_FALSE(batch.has(BatchColumn::kPositionIds));

  MicroBatch none;
  pack_micro_batch(dataset, std::vector<int64_t>{1, 0}, 0, {}, none);
  EXPECT_EQ(none.tokens, 4);
  EXPECT_EQ(none.count(BatchAxis::kTokens), 16);
  EXPECT_EQ(none.count(BatchAxis::kSequences), 2);
}

TEST(Batch, LabelsOfADataSetWithoutAny) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}}}});
  std::vector<int32_t> classes(1, 3);
  std::vector<int32_t> values(1, 3);
  std::vector<int32_t> of_tokens(16, 3);
  MicroBatch batch;
  batch.set(BatchColumn::kClassLabels, bytes_of(classes));
  batch.set(BatchColumn::kValueLabels, bytes_of(values));
  batch.set(BatchColumn::kTokenLabels, bytes_of(of_tokens));
  pack_micro_batch(dataset, std::vector<int64_t>{0}, 0, {}, batch);
  EXPECT_EQ(classes[0], kIgnoredLabel);
  EXPECT_EQ(batch.floats(BatchColumn::kValueLabels)[0], 0.0F);
  EXPECT_EQ(of_tokens, std::vector<int32_t>(16, kIgnoredLabel));
}

TEST(Batch, WrongMemoryIsAnInternalError) {
  const Dataset dataset =
      Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}}}, {"labels", std::vector<int64_t>{1}}});
  std::vector<int32_t> memory(15);
  MicroBatch small;
  small.set(BatchColumn::kInputIds, bytes_of(memory));
  EXPECT_THROW(pack_micro_batch(dataset, std::vector<int64_t>{0}, 0, {}, small), InternalError);
  MicroBatch other;
  other.set(BatchColumn::kValueLabels, bytes_of(memory));
  EXPECT_THROW(pack_micro_batch(dataset, std::vector<int64_t>{0}, 0, {}, other), InternalError);
  MicroBatch source;
  EXPECT_THROW(
      {
        source.tokens_padded = 1;
        copy_micro_batch(source, small);
      },
      InternalError);
  EXPECT_THROW(static_cast<void>(small.floats(BatchColumn::kInputIds)), InternalError);
}

}  // namespace
}  // namespace shoehorn
