// Samples in files give what samples in memory give, and what is wrong with a file is found when it is opened.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/error.h"
#include "data/batch.h"
#include "data/shard_source.h"
#include "data/shard_testing.h"
#include "data/shard_writer.h"
#include "data/window_iterator.h"
#include "io/checksummed_files.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

struct Shape {
  LabelShape labels = {LabelKind::kClass};
  bool decodes = false;
  bool has_types = false;
  int32_t vocabulary = 1000;
};

// The same random samples in memory and in files.
struct TwoSources {
  Dataset memory;
  Dataset shards;
  std::vector<std::string> names;
};

TwoSources random_samples(const TestDirectory& directory, const Shape& shape, int64_t count,
                          int64_t shard_bytes, uint32_t seed = 7) {
  std::mt19937 engine(seed);
  const auto below = [&](int32_t n) { return static_cast<int32_t>(engine() % static_cast<uint32_t>(n)); };
  const auto row = [&](int32_t longest) {
    std::vector<int32_t> ids(static_cast<size_t>(1 + below(longest)));
    for (int32_t& id : ids) id = below(shape.vocabulary);
    return ids;
  };
  DatasetBuilder builder;
  std::vector<int32_t> labels;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<int32_t> ids = row(30);
    const std::vector<int32_t> decoder_ids = shape.decodes ? row(17) : std::vector<int32_t>{};
    std::vector<int32_t> types;
    if (shape.has_types && i % 3 == 1) types.assign(ids.size(), below(4));
    builder.add({.input_ids = ids, .token_type_ids = types, .decoder_input_ids = decoder_ids});
    const size_t labelled = shape.labels.kind == LabelKind::kToken          ? ids.size()
                            : shape.labels.kind == LabelKind::kDecoderToken ? decoder_ids.size()
                                                                            : 1;
    for (size_t t = 0; t < labelled; ++t) labels.push_back(below(5) == 0 ? kIgnoredLabel : below(9));
    for (int64_t w = 0; w < shape.labels.width; ++w) values.push_back(static_cast<float>(below(100)) / 7);
  }
  switch (shape.labels.kind) {
    case LabelKind::kNone:
      break;
    case LabelKind::kClass:
      builder.set_class_labels(labels);
      break;
    case LabelKind::kValue:
      builder.set_value_labels(values, shape.labels.width);
      break;
    case LabelKind::kNextToken:
      CHECK(false, "files have no such labels");
    case LabelKind::kToken:
    case LabelKind::kDecoderToken:
      builder.set_token_labels(labels, labelled_stream(shape.labels.kind));
      break;
  }
  TwoSources sources{.memory = builder.finish(), .shards = {}, .names = {}};
  sources.shards = in_shards(sources.memory, directory.path(), sources.names, shard_bytes);
  return sources;
}

std::vector<std::byte> packed_bytes(const Dataset& dataset, int64_t num_workers) {
  const BatchOptions options{.micro_batch_size = 5, .gradient_accumulation_steps = 3};
  WindowIterator windows(dataset, Sampler({}, dataset.lengths()), options, num_workers);
  std::vector<std::byte> staging(static_cast<size_t>(windows.staging_bytes()) + 64);
  windows.stage_in(std::span(staging).first(static_cast<size_t>(windows.staging_bytes())));
  std::vector<std::byte> memory(
      static_cast<size_t>(micro_batch_bytes(windows.capacity(), dataset.label_shape())));
  MicroBatch batch = lay_out_micro_batch(memory, windows.capacity(), dataset.label_shape());
  std::vector<std::byte> all;
  Window window;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (windows.start_epoch(epoch); windows.next_window(window);) {
      all.push_back(static_cast<std::byte>(window.target_items));
      for (int64_t i = 0; i < window.micro_batches; ++i) {
        windows.load(i, batch);
        all.insert(all.end(), memory.begin(), memory.end());
      }
    }
  }
  return all;
}

