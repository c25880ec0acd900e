#include "data/dataset_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "data/block_source.h"
#include "io/compress_testing.h"
#include "io/file_content.h"
#include "io/file_operations.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A token a byte; `calls` counts the texts that were tokenized.
TokenizeFunction byte_tokens(int64_t* calls = nullptr) {
  return [calls](std::span<const TextExample> texts) {
    std::vector<TokenizedExample> tokenized;
    for (const TextExample& text : texts) {
      if (calls != nullptr) ++*calls;
      TokenizedExample one;
      one.input_ids.push_back(1);
      for (const char c : text.text) one.input_ids.push_back(static_cast<unsigned char>(c));
      one.token_type_ids.resize(one.input_ids.size());
      for (const char c : text.pair) {
        one.input_ids.push_back(static_cast<unsigned char>(c));
        one.token_type_ids.push_back(1);
      }
      tokenized.push_back(std::move(one));
    }
    return tokenized;
  };
}

std::string csv_of(int64_t rows, const std::string& word = "text") {
  std::string csv = "label,first,second\n";
  for (int64_t i = 0; i < rows; ++i)
    csv += fmt::format("{},{} {},{}\n", i % 3 == 0 ? "up" : "down", word, i, i % 7 == 0 ? "" : "pair");
  return csv;
}

class DatasetCache : public testing::Test {
 protected:
  LoadedDataset load(const fs::path& text, const LoadOptions& options = {}, bool overwrite = false,
                     const std::string& tokenizer = "bytes") {
    calls_ = 0;
    return load_cached_dataset(text, byte_tokens(&calls_), options,
                               {.directory = cache(), .overwrite = overwrite, .tokenizer = tokenizer});
  }
  fs::path cache() const { return directory_.path() / "cache"; }
  int64_t entries() const { return static_cast<int64_t>(list_directory(cache()).size()); }

  TestDirectory directory_;
  int64_t calls_ = 0;
};

void expect_same(const LoadedDataset& cached, const LoadedDataset& memory) {
  EXPECT_EQ(cached.dataset.content_hash(), memory.dataset.content_hash());
  EXPECT_EQ(cached.dataset.size(), memory.dataset.size());
  EXPECT_EQ(cached.labels.names, memory.labels.names);
  EXPECT_EQ(cached.labels.problem, memory.labels.problem);
  EXPECT_EQ(cached.labels.takes_ids, memory.labels.takes_ids);
  EXPECT_EQ(cached.labels_are_ids, memory.labels_are_ids);
  EXPECT_EQ(cached.invalid_utf8, memory.invalid_utf8);
  EXPECT_EQ(cached.empty_texts, memory.empty_texts);
  EXPECT_EQ(cached.text_columns, memory.text_columns);
  EXPECT_EQ(cached.label_columns, memory.label_columns);
}

TEST_F(DatasetCache, TokenizesOnceAndGivesWhatMemoryGives) {
  const fs::path text = directory_.write("train.csv", csv_of(1300));
  const LoadedDataset memory = load_dataset(text, byte_tokens());
  const LoadedDataset first = load(text);
  EXPECT_EQ(calls_, 1300);
  expect_same(first, memory);
  EXPECT_EQ(first.empty_texts, 186);
  const LoadedDataset second = load(text);
  EXPECT_EQ(calls_, 0);
  expect_same(second, memory);
  EXPECT_EQ(second.files.parent_path(), cache());
  for (const int64_t sample : {0, 511, 512, 1299}) {
    EXPECT_EQ(second.dataset.input_ids(sample), memory.dataset.input_ids(sample));
    EXPECT_EQ(second.dataset.token_type_ids(sample), memory.dataset.token_type_ids(sample));
    EXPECT_EQ(second.dataset.class_label(sample), memory.dataset.class_label(sample));
  }
  EXPECT_EQ(entries(), 1) << "nothing else is left";
}

