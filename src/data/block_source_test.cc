#include "data/block_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "data/batch.h"
#include "data/sampler.h"
#include "data/shard_testing.h"
#include "data/test_support.h"
#include "data/window_iterator.h"

namespace shoehorn {
namespace {

using Ints = std::vector<int32_t>;
using TokenRows = std::vector<Ints>;

Dataset texts_of(const TokenRows& rows) {
  DatasetBuilder builder;
  for (const Ints& row : rows) builder.add({.input_ids = row, .may_be_empty = true});
  return builder.finish();
}

TokenRows random_rows(std::mt19937& engine, size_t count, int32_t longest, int32_t shortest) {
  TokenRows rows(count);
  for (Ints& row : rows) {
    row.resize(static_cast<size_t>(shortest) + engine() % static_cast<uint32_t>(longest - shortest + 1));
    for (int32_t& id : row) id = static_cast<int32_t>(engine() % 100);
  }
  return rows;
}

// A block as its documents.
using Block = TokenRows;

std::vector<Block> blocks_of(const Dataset& dataset) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Ints ids = dataset.input_ids(i);
    auto at = ids.begin();
    blocks.emplace_back();
    for (int64_t d = 0; d < dataset.source().document_count(i); ++d) {
      const int64_t length = dataset.source().document_length(i, d);
      blocks.back().emplace_back(at, at + length);
      at += length;
    }
    EXPECT_EQ(at, ids.end()) << "block " << i;
  }
  return blocks;
}

Ints concatenated(const TokenRows& rows, size_t begin, size_t end) {
  Ints all;
  for (size_t i = begin; i < end; ++i) all.insert(all.end(), rows[i].begin(), rows[i].end());
  return all;
}

// What the header says, by copying.
std::vector<Block> expected_concatenation(const TokenRows& rows, const BlockOptions& options) {
  const auto size = static_cast<size_t>(options.block_size);
  const size_t group = options.remainder == BlockRemainder::kRunClm ? 1000 : std::max<size_t>(1, rows.size());
  std::vector<Block> blocks;
  for (size_t first = 0; first < rows.size(); first += group) {
    const Ints all = concatenated(rows, first, std::min(first + group, rows.size()));
    for (size_t at = 0; at < all.size(); at += size) {
      const size_t end = std::min(at + size, all.size());
      const bool is_whole = end - at == size;
      if (!is_whole && (options.remainder != BlockRemainder::kKeep || end - at == 1)) continue;
      blocks.push_back(
          {Ints(all.begin() + static_cast<int64_t>(at), all.begin() + static_cast<int64_t>(end))});
    }
  }
  return blocks;
}

std::vector<Block> expected_documents(const TokenRows& rows, const BlockOptions& options) {
  const auto size = static_cast<size_t>(options.block_size);
  std::vector<Block> blocks;
  size_t used = size;
  for (const Ints& row : rows) {
    bool is_new = used + row.size() > size;
    for (size_t at = 0; at < row.size(); at += size) {
      const Ints piece(row.begin() + static_cast<int64_t>(at),
                       row.begin() + static_cast<int64_t>(std::min(at + size, row.size())));
      if (is_new || at > 0) {
        blocks.emplace_back();
        used = 0;
      }
      is_new = false;
      blocks.back().push_back(piece);
      used += piece.size();
    }
  }
  return blocks;
}

void expect_counts(const BlockCounts& counts, const TokenRows& rows, const Dataset& blocks, int64_t size) {
  EXPECT_EQ(counts.texts, std::ssize(rows));
  EXPECT_EQ(counts.empty_texts, std::ranges::count_if(rows, [](const Ints& row) { return row.empty(); }));
  EXPECT_EQ(counts.tokens, std::ssize(concatenated(rows, 0, rows.size())));
  EXPECT_EQ(counts.tokens, counts.block_tokens + counts.left_over_tokens + counts.unused_block_tokens);
  EXPECT_EQ(counts.blocks, blocks.size());
  EXPECT_EQ(counts.block_tokens, blocks.token_count());
  int64_t tokens = 0;
  int64_t short_blocks = 0;
  int64_t shortest = blocks.size() == 0 ? 0 : size;
  int64_t longest = 0;
  int64_t most_documents = 1;
  int64_t longest_document = 0;
  for (int64_t i = 0; i < blocks.size(); ++i) {
    const int64_t length = blocks.length(i);
    tokens += length;
    short_blocks += length < size ? 1 : 0;
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
    most_documents = std::max(most_documents, blocks.source().document_count(i));
    for (int64_t d = 0; d < blocks.source().document_count(i); ++d)
      longest_document = std::max(longest_document, blocks.source().document_length(i, d));
  }
  EXPECT_EQ(counts.short_blocks, short_blocks);
  EXPECT_EQ(blocks.token_count(), tokens);
  EXPECT_EQ(blocks.facts().of(TokenStream::kInput).shortest, shortest);
  EXPECT_EQ(blocks.max_length(), longest);
  EXPECT_EQ(blocks.facts().most_documents, most_documents);
  EXPECT_EQ(blocks.facts().longest_document, longest_document);
}