TEST(Shards, GiveWhatMemoryGives) {
  const std::vector<Shape> shapes = {{},
                                     {.has_types = true},
                                     {.labels = {LabelKind::kNone}},
                                     {.labels = {LabelKind::kValue, 3}},
                                     {.labels = {LabelKind::kToken}, .has_types = true},
                                     {.labels = {LabelKind::kDecoderToken}, .decodes = true},
                                     {.labels = {LabelKind::kClass}, .decodes = true, .vocabulary = 100000}};
  for (size_t s = 0; s < shapes.size(); ++s) {
    SCOPED_TRACE(s);
    const TestDirectory directory;
    const auto [memory, shards, names] = random_samples(directory, shapes[s], 300, 2000);
    ASSERT_GT(names.size(), 3U);
    EXPECT_EQ(shards.size(), memory.size());
    EXPECT_EQ(shards.label_shape(), memory.label_shape());
    EXPECT_EQ(shards.facts().has_token_types, memory.facts().has_token_types);
    EXPECT_EQ(shards.facts().longest_document, memory.facts().longest_document);
    for (const TokenStream stream : kTokenStreams) {
      EXPECT_EQ(shards.token_count(stream), memory.token_count(stream));
      EXPECT_EQ(shards.max_length(stream), memory.max_length(stream));
      if (memory.token_count(stream) > 0) {
        EXPECT_EQ(shards.facts().of(stream).largest_id, memory.facts().of(stream).largest_id);
      }
    }
    EXPECT_EQ(shards.lengths(), memory.lengths());
    EXPECT_EQ(shards.content_hash(), memory.content_hash());
    for (int64_t i = 0; i < memory.size(); ++i) {
      ASSERT_EQ(shards.input_ids(i), memory.input_ids(i)) << i;
      ASSERT_EQ(shards.decoder_input_ids(i), memory.decoder_input_ids(i)) << i;
      ASSERT_EQ(shards.token_type_ids(i), memory.token_type_ids(i)) << i;
      ASSERT_EQ(shards.target_items(i), memory.target_items(i)) << i;
    }
    EXPECT_LT(shards.memory_bytes(), memory.memory_bytes());
    for (const int64_t num_workers : {0, 1})
      EXPECT_TRUE(packed_bytes(shards, num_workers) == packed_bytes(memory, num_workers));
  }
}

// A file has short ids until one comes that they do not hold.
TEST(Shards, IdsTakeAsManyBytesAsTheyNeed) {
  const TestDirectory directory;
  ShardWriter writer(directory.path(), {LabelKind::kNone});
  const auto add = [&](int32_t id) {
    const std::vector<int32_t> ids = {1, id};
    writer.add({.input_ids = ids}, {});
  };
  add(65535);
  add(65536);
  add(3);
  const std::vector<std::string> names = writer.finish();
  ASSERT_EQ(names, (std::vector<std::string>{"shard-00000.tokens", "shard-00001.tokens"}));
  const ShardFile first = ShardFile::open(directory.path() / names[0], {});
  const ShardFile second = ShardFile::open(directory.path() / names[1], {});
  EXPECT_EQ(first.facts().of(TokenStream::kInput).largest_id, 65535);
  EXPECT_EQ(second.facts().size, 2);
  std::vector<int32_t> ids(2);
  second.copy_ids(0, TokenStream::kInput, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 65536}));
  EXPECT_EQ(std::filesystem::file_size(first.path()), sizeof(ShardHeader) + 2 * 8 + 2 * 2);
  EXPECT_EQ(std::filesystem::file_size(second.path()), sizeof(ShardHeader) + 3 * 8 + 4 * 4);
}

// A vocabulary of more than 65,536 tokens has long ids everywhere: it takes no more files than others.
TEST(Shards, LongIdsMakeNoSmallFiles) {
  const TestDirectory directory;
  ShardWriter writer(directory.path(), {LabelKind::kNone}, 400);
  constexpr int kSamples = 100;
  for (int i = 0; i < kSamples; ++i) {
    const std::vector<int32_t> ids = {i % 2 == 0 ? 1 : 70000};
    writer.add({.input_ids = ids}, {});
  }
  // Two offsets, of input and decoder, and an id of four bytes each.
  EXPECT_LE(std::ssize(writer.finish()), 2 + kSamples * (8 + 8 + 4) / 400);
}

