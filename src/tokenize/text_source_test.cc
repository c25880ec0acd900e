#include "tokenize/text_source.h"

#include <gtest/gtest.h>

#include "io/compress_testing.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

struct Reading {
  std::vector<std::string> texts;
  size_t batches = 0;
};

Reading read(TextSource& source) {
  Reading reading;
  EXPECT_EQ(source.read([&](const TextBatch& batch) {
    ++reading.batches;
    size_t begin = 0;
    for (const size_t end : batch.ends) {
      reading.texts.push_back(batch.bytes.substr(begin, end - begin));
      begin = end;
    }
    EXPECT_EQ(begin, batch.bytes.size());
  }),
            0);
  return reading;
}

TEST(TextSource, LinesKeepTheirEnds) {
  const TestDirectory directory;
  const auto path = directory.write("a.txt", "one\r\n\ntwo three\n \nlast");
  EXPECT_EQ(read(*open_text_file(path)).texts,
            (std::vector<std::string>{"one\r\n", "\n", "two three\n", " \n", "last"}));
  directory.write("a.txt", "one\n");
  EXPECT_EQ(read(*open_text_file(path)).texts, (std::vector<std::string>{"one\n"}));
  directory.write("a.txt", "");
  EXPECT_EQ(read(*open_text_file(path)).batches, 0U);
}

// Lines that are shorter than a batch, longer, and as long.
TEST(TextSource, BatchesOfAnySizeGiveTheSameLines) {
  const TestDirectory directory;
  std::string bytes;
  std::vector<std::string> expected;
  for (size_t length : {3, 0, 7, 8, 9, 100, 1, 15, 16, 17, 5}) {
    expected.push_back(std::string(length, 'x') + "\n");
    bytes += expected.back();
  }
  const auto path = directory.write("a.txt", bytes);
  for (const int64_t batch_bytes : {1, 2, 8, 16, 1000}) {
    const Reading reading = read(*open_text_file(path, batch_bytes));
    EXPECT_EQ(reading.texts, expected) << batch_bytes;
    if (batch_bytes == 8) {
      EXPECT_GE(reading.batches, 5U);
    }
  }
}

// A batch's worth of text is longer than what the file takes on the disk.
TEST(TextSource, CompressedFilesAreTexts) {
  const TestDirectory directory;
  std::string bytes;
  for (int line = 0; line < 500; ++line) bytes += "the lamps along the quay\n";
  const std::vector<std::string> expected = read(*open_text_file(directory.write("a.txt", bytes), 16)).texts;
  EXPECT_EQ(expected.size(), 500U);
  for (const auto& [name, text] :
       {std::pair("a.txt.gz", gzip(bytes)), std::pair("a.txt.zst", zstandard(bytes))})
    EXPECT_EQ(read(*open_text_file(directory.write(name, text), 16)).texts, expected) << name;
  EXPECT_TRUE(contains(refusal_of([&] { open_text_file(directory.write("b.txt", gzip(bytes))); }), "gzip"));
}

TEST(TextSource, TextsInMemory) {
  const std::vector<std::string> texts = {"a\nb", "", "c"};
  const Reading reading = read(*text_source(texts));
  EXPECT_EQ(reading.texts, texts);
  EXPECT_EQ(reading.batches, 1U);
}

TEST(TextSource, Refusals) {
  const TestDirectory directory;
  const auto refusal = [](const std::filesystem::path& path) {
    return refusal_of([&] { open_text_file(path); });
  };
  EXPECT_TRUE(contains(refusal(directory.path() / "absent.txt"), "absent.txt"));
  EXPECT_TRUE(contains(refusal(directory.path()), "regular file"));
  EXPECT_TRUE(contains(refusal(directory.write("a.txt", "\xfe\xff\x01")), "UTF-16"));
  EXPECT_TRUE(contains(refusal(directory.write("a.txt", "\xff\xfe\x01")), "UTF-16"));
}

}  // namespace
}  // namespace shoehorn