// Of every format, and of labels of each kind; the rows of a piece end where those of the next begin.
TEST_F(DatasetCache, AnyFileIsLoadedAsInMemory) {
  std::string lists;
  std::string reals = "score\ttext\n";
  std::string array = "[";
  for (int i = 0; i < 1100; ++i) {
    lists +=
        fmt::format("{{\"text\": \"t{}\", \"labels\": [{}]}}\n", i, i % 2 == 0 ? "\"a\", \"b\"" : "\"a\"");
    reals += fmt::format("{}.5\ttext {} \xff\n", i, i);
    array += fmt::format("{}{{\"text\": \"t{}\", \"label\": {}}}", i == 0 ? "" : ",\n", i, i % 4);
  }
  const LabelMap ids{.names = {"w", "x", "y", "z"}, .takes_ids = true};
  const std::vector<std::pair<fs::path, LoadOptions>> files = {
      {directory_.write("lists.jsonl", lists), {}},
      {directory_.write("reals.tsv", reals), {}},
      {directory_.write("array.json", array + "]"), {.labels = &ids}},
      {directory_.write("pairs.csv", csv_of(600)), {.max_samples = 520}},
      {directory_.write("test.csv", csv_of(600)), {.read_labels = false}},
      // Words only behind the first piece make it a column of text.
      {directory_.write(
           "late.csv", "label,n,text\n" +
                           [] {
                             std::string rows;
                             for (int i = 0; i < 700; ++i)
                               rows += fmt::format("{},{},t\n", i % 2, i < 600 ? "7" : "seven");
                             return rows;
                           }()),
       {}}};
  for (const auto& [path, options] : files) {
    SCOPED_TRACE(path);
    const LoadedDataset memory = load_dataset(path, byte_tokens(), options);
    expect_same(load(path, options), memory);
    expect_same(load(path, options), memory);
    EXPECT_EQ(calls_, 0);
  }
}

// Whatever decides samples makes another key.
TEST_F(DatasetCache, NothingStaleIsUsed) {
  const fs::path text = directory_.write("train.csv", csv_of(30));
  load(text);
  const LabelMap labels{.names = {"down", "up"}};
  const std::vector<std::function<void()>> changes = {
      [&] { load(text, {}, false, "another tokenizer"); },
      [&] { load(text, {.max_samples = 20}); },
      [&] { load(text, {.read_labels = false}); },
      [&] { load(text, {.labels = &labels}); },
      [&] { load(text, {.columns = {.text_column_names = {"second"}}}); },
      [&] { load(text, {.columns = {.text_column_names = {"first", "second"}}}); },
      [&] { load(text, {.columns = {.preferred_text_columns = {"second"}}}); },
      [&] { load(text, {.find = {.problem = ProblemType::kSingleLabel}}); },
      [&] { load(text, {.find = {.model = &labels}}); },
      [&] { load(directory_.write("train.csv", csv_of(30, "test"))); },
      [&] { load(directory_.write("train.csv", csv_of(30)), {}, true); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    changes[i]();
    EXPECT_GT(calls_, 0) << i;
  }
  load(text);
  EXPECT_EQ(calls_, 0);
}

TEST_F(DatasetCache, WhatIsDamagedIsNamed) {
  const fs::path text = directory_.write("train.csv", csv_of(30));
  const fs::path data = load(text).files;
  for (const std::string& name : list_directory(data)) {
    flip_bit(data / name, 8 * 20);
    const std::string error = refusal_of([&] { load(text); });
    EXPECT_TRUE(contains(error, name)) << error;
    EXPECT_TRUE(contains(error, "--overwrite_cache")) << error;
    flip_bit(data / name, 8 * 20);
    load(text);
    const std::string bytes = read_text_file(data / name);
    remove_path(data / name);
    EXPECT_TRUE(contains(refusal_of([&] { load(text); }), data.filename().string())) << name;
    std::ofstream(data / name, std::ios::binary) << bytes;
  }
  // Listed without checksums, as older manifests may: what is in the file counts.
  const std::string whole = read_text_file(data / "data_set.json");
  json file = read_json(data / "data_set.json");
  file["labels"]["names"] = json::array();
  std::ofstream(data / "data_set.json") << file.dump();
  json listed = json::object();
  for (const std::string& name : list_directory(data)) {
    if (name != kManifestName) listed[name] = {{"bytes", fs::file_size(data / name)}};
  }
  const std::string manifest = read_text_file(data / kManifestName);
  std::ofstream(data / kManifestName) << json{{"files", listed}, {"version", 1}}.dump();
  EXPECT_TRUE(contains(refusal_of([&] { load(text); }), "expected names of labels, got none"));
  std::ofstream(data / "data_set.json") << whole;
  std::ofstream(data / kManifestName) << manifest;
  load(text);
  // The data set of another text under this key.
  const fs::path other = load(directory_.write("other.csv", csv_of(31))).files;
  remove_path(data);
  fs::rename(other, data);
  EXPECT_TRUE(contains(refusal_of([&] { load(text); }), "expected the data set of the key"));
  EXPECT_EQ(load(text, {}, true).dataset.size(), 30);
  EXPECT_EQ(load(text).dataset.size(), 30);
}

// Killed while it writes, a process leaves nothing that is read, and what it leaves is removed by the next.
TEST_F(DatasetCache, AKilledProcessLeavesNothingToRead) {
  const fs::path text = directory_.write("train.csv", csv_of(1300));
  const pid_t child = fork();
  if (child == 0) {
    load_cached_dataset(text,
                        [calls = 0](std::span<const TextExample> texts) mutable {
                          if (++calls == 2) raise(SIGKILL);
                          return byte_tokens()(texts);
                        },
                        {}, {.directory = cache(), .tokenizer = "bytes"});
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(entries(), 1);
  EXPECT_EQ(list_directory(cache())[0].front(), '.');
  EXPECT_EQ(load(text).dataset.size(), 1300);
  EXPECT_EQ(entries(), 1);
}

// Several processes that tokenize the same text at the same time each have it, and one copy stays.
TEST_F(DatasetCache, ProcessesAtTheSameTime) {
  const fs::path text = directory_.write("train.csv", csv_of(20));
  const std::string hash = load_dataset(text, byte_tokens()).dataset.content_hash();
  for (int round = 0; round < 25; ++round) {  // each meets at other moments
    fs::remove_all(cache());
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      children.push_back(fork());
      if (children.back() == 0) {
        try {
          const LoadedDataset loaded =
              load_cached_dataset(text, byte_tokens(), {}, {.directory = cache(), .tokenizer = "bytes"});
          _exit(loaded.dataset.content_hash() == hash ? 0 : 1);
        } catch (const std::exception& error) {
          fmt::print(stderr, "{}\n", error.what());
          _exit(2);
        }
      }
    }
    for (const pid_t child : children) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "in round " << round;
    }
    EXPECT_EQ(entries(), 1);
  }
}

