#include "data/memory_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error_testing.h"
#include "base/process.h"
#include "data/load_dataset.h"
#include "data/texts.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMebibyte = int64_t{1} << 20;

int64_t budget_with(int64_t left_bytes) {
  return process_resident_bytes() + left_bytes;
}

// A file of so many bytes on no disk.
fs::path sparse_file(const TestDirectory& directory, const std::string& name, int64_t bytes) {
  const fs::path path = directory.write(name, "");
  fs::resize_file(path, static_cast<uintmax_t>(bytes));
  return path;
}

TEST(MemoryWatch, WhatDoesNotFitIsRefusedWithTheWayOut) {
  MemoryWatch tight("a.csv", kMebibyte);
  tight.check(8 * kMebibyte - 1, 10);  // what a plan may decide
  const std::string refusal = refusal_of([&] { tight.check(8 * kMebibyte, 1234567); });
  for (const char* part :
       {"[a.csv]", "8.00 MiB", "1,234,567 texts", "--memory_budget, 1.00 MiB", "--dataset_cache DIR"})
    EXPECT_TRUE(contains(refusal, part)) << refusal;
  MemoryWatch wide("a.csv", budget_with(1024 * kMebibyte));
  wide.check(64 * kMebibyte, 1);
  MemoryWatch of_system("a.csv", {});
  of_system.check(64 * kMebibyte, 1);
}

// The system is asked at 8 MiB and then each 4 MiB, whatever the steps.
TEST(MemoryWatch, ItLooksAgainAsDataGrow) {
  const std::vector<char> taken(static_cast<size_t>(kMebibyte), 'a');
  std::vector<std::vector<char>> more;
  const int64_t budget = budget_with(24 * kMebibyte);
  MemoryWatch watch("a.csv", budget);
  watch.check(8 * kMebibyte, 1);
  while (process_resident_bytes() <= budget) more.push_back(taken);
  watch.check(12 * kMebibyte - 1, 1);
  EXPECT_TRUE(contains(refusal_of([&] { watch.check(12 * kMebibyte, 2); }), "2 texts"));
}

TEST(MemoryWatch, ATableThatCannotFitIsNotRead) {
  const TestDirectory directory;
  const auto refusal = [&](const DataFiles& files, int64_t budget) {
    return refusal_of([&] { MemoryWatch(files, budget).check_table(); });
  };
  for (const char* name : {"a.csv", "a.tsv", "a.txt"}) {
    const fs::path file = sparse_file(directory, name, 256 * kMebibyte);
    const std::string refused = refusal(file, budget_with(64 * kMebibyte));
    for (const char* part :
         {name, "256.00 MiB", "nothing was read", "--memory_budget", "--dataset_cache DIR"})
      EXPECT_TRUE(contains(refused, part)) << refused;
    // Half of it might.
    EXPECT_EQ(refusal(file, budget_with(192 * kMebibyte)), "");
  }
  for (const char* name : {"a.jsonl", "a.csv.gz"})
    EXPECT_EQ(refusal(sparse_file(directory, name, 256 * kMebibyte), 1), "") << name;
  EXPECT_EQ(refusal(sparse_file(directory, "few.csv", kMebibyte), 1), "");
  const std::vector<fs::path> both = {sparse_file(directory, "b.csv", 96 * kMebibyte),
                                      sparse_file(directory, "c.csv", 96 * kMebibyte)};
  EXPECT_TRUE(contains(refusal(DataFiles(both), budget_with(64 * kMebibyte)), "192.00 MiB"));
}

TEST(MemoryWatch, StandardInputIsToBecomeAFile) {
  MemoryWatch watch("-", 1);
  EXPECT_TRUE(contains(refusal_of([&] { watch.check(8 * kMebibyte, 1); }),
                       "write the text into a file: --dataset_cache DIR"));
}

// Nothing is left from the beginning, so that data are refused when they are 8 MiB: while cells are read, while these are
// tokenized, and of a language model's texts, which are not held, while they are.
TEST(MemoryWatch, LoadingHeedsIt) {
  const TestDirectory directory;
  int64_t tokenized = 0;
  const auto of_length = [&](size_t length) {
    return [&tokenized, length](std::span<const TextExample> texts) {
      tokenized += std::ssize(texts);
      return std::vector<TokenizedExample>(
          texts.size(), {.input_ids = std::vector<int32_t>(length, 7), .token_type_ids = {}});
    };
  };
  std::string rows;
  for (int i = 0; i < 30'000; ++i) rows += fmt::format("{{\"label\": {}, \"text\": \"t\"}}\n", i % 2);
  const fs::path file = directory.write("rows.jsonl", rows);
  const LoadOptions tight{.memory_budget_bytes = 1};
  EXPECT_TRUE(contains(refusal_of([&] { load_dataset(file, of_length(200), tight); }), "rows.jsonl"));
  EXPECT_GT(tokenized, 5'000) << "cells alone are small";
  EXPECT_LT(tokenized, 12'000) << "8 MiB are 10,486 texts of 200 tokens, or fewer with the room to grow";
  tokenized = 0;
  EXPECT_TRUE(contains(refusal_of([&] { load_texts(file, of_length(200), {.memory_budget_bytes = 1}); }),
                       "rows.jsonl"));
  EXPECT_GT(tokenized, 5'000);
  EXPECT_LT(tokenized, 12'000);
  tokenized = 0;
  const std::string long_text(5'000, 'x');
  for (int i = 0; i < 3'000; ++i)
    rows += fmt::format("{{\"label\": {}, \"text\": \"{}\"}}\n", i % 2, long_text);
  directory.write("rows.jsonl", rows);
  const std::string refusal = refusal_of([&] { load_dataset(file, of_length(1), tight); });
  EXPECT_TRUE(contains(refusal, "texts, and nothing left of --memory_budget")) << refusal;
  EXPECT_EQ(tokenized, 0);
  EXPECT_EQ(load_dataset(file, of_length(200)).dataset.size(), 33'000);
}

}  // namespace
}  // namespace shoehorn