std::string name_of(const BlockOptions& options) {
  return fmt::format("block_size {}, {}, {}, texts {} … {}, at most {}", options.block_size,
                     block_packing_name(options.packing), block_remainder_name(options.remainder),
                     options.first_text, options.texts.value_or(-1), options.max_blocks);
}

// Every way to cut random texts, from memory and from files of which each has few of them.
TEST(Blocks, AreWhatCopyingGives) {
  std::mt19937 engine(3);
  for (int turn = 0; turn < 60; ++turn) {
    const TokenRows rows =
        random_rows(engine, 1 + engine() % (turn % 3 == 0 ? 2500 : 60), 1 + turn % 23, turn % 2);
    if (concatenated(rows, 0, rows.size()).empty()) continue;
    const Dataset memory = texts_of(rows);
    const TestDirectory directory;
    std::vector<std::string> names;
    const Dataset files = in_shards(memory, directory.path(), names, 4000);
    BlockOptions options{.block_size = 2 + static_cast<int64_t>(engine() % 40)};
    options.packing = turn % 4 == 3 ? BlockPacking::kDocuments : BlockPacking::kConcatenate;
    if (turn % 4 != 3) options.remainder = static_cast<BlockRemainder>(turn % 4);
    TokenRows part = rows;
    if (turn % 5 == 4) {
      options.first_text = static_cast<int64_t>(engine() % rows.size());
      options.texts =
          static_cast<int64_t>(engine() % (rows.size() - static_cast<size_t>(options.first_text)));
      part.assign(rows.begin() + options.first_text, rows.begin() + options.first_text + *options.texts);
    }
    std::vector<Block> expected = options.packing == BlockPacking::kDocuments
                                      ? expected_documents(part, options)
                                      : expected_concatenation(part, options);
    const auto all_blocks = std::ssize(expected);
    if (turn % 7 == 6) {
      options.max_blocks = 1 + static_cast<int64_t>(engine() % 20);
      expected.resize(static_cast<size_t>(std::min(options.max_blocks, all_blocks)));
    }
    SCOPED_TRACE(name_of(options));
    std::string hash;
    for (const Dataset& texts : {memory, files}) {
      BlockCounts counts;
      const Dataset blocks = cut_blocks(texts, options, &counts);
      EXPECT_TRUE(blocks_of(blocks) == expected);
      expect_counts(counts, part, blocks, options.block_size);
      EXPECT_EQ(counts.blocks + counts.unused_blocks, all_blocks);
      if (hash.empty()) hash = blocks.content_hash();
      EXPECT_EQ(blocks.content_hash(), hash);
    }
  }
}

TEST(Blocks, OfTheHeader) {
  const Dataset texts = texts_of({Ints(5, 1), Ints(2, 2), Ints(8, 3), Ints(1, 4)});
  EXPECT_EQ(blocks_of(cut_blocks(texts, {.block_size = 6})),
            (std::vector<Block>{{{1, 1, 1, 1, 1, 2}}, {{2, 3, 3, 3, 3, 3}}, {{3, 3, 3, 4}}}));
  const BlockOptions documents{.block_size = 6, .packing = BlockPacking::kDocuments};
  EXPECT_EQ(blocks_of(cut_blocks(texts, documents)),
            (std::vector<Block>{{{1, 1, 1, 1, 1}}, {{2, 2}}, {{3, 3, 3, 3, 3, 3}}, {{3, 3}, {4}}}));
  BlockCounts counts;
  cut_blocks(texts, documents, &counts);
  EXPECT_EQ(counts.cut_texts, 1);
  EXPECT_EQ(counts.left_over_tokens, 0);
}