// One that another process finished since this one looked for it stays.
TEST_F(DatasetCache, WhatAnotherProcessMadeMeanwhileStays) {
  const fs::path text = directory_.write("train.csv", csv_of(20));
  const LoadOptions options;
  const fs::path made = cache() / dataset_key(text, options, "bytes");
  bool is_made = false;
  record_file_operations([&](const FileOperation&) {
    if (std::exchange(is_made, true)) return;
    const pid_t child = fork();
    if (child == 0) {
      load_cached_dataset(text, byte_tokens(), options, {.directory = cache(), .tokenizer = "bytes"});
      _exit(0);
    }
    waitpid(child, nullptr, 0);
    std::ofstream(made / "mark") << "of the other process";
  });
  const LoadedDataset loaded =
      load_cached_dataset(text, byte_tokens(), options, {.directory = cache(), .tokenizer = "bytes"});
  record_file_operations({});
  EXPECT_TRUE(is_made);
  EXPECT_EQ(loaded.dataset.size(), 20);
  EXPECT_TRUE(fs::exists(made / "mark"));
  EXPECT_EQ(entries(), 1);
}

// What a text is refused for in memory it is refused for here, and nothing stays.
TEST_F(DatasetCache, TextsAreRefusedAsInMemory) {
  const std::vector<std::string> texts = {"text\na\n", "label,text\n1,\n,b\n", "label,text\n1,a\n2\n",
                                          "label,n\n1,2\n0,3\n"};
  for (const std::string& csv : texts) {
    const fs::path text = directory_.write("bad.csv", csv);
    const std::string expected = refusal_of([&] { load_dataset(text, byte_tokens()); });
    EXPECT_NE(expected, "") << csv;
    EXPECT_EQ(refusal_of([&] { load(text); }), expected);
    EXPECT_EQ(entries(), 0);
  }
}

TEST_F(DatasetCache, ProgressCountsRows) {
  const fs::path text = directory_.write("train.csv", csv_of(1300));
  std::vector<std::pair<int64_t, int64_t>> calls;
  const LoadOptions options{
      .on_progress = [&](int64_t done, int64_t rows) { calls.emplace_back(done, rows); }};
  load(text, options);
  EXPECT_EQ(calls, (std::vector<std::pair<int64_t, int64_t>>{{512, 1300}, {1024, 1300}, {1300, 1300}}));
}