TEST(Shards, AnySampleIsReadFromAnyThread) {
  const TestDirectory directory;
  const auto [memory, shards, names] = random_samples(directory, {.has_types = true}, 500, 4000);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = t; i < memory.size(); i += 3)
        wrong += shards.input_ids(i) != memory.input_ids(i) || shards.class_label(i) != memory.class_label(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

std::string open_error(const std::filesystem::path& path, const std::optional<ListedFile>& listed = {}) {
  return refusal_of([&] { ShardFile::open(path, listed); });
}

// Whatever bit of a file is another one is found by its checksum.
TEST(Shards, AFlippedBitIsFound) {
  const TestDirectory directory;
  ListedFile listed;
  std::filesystem::path path;
  {
    const ChecksummedFiles checksums(directory.path(), FileSync::kTogether);
    ShardWriter writer(directory.path(), {LabelKind::kClass});
    const std::vector<int32_t> ids = {5, 6, 7};
    writer.add({.input_ids = ids, .token_type_ids = std::vector<int32_t>{0, 1, 1}}, {.class_label = 1});
    writer.add({.input_ids = ids}, {.class_label = 0});
    path = directory.path() / writer.finish().at(0);
    const WrittenFile& written = checksums.files().begin()->second;
    listed = {written.bytes, ListedFile::Check::kXxh128, written.xxh128};
  }
  EXPECT_EQ(open_error(path, listed), "");
  for (int64_t bit = 0; bit < listed.bytes * 8; ++bit) {
    flip_bit(path, bit);
    EXPECT_TRUE(contains(open_error(path, listed), path.filename().string())) << bit;
    flip_bit(path, bit);
  }
  EXPECT_EQ(open_error(path, listed), "");
  std::filesystem::resize_file(path, static_cast<uintmax_t>(listed.bytes - 1));
  EXPECT_TRUE(contains(open_error(path, listed), "bytes, got"));
  EXPECT_TRUE(contains(open_error(path), "expected a file of"));
}

// Without one it is refused, or every number that is read is in its range.
TEST(Shards, AFlippedBitWithoutAChecksumDoesNoHarm) {
  const TestDirectory directory;
  ShardWriter writer(directory.path(), {LabelKind::kDecoderToken});
  const std::vector<int32_t> ids = {5, 6, 7};
  const std::vector<int32_t> decoder_ids = {1, 70000};
  const std::vector<int32_t> labels = {3, kIgnoredLabel};
  for (int i = 0; i < 3; ++i) {
    writer.add(
        {.input_ids = ids, .token_type_ids = std::vector<int32_t>{0, i, 1}, .decoder_input_ids = decoder_ids},
        {.tokens = labels});
  }
  const std::filesystem::path path = directory.path() / writer.finish().at(0);
  int64_t accepted = 0;
  int64_t refused = 0;
  for (int64_t bit = 0; bit < static_cast<int64_t>(std::filesystem::file_size(path)) * 8; ++bit) {
    flip_bit(path, bit);
    try {
      const ShardFile shard = ShardFile::open(path, {});
      for (int64_t i = 0; i < shard.facts().size; ++i) {
        for (const TokenStream stream : kTokenStreams) {
          std::vector<int32_t> row(static_cast<size_t>(shard.length(i, stream)));
          if (!row.empty()) shard.copy_ids(i, stream, row);
          for (const int32_t id : row)
            ASSERT_TRUE(id >= 0 && id <= shard.facts().of(stream).largest_id) << bit;
        }
      }
      ++accepted;
    } catch (const UserError&) {
      ++refused;
    }
    flip_bit(path, bit);
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 500);
}

// What a checksum cannot tell: a file that was written so.
TEST(Shards, ContentOutOfRangeIsNamed) {
  const TestDirectory directory;
  const auto with = [&](auto change) {
    ShardHeader header{.magic = kShardMagic,
                       .version = kShardVersion,
                       .id_bytes = 4,
                       .label_kind = 1,
                       .label_width = 1,
                       .samples = 2,
                       .tokens = 3,
                       .decoder_tokens = 0,
                       .has_token_types = 0};
    std::vector<uint64_t> offsets = {0, 2, 3};
    std::vector<uint32_t> ids = {4, 5, 6};
    std::vector<int32_t> labels = {1, 0};
    change(header, offsets, ids, labels);
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    const auto append = [&bytes](const auto& values) {
      if (values.empty()) return;
      bytes.resize((bytes.size() + 7) / 8 * 8);
      bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
    };
    append(offsets);
    append(ids);
    append(labels);
    return open_error(directory.write("shard.tokens", bytes));
  };
  using Offsets = std::vector<uint64_t>&;
  using Ids = std::vector<uint32_t>&;
  using Labels = std::vector<int32_t>&;
  EXPECT_EQ(with([](ShardHeader&, Offsets, Ids, Labels) {}), "");
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.magic[0] = 'S'; }), "another kind"));
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.version = 2; }), "got version 2"));
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.id_bytes = 3; }), "2 or 4 bytes"));
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.label_kind = 5; }), "kind 5"));
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.label_kind = 4; }), "decoder"));
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.label_width = 2; }), "got 2"));
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.samples = 0; }), "0 samples"));
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.tokens = ~uint64_t{0}; }),
                       "numbers of samples and tokens"));
  EXPECT_TRUE(contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.has_token_types = 2; }), "got 2"));
  EXPECT_TRUE(
      contains(with([](ShardHeader& h, Offsets, Ids, Labels) { h.tokens = 5; }), "expected a file of"));
  EXPECT_TRUE(
      contains(with([](ShardHeader&, Offsets o, Ids, Labels) { o[0] = 1; }), "1 behind 0 at sample 0"));
  EXPECT_TRUE(
      contains(with([](ShardHeader&, Offsets o, Ids, Labels) { o[1] = 0; }), "0 behind 0 at sample 1"));
  EXPECT_TRUE(
      contains(with([](ShardHeader&, Offsets o, Ids, Labels) { o[1] = 9; }), "9 behind 0 at sample 1"));
  EXPECT_TRUE(
      contains(with([](ShardHeader&, Offsets o, Ids, Labels) { o[2] = 4; }), "4 behind 2 at sample 2"));
  EXPECT_TRUE(
      contains(with([](ShardHeader&, Offsets, Ids i, Labels) { i[1] = 1U << 31; }), "ids below 2^31"));
  EXPECT_TRUE(contains(with([](ShardHeader&, Offsets, Ids, Labels l) { l[1] = -1; }), "got -1 at 1"));
  EXPECT_EQ(with([](ShardHeader&, Offsets, Ids, Labels l) { l[1] = kIgnoredLabel; }), "");
  // Texts that blocks are cut from may have no tokens.
  const auto as_text = [&](uint64_t second) {
    return with([second](ShardHeader& h, Offsets o, Ids, Labels l) {
      h.label_kind = 0;
      o[1] = second;
      l.clear();
    });
  };
  EXPECT_EQ(as_text(0), "");
  EXPECT_EQ(as_text(3), "");
  EXPECT_TRUE(contains(as_text(4), "4 behind 0 at sample 1"));
}