TEST(Blocks, RunClmConcatenatesEachThousandTexts) {
  const Dataset texts = texts_of(TokenRows(2001, Ints{1, 2, 3}));
  BlockCounts counts;
  cut_blocks(texts, {.block_size = 400, .remainder = BlockRemainder::kRunClm}, &counts);
  EXPECT_EQ(counts.blocks, 14);
  EXPECT_EQ(counts.left_over_tokens, 200 + 200 + 3);
}

// Labels follow from the ids, and end with a document.
TEST(Blocks, PackedDocumentsHaveTheirLabelsAndPositions) {
  const Dataset texts = texts_of({{11, 12, 13}, {}, {21, 22}, {31, 32, 33, 34, 35, 36, 37}, {41}});
  const Dataset blocks =
      Dataset::next_token(cut_blocks(texts, {.block_size = 6, .packing = BlockPacking::kDocuments}));
  ASSERT_EQ(blocks.size(), 3);
  const BatchOptions options{.micro_batch_size = 3, .token_multiple = 1};
  const BatchCapacity capacity = micro_batch_capacity(blocks, options);
  EXPECT_EQ(capacity.sequences, 5);
  EXPECT_EQ(capacity.longest_sequence, 6);
  std::vector<std::byte> bytes(static_cast<size_t>(micro_batch_bytes(capacity, blocks.label_shape())));
  MicroBatch batch = lay_out_micro_batch(bytes, capacity, blocks.label_shape());
  pack_micro_batch(blocks, std::vector<int64_t>{0, 1, 2}, 10, options, batch);
  const auto column = [&](BatchColumn of) {
    const auto values = batch.ints(of);
    return Ints(values.begin(), values.begin() + batch.count(batch_column_info(of).axis));
  };
  EXPECT_EQ(column(BatchColumn::kInputIds), (Ints{11, 12, 13, 21, 22, 31, 32, 33, 34, 35, 36, 37, 41}));
  EXPECT_EQ(column(BatchColumn::kPositionIds), (Ints{0, 1, 2, 0, 1, 0, 1, 2, 3, 4, 5, 0, 0}));
  EXPECT_EQ(column(BatchColumn::kTokenLabels),
            (Ints{12, 13, -100, 22, -100, 32, 33, 34, 35, 36, -100, -100, -100}));
  EXPECT_EQ(column(BatchColumn::kSequenceStart), (Ints{0, 3, 5, 11, 12}));
  EXPECT_EQ(column(BatchColumn::kSequenceLength), (Ints{3, 2, 6, 1, 1}));
  EXPECT_EQ(column(BatchColumn::kSequenceSample), (Ints{10, 11, 12, 13, 14}));
  for (const auto& [block, targets] : {std::pair{0, 3}, {1, 5}, {2, 0}})
    EXPECT_EQ(blocks.target_items(block), targets) << block;
}

// Of texts with labels, as instruction data have them, a block has its part.
TEST(Blocks, OfTextsWithLabels) {
  const Dataset memory =
      Dataset::from_columns({{"input_ids", Dataset::Rows{{1, 2, 3}, {4, 5}, {6, 7, 8, 9, 10}}},
                             {"labels", Dataset::Rows{{-100, 2, 3}, {-100, 5}, {-100, -100, 8, 9, 10}}}});
  const TestDirectory directory;
  std::vector<std::string> names;
  for (const Dataset& texts : {memory, in_shards(memory, directory.path(), names, 1)}) {
    const Dataset blocks = Dataset::next_token(cut_blocks(texts, {.block_size = 4}));
    ASSERT_EQ(blocks.size(), 3);
    EXPECT_EQ(blocks.token_labels(0), (Ints{-100, 2, 3, -100}));
    EXPECT_EQ(blocks.token_labels(1), (Ints{5, -100, -100, 8}));
    EXPECT_EQ(blocks.token_labels(2), (Ints{9, 10}));
    for (const auto& [block, targets] : {std::pair{0, 2}, {1, 1}, {2, 1}})
      EXPECT_EQ(blocks.target_items(block), targets) << "block " << block << ": the first is nobody's target";
  }
}

