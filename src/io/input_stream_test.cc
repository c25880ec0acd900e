#include "io/input_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include "base/stop_request.h"
#include "io/compress_testing.h"
#include "io/decompressor.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

// All bytes of the stream, read `piece` at a time.
std::string read_all(InputStream& stream, size_t piece) {
  std::string text;
  std::string buffer(piece, '\0');
  while (const size_t bytes = stream.read(std::as_writable_bytes(std::span(buffer))))
    text.append(buffer, 0, bytes);
  return text;
}

std::string read_file(const std::filesystem::path& path, size_t piece = 100'000) {
  return read_all(*open_input(path), piece);
}

// Longer than what is decompressed at once, and as hard to compress as texts are.
std::string long_text() {
  std::mt19937 random(7);
  std::string text;
  while (text.size() < 1'000'000) text += fmt::format("row {} of {}\n", random() % 1000, random());
  return text;
}

class InputStreamTest : public testing::Test {
 protected:
  std::string read_as(const std::string& name, std::string_view bytes, size_t piece = 100'000) {
    return read_file(directory_.write(name, bytes), piece);
  }
  std::string error_of(const std::string& name, std::string_view bytes) {
    return message_of<UserError>([&] { read_as(name, bytes); });
  }

  const TestDirectory directory_;
};

TEST_F(InputStreamTest, ReadsFilesAndWhatCompressedOnesHold) {
  const std::string text = long_text();
  for (const std::string& content : {std::string(), std::string("a"), std::string("ab\n"), text}) {
    SCOPED_TRACE(content.size());
    EXPECT_TRUE(read_as("a.csv", content) == content);
    EXPECT_TRUE(read_as("a.csv.gz", gzip(content)) == content);
    EXPECT_TRUE(read_as("a.csv.zst", zstandard(content)) == content);
  }
  EXPECT_TRUE(read_as("A.CSV.GZ", gzip(text), 7) == text);
  EXPECT_TRUE(read_as("a.zst", zstandard(text), 7) == text);
}