// The table is read before its first row is tokenized, into memory as for the cache; whoever is told may end that.
TEST_F(DatasetCache, ProgressCountsRowsThatAreRead) {
  struct Ended {};
  const fs::path text = directory_.write("train.csv", csv_of(1300));
  for (const bool is_cached : {false, true}) {
    std::vector<int64_t> calls;
    LoadOptions options{.on_rows_read = [&](int64_t rows) { calls.push_back(rows); },
                        .on_progress = [&](int64_t done, int64_t) { calls.push_back(-done); }};
    const auto load_it = [&] {
      return is_cached ? load(text, options) : load_dataset(text, byte_tokens(&calls_), options);
    };
    load_it();
    EXPECT_EQ(calls, (std::vector<int64_t>{512, 1024, -512, -1024, -1300})) << "cached: " << is_cached;
    fs::remove_all(cache());
    fs::create_directory(cache());
    options.on_rows_read = [](int64_t) { throw Ended(); };
    calls_ = 0;
    EXPECT_THROW(load_it(), Ended);
    EXPECT_EQ(entries() + calls_, 0);
  }
}

// What is read before and behind the tokenizing is told too, byte for byte: texts of several files, tokens of several shards.
TEST_F(DatasetCache, ProgressCountsBytes) {
  const std::string word(size_t{2} << 20, 'w');
  const std::vector<fs::path> texts = {directory_.write("a.csv", csv_of(7, word)),
                                       directory_.write("b.csv", csv_of(5, word))};
  const int64_t text_bytes = bytes_of_files(texts);
  struct Told {
    CacheWork work;
    int64_t last = 0;
    int64_t bytes = 0;
    int64_t times = 0;
  };
  std::vector<Told> told;
  DatasetCacheOptions options{.directory = cache(), .tokenizer = "bytes"};
  options.on_progress = [&](CacheWork work, int64_t done, int64_t bytes) {
    if (told.empty() || told.back().work != work || told.back().last == told.back().bytes)
      told.push_back({.work = work, .bytes = bytes});
    EXPECT_GT(done, told.back().last);
    EXPECT_EQ(bytes, told.back().bytes);
    told.back().last = done;
    ++told.back().times;
  };
  const auto works = [&] {
    std::vector<CacheWork> all;
    for (const Told& one : told) {
      all.push_back(one.work);
      EXPECT_EQ(one.last, one.bytes);
      EXPECT_GT(one.times, 10) << "a bar that moves";
    }
    return all;
  };
  const LoadedDataset first = load_cached_dataset(DataFiles(texts), byte_tokens(), {}, options);
  EXPECT_EQ(works(), (std::vector{CacheWork::kHashTexts, CacheWork::kVerifyTokens, CacheWork::kHashTokens,
                                  CacheWork::kVerifyTokens}));
  ASSERT_EQ(told.size(), 4U);
  EXPECT_EQ(told[0].bytes, text_bytes);
  std::vector<fs::path> shards;
  for (const std::string& name : list_directory(first.files)) {
    if (name.ends_with(".tokens")) shards.push_back(first.files / name);
  }
  EXPECT_GT(shards.size(), 1U);
  EXPECT_EQ(told[1].bytes, bytes_of_files(shards));
  EXPECT_EQ(told[2].bytes, first.dataset.token_count() * 4);
  EXPECT_EQ(told[3].bytes, told[1].bytes);
  told.clear();
  load_cached_dataset(DataFiles(texts), byte_tokens(), {}, options);
  EXPECT_EQ(works(), (std::vector{CacheWork::kHashTexts, CacheWork::kVerifyTokens}));
}

// Whoever is told may end each work: nothing is left of a data set that is not whole, and one that is whole stays.
TEST_F(DatasetCache, ItEndsWhereItIsToldTo) {
  struct Ended {};
  const fs::path text = directory_.write("train.csv", csv_of(1300));
  for (const CacheWork ended : {CacheWork::kHashTexts, CacheWork::kHashTokens, CacheWork::kVerifyTokens}) {
    for (const int64_t entries_before : {0, 1}) {
      fs::remove_all(cache());
      fs::create_directory(cache());
      if (entries_before == 1) load(text);
      DatasetCacheOptions options{.directory = cache(), .tokenizer = "bytes"};
      options.on_progress = [&](CacheWork work, int64_t, int64_t) {
        if (work == ended) throw Ended();
      };
      const auto end = [&] { load_cached_dataset(text, byte_tokens(), {}, options); };
      if (entries_before == 1 && ended == CacheWork::kHashTokens) {
        end();  // what is there is hashed no more
      } else {
        EXPECT_THROW(end(), Ended);
      }
      EXPECT_EQ(entries(), entries_before);
    }
  }
}