// A file that changes while it is in use is an error when it is next read.
TEST(Shards, AFileThatChangesInUseIsNoticed) {
  const TestDirectory directory;
  const auto [memory, shards, names] = random_samples(directory, {}, 20, int64_t{1} << 20);
  ASSERT_EQ(names.size(), 1U);
  const std::filesystem::path path = directory.path() / names[0];
  const int64_t offset_of_second = sizeof(ShardHeader) + sizeof(uint64_t);
  flip_bit(path, (offset_of_second + 4) * 8);
  EXPECT_THROW(shards.length(0), SystemError);
  flip_bit(path, (offset_of_second + 4) * 8);
  EXPECT_EQ(shards.length(0), memory.length(0));
  const int64_t ids = sizeof(ShardHeader) + 21 * static_cast<int64_t>(sizeof(uint64_t));
  flip_bit(path, ids * 8 + 15);  // 32768 more
  EXPECT_THROW(shards.input_ids(0), SystemError);
  std::filesystem::resize_file(path, static_cast<uintmax_t>(ids));
  EXPECT_THROW(shards.input_ids(0), SystemError);
}

TEST(Shards, SamplesThatDoNotGoTogetherAreRefused) {
  const TestDirectory directory;
  ShardWriter writer(directory.path(), {LabelKind::kNone});
  const std::vector<int32_t> ids = {5};
  writer.add({.input_ids = ids}, {});
  EXPECT_TRUE(contains(refusal_of([&] { writer.add({.input_ids = ids, .decoder_input_ids = ids}, {}); }),
                       "got 1 in sample 1"));
  EXPECT_TRUE(contains(refusal_of([&] { writer.add({}, {}); }), "got none in sample 1"));
  const std::vector<int32_t> negative = {-1};
  EXPECT_TRUE(contains(refusal_of([&] { writer.add({.input_ids = negative}, {}); }), "got -1 in sample 1"));
  EXPECT_TRUE(contains(refusal_of([&] { ShardSource(directory.path(), {}, {}); }), "got none"));
  const std::vector<std::string> names = writer.finish();
  EXPECT_TRUE(contains(refusal_of([&] { ShardSource(directory.path(), names, {}); }), "expected a checksum"));
}

}  // namespace
}  // namespace shoehorn