TEST_F(InputStreamTest, MembersAndFramesAreOneText) {
  const std::string text = long_text();
  EXPECT_TRUE(read_as("a.gz", gzip(text) + gzip("") + gzip(text) + std::string(70'000, '\0')) == text + text);
  EXPECT_EQ(read_as("a.gz", gzip("a") + std::string(3, '\0') + gzip("b")), "ab");
  const std::string skippable("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
  EXPECT_TRUE(read_as("a.zst", skippable + zstandard(text) + zstandard("") + skippable + zstandard("b")) ==
              text + "b");
}

TEST_F(InputStreamTest, EveryTruncationIsAnErrorThatNamesTheFile) {
  std::string text = "label,text\n";
  for (int i = 0; i < 40; ++i) text += fmt::format("{},row {}\n", i * i % 7, i * 31);
  for (const auto& [name, whole] :
       {std::pair("a.csv.gz", gzip(text)), std::pair("a.csv.zst", zstandard(text))}) {
    for (size_t bytes = 4; bytes < whole.size(); ++bytes) {
      const std::string error = error_of(name, whole.substr(0, bytes));
      ASSERT_TRUE(contains(error, name) && contains(error, "ends early")) << bytes << ": " << error;
    }
    const std::string second = error_of(name, whole + whole.substr(0, whole.size() - 1));
    EXPECT_TRUE(contains(second, "ends early")) << second;
  }
}

TEST_F(InputStreamTest, EveryFlippedBitIsAnErrorOrChangesNothing) {
  const std::string text = "label,text\n1,one\n0,none\n1,one and one\n";
  for (const auto& [name, whole] :
       {std::pair("a.csv.gz", gzip(text)), std::pair("a.csv.zst", zstandard(text))}) {
    int64_t refused = 0;
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      try {
        // Bits of a header that say when and where it was compressed may be anything.
        ASSERT_EQ(read_as(name, damaged), text) << name << " " << bit;
      } catch (const UserError& error) {
        ASSERT_TRUE(contains(error.what(), name)) << error.what();
        ++refused;
      }
    }
    EXPECT_GE(refused, std::ssize(whole) * 8 / 2) << name;
  }
}

TEST_F(InputStreamTest, DamageIsDescribed) {
  std::string wrong_sum = gzip("one two three");
  wrong_sum[wrong_sum.size() - 8] ^= 1;
  EXPECT_TRUE(contains(error_of("a.gz", wrong_sum), "damaged bytes (incorrect data check)"));
  std::string wrong_checksum = zstandard("one two three");
  wrong_checksum.back() ^= 1;
  EXPECT_TRUE(contains(error_of("a.zst", wrong_checksum), "checksum"));
  EXPECT_TRUE(contains(error_of("a.gz", gzip("a") + "more"), "damaged bytes (incorrect header check)"));
  EXPECT_TRUE(contains(error_of("a.zst", zstandard("a") + "more"), "damaged bytes"));
  EXPECT_TRUE(contains(error_of("a.zst", zstandard(long_text(), 28)), "window of at most 128 MiB"));
}

TEST_F(InputStreamTest, NamesAndBytesMustAgree) {
  EXPECT_TRUE(contains(error_of("a.csv", gzip("a")), "a.csv] expected text, got gzip; name it a.csv.gz"));
  EXPECT_TRUE(contains(error_of("a.csv", zstandard("a")), "name it a.csv.zst"));
  EXPECT_TRUE(contains(error_of("a.gz", zstandard("a")), "expected gzip, as it is named, got Zstandard"));
  EXPECT_TRUE(contains(error_of("a.zst", gzip("a")), "expected Zstandard, as it is named, got gzip"));
  for (const std::string bytes : {"", "a", "label,text\n", "\x1f"})
    EXPECT_TRUE(contains(error_of("a.gz", bytes), "got something else; rename it, or compress it"));
}

// What a few bytes stand for is given in pieces: who reads them can stop.
TEST_F(InputStreamTest, SmallFilesThatStandForVeryMuchAreReadInPieces) {
  const std::string zeros(size_t{64} << 20, '0');
  for (const auto& [name, whole] : {std::pair("a.gz", gzip(zeros)), std::pair("a.zst", zstandard(zeros))}) {
    ASSERT_LT(whole.size(), 70'000U);
    const auto stream = open_input(directory_.write(name, whole + whole + whole));
    std::string buffer(4096, ' ');
    for (int i = 0; i < 1000; ++i) {
      const size_t bytes = stream->read(std::as_writable_bytes(std::span(buffer)));
      ASSERT_TRUE(bytes > 0 && bytes <= buffer.size());
      ASSERT_EQ(buffer[bytes - 1], '0');
    }
  }
}

TEST_F(InputStreamTest, PathsThatAreNoFiles) {
  EXPECT_TRUE(contains(message_of<UserError>([] { open_input("/nonexistent/a.csv.gz"); }),
                       "got nothing of that name"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { open_input(directory_.path()); }), "got a directory"));
}

TEST(InputNames, AreThoseOfWhatIsInside) {
  EXPECT_EQ(without_compression("a/train.csv.gz"), "a/train.csv");
  EXPECT_EQ(without_compression("train.tsv.ZST"), "train.tsv");
  EXPECT_EQ(without_compression("train.gz.csv"), "train.gz.csv");
  EXPECT_EQ(input_name("-"), "standard input");
  EXPECT_EQ(input_name("./-"), "./-");
  EXPECT_TRUE(is_standard_input("-"));
  EXPECT_FALSE(is_standard_input("./-"));
}

// Standard input is a pipe with what `write` puts into it, in this process.
class StandardInputTest : public testing::Test {
 protected:
  StandardInputTest() : saved_(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10)) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    writing_ = FileDescriptor(ends[1]);
  }
  ~StandardInputTest() override {
    if (saved_.is_open()) {
      dup2(saved_.get(), STDIN_FILENO);
    } else {
      close(STDIN_FILENO);
    }
  }

  // One byte at a time, as slow pipes do; then the end.
  std::string read_written(const std::string& bytes) {
    std::thread writer([&] {
      for (const char byte : bytes) EXPECT_EQ(write(writing_.get(), &byte, 1), 1);
      writing_.close();
    });
    std::string text;
    try {
      text = read_file("-");
    } catch (const UserError& error) {
      text = error.what();
    }
    writer.join();
    return text;
  }

  FileDescriptor saved_;
  FileDescriptor writing_;
};

TEST_F(StandardInputTest, IsReadToItsEnd) {
  EXPECT_EQ(read_written("label,text\n1,a\n"), "label,text\n1,a\n");
}

TEST_F(StandardInputTest, MayBeEmpty) {
  EXPECT_EQ(read_written(""), "");
}

TEST_F(StandardInputTest, MayBeCompressed) {
  EXPECT_EQ(read_written(gzip("one two") + gzip(" three")), "one two three");
}

TEST_F(StandardInputTest, MayBeDamaged) {
  const std::string whole = zstandard("one two three");
  EXPECT_TRUE(
      contains(read_written(whole.substr(0, 8)), "[standard input] expected Zstandard up to its end"));
}

TEST_F(StandardInputTest, EndsTheWaitWhereAStopIsRequested) {
  const StopSignals signals;
  std::thread stopper([] { raise(SIGTERM); });
  EXPECT_THROW(read_file("-"), Stopped);
  stopper.join();
  clear_stop_request();
}

}  // namespace
}  // namespace shoehorn