// Blocks of files are those of memory, and other blocks tokenize nothing again.
TEST_F(DatasetCache, TextsOfALanguageModel) {
  std::string lines;
  for (int i = 0; i < 2600; ++i) lines += i % 9 == 4 ? "\n" : fmt::format("line {} of text\n", i * i);
  const fs::path path = directory_.write("a.txt", lines);
  const TokenizeFunction tokenize = [this](std::span<const TextExample> texts) {
    std::vector<TokenizedExample> tokenized = byte_tokens(&calls_)(texts);
    for (TokenizedExample& one : tokenized) one.input_ids.erase(one.input_ids.begin());
    return tokenized;
  };
  const auto load_texts_of = [&](const TextOptions& options) {
    calls_ = 0;
    return load_cached_texts(path, tokenize, options, {.directory = cache(), .tokenizer = "bytes"});
  };
  const TextOptions without_ends{.keep_linebreaks = false};
  const LoadedTexts memory = load_texts(path, tokenize, without_ends);
  for (const int64_t calls : {2600, 0}) {
    const LoadedTexts cached = load_texts_of(without_ends);
    EXPECT_EQ(calls_, calls);
    EXPECT_EQ(cached.empty_texts, 289);
    EXPECT_EQ(cached.empty_texts, memory.empty_texts);
    EXPECT_EQ(cached.files.parent_path(), cache());
    EXPECT_EQ(cached.texts.content_hash(), memory.texts.content_hash());
    for (const BlockPacking packing : {BlockPacking::kConcatenate, BlockPacking::kDocuments}) {
      const BlockOptions options{.block_size = 100, .packing = packing};
      const Dataset found = Dataset::next_token(cut_blocks(cached.texts, options));
      const Dataset expected = Dataset::next_token(cut_blocks(memory.texts, options));
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(found.content_hash(), expected.content_hash());
      for (int64_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found.input_ids(i), expected.input_ids(i)) << i;
        ASSERT_EQ(found.target_items(i), expected.target_items(i)) << i;
      }
    }
  }
  // What changes the tokens is another data set.
  load_texts_of({});
  EXPECT_EQ(calls_, 2600);
  load_texts_of({.end_token = 7});
  EXPECT_EQ(calls_, 2600);
  load_texts_of({.preferred_text_column = "text"});
  EXPECT_EQ(calls_, 2600);
  EXPECT_EQ(entries(), 4);
}

TEST_F(DatasetCache, TextsWithoutATokenLeaveNothing) {
  const fs::path path = directory_.write("a.txt", "\n\n");
  const auto no_tokens = [](std::span<const TextExample> texts) {
    return std::vector<TokenizedExample>(texts.size());
  };
  EXPECT_THROW(load_cached_texts(path, no_tokens, {}, {.directory = cache()}), UserError);
  EXPECT_EQ(entries(), 0);
}

// The key is of all files in their order, as they lie on the disk.
TEST_F(DatasetCache, SeveralAndCompressedFiles) {
  const auto load_files = [&](std::vector<fs::path> paths, const LoadOptions& options = {}) {
    calls_ = 0;
    return load_cached_dataset(DataFiles(std::move(paths)), byte_tokens(&calls_), options,
                               {.directory = cache(), .tokenizer = "bytes"});
  };
  const fs::path first = directory_.write("a.csv", csv_of(600));
  const fs::path second = directory_.write("b.csv.gz", gzip(csv_of(700, "other")));
  const LoadedDataset memory = load_dataset(DataFiles({first, second}), byte_tokens());
  EXPECT_EQ(memory.dataset.size(), 1300);
  expect_same(load_files({first, second}), memory);
  EXPECT_EQ(calls_, 1300);
  EXPECT_EQ(load_files({first, second}).text_columns, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(calls_, 0);
  load_files({second, first});
  EXPECT_EQ(calls_, 1300);
  directory_.write("b.csv.gz", gzip(csv_of(700, "changed")));
  load_files({first, second});
  EXPECT_EQ(calls_, 1300);
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_files({"-"}); }), "got standard input"));
}

TEST_F(DatasetCache, ColumnsAndNotices) {
  const fs::path text = directory_.write("a.csv", "key,text,label\nq-1,one,up\nq-2,two,Up\nq-3,three,down\n");
  LoadOptions options;
  options.columns.id_column_name = "key";
  options.max_samples = 2;
  for (int i = 0; i < 2; ++i) {
    const LoadedDataset loaded = load(text, options);
    EXPECT_EQ(loaded.text_columns, (std::vector<std::string>{"text"}));
    EXPECT_EQ(loaded.label_columns, (std::vector<std::string>{"label"}));
    ASSERT_EQ(loaded.notices.size(), 1U);
    EXPECT_TRUE(contains(loaded.notices[0], "a.csv:3"));
  }
}

}  // namespace
}  // namespace shoehorn