// A run over blocks goes on in the middle of an epoch at the block where it stood.
TEST(Blocks, AnEpochGoesOnWhereItStood) {
  std::mt19937 engine(8);
  const Dataset blocks = Dataset::next_token(cut_blocks(
      texts_of(random_rows(engine, 300, 20, 0)), {.block_size = 32, .packing = BlockPacking::kDocuments}));
  const BatchOptions options{.micro_batch_size = 3, .gradient_accumulation_steps = 2};
  const auto labels_from = [&](int64_t first_step) {
    WindowIterator windows(blocks, Sampler({}, blocks.lengths()), options);
    std::vector<std::byte> bytes(
        static_cast<size_t>(micro_batch_bytes(windows.capacity(), blocks.label_shape())));
    MicroBatch batch = lay_out_micro_batch(bytes, windows.capacity(), blocks.label_shape());
    std::vector<Ints> labels;
    Window window;
    for (windows.start_epoch(1, first_step); windows.next_window(window);) {
      int64_t targets = 0;
      for (int64_t i = 0; i < window.micro_batches; ++i) {
        windows.load(i, batch);
        const auto values =
            batch.ints(BatchColumn::kTokenLabels).first(static_cast<size_t>(batch.tokens_padded));
        targets += std::ssize(values) - std::ranges::count(values, kIgnoredLabel);
        labels.emplace_back(values.begin(), values.end());
      }
      EXPECT_EQ(window.target_items, targets);
    }
    return labels;
  };
  const std::vector<Ints> all = labels_from(0);
  const std::vector<Ints> rest = labels_from(5);
  ASSERT_EQ(rest.size() + 10, all.size());
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.begin() + 10));
}

TEST(Blocks, TakeNoMemoryForTokens) {
  const Dataset texts = texts_of(TokenRows(5000, Ints(20, 7)));
  EXPECT_LE(cut_blocks(texts, {.block_size = 8}).memory_bytes(), texts.memory_bytes() + 24);
  EXPECT_LE(cut_blocks(texts, {.block_size = 8, .remainder = BlockRemainder::kRunClm}).memory_bytes(),
            texts.memory_bytes() + 5 * 24);
  EXPECT_LE(cut_blocks(texts, {.block_size = 40, .packing = BlockPacking::kDocuments}).memory_bytes(),
            texts.memory_bytes() + 2500 * 40);
}

TEST(Blocks, OtherBlocksHaveOtherHashes) {
  std::mt19937 engine(4);
  const Dataset texts = texts_of(random_rows(engine, 1500, 10, 1));
  std::vector<std::string> hashes = {texts.content_hash()};
  for (const BlockOptions& options :
       {BlockOptions{.block_size = 16}, BlockOptions{.block_size = 17},
        BlockOptions{.block_size = 16, .remainder = BlockRemainder::kRunClm},
        BlockOptions{.block_size = 16, .packing = BlockPacking::kDocuments},
        BlockOptions{.block_size = 16, .max_blocks = 7}, BlockOptions{.block_size = 16, .first_text = 5}}) {
    hashes.push_back(cut_blocks(texts, options).content_hash());
  }
  std::ranges::sort(hashes);
  EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end());
}

TEST(Blocks, RefuseWhatIsNoText) {
  const auto refusal = [](const Dataset& dataset, int64_t block_size = 8) {
    return message_of<UserError>([&] { cut_blocks(dataset, {.block_size = block_size}); });
  };
  const Dataset texts = texts_of({{1, 2, 3}});
  EXPECT_TRUE(contains(refusal(texts, 1), "[block_size] expected 2 or more tokens"));
  using R = Dataset::Rows;
  EXPECT_TRUE(contains(
      refusal(Dataset::from_columns({{"input_ids", R{{1, 2}}}, {"labels", std::vector<int64_t>{1}}})),
      "[labels] expected none"));
  EXPECT_TRUE(
      contains(refusal(Dataset::from_columns({{"input_ids", R{{1, 2}}}, {"position_ids", R{{0, 0}}}})),
               "[position_ids] expected no such column"));
  EXPECT_TRUE(
      contains(refusal(Dataset::from_columns({{"input_ids", R{{1, 2}}}, {"token_type_ids", R{{0, 1}}}})),
               "[token_type_ids] expected no such column"));
  EXPECT_TRUE(
      contains(refusal(cut_blocks(texts, {.block_size = 2})), "[cut_blocks] expected samples in memory"));
}

// A batch has no room for a sample without tokens.
TEST(Blocks, TextsWithoutTokensAreForBlocksOnly) {
  const Dataset texts = texts_of({{1, 2}, {}});
  EXPECT_TRUE(contains(message_of<UserError>([&] { micro_batch_capacity(texts, {}); }),
                       "[input_ids] expected at least one token a sample"));
  DatasetBuilder builder;
  EXPECT_THROW(builder.add({.input_ids = Ints{}}), UserError);
}

}  // namespace
}  // namespace shoehorn
