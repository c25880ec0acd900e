#include "cli/loading_progress.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/stop_request.h"

namespace shoehorn {
namespace {

constexpr const char* kErased = "\r\x1b[K";

// On a terminal and with a clock of the test.
class LoadingProgressTest : public testing::Test {
 protected:
  LoadingProgress progress(bool is_terminal = true) {
    ProgressOptions options;
    options.stream = &shown_;
    options.terminal = is_terminal;
    options.unicode = false;
    options.clock_seconds = [this] { return now_ += 1; };
    return LoadingProgress(options);
  }
  // What was shown since the last call.
  std::string shown() {
    std::string text = shown_.str();
    shown_.str("");
    return text;
  }

  double now_ = 0;
  std::ostringstream shown_;
};

TEST_F(LoadingProgressTest, EachWorkHasItsBarOneAtATime) {
  const LoadingProgress loading = progress();
  const auto of_cache = loading.of_cache();
  const auto of_rows = loading.of_rows();
  constexpr int64_t kGibibyte = int64_t{1} << 30;
  EXPECT_EQ(shown(), "");
  for (int64_t part = 1; part < 4; ++part) of_cache(CacheWork::kHashTexts, part * kGibibyte, 4 * kGibibyte);
  const std::string hashing = shown();
  EXPECT_NE(hashing.find("hash texts  50% "), std::string::npos) << hashing;
  EXPECT_NE(hashing.find("3.00 GiB of 4.00 GiB"), std::string::npos) << hashing;
  EXPECT_EQ(hashing.find("25%"), std::string::npos) << "before it took two seconds";
  of_rows(100, 400);
  EXPECT_EQ(shown(), kErased);
  for (int64_t rows = 200; rows <= 400; rows += 100) of_rows(rows, 400);
  const std::string tokenizing = shown();
  EXPECT_NE(tokenizing.find("tokenize  50% "), std::string::npos) << tokenizing;
  EXPECT_TRUE(tokenizing.ends_with(kErased)) << "it vanishes when all is done: " << tokenizing;
  for (int64_t part = 0; part < 3; ++part) of_cache(CacheWork::kVerifyTokens, part, 4);
  EXPECT_NE(shown().find("verify tokens  50% "), std::string::npos);
  of_rows(100, 400);
  EXPECT_EQ(shown(), kErased) << "more than before, but of another work";
}

// A second file's rows count from 0 again, in time too.
TEST_F(LoadingProgressTest, ASecondFileHasItsOwnBar) {
  const auto of_texts = progress().of_texts();
  for (int64_t texts = 512; texts <= 2048; texts += 512) of_texts(texts);
  EXPECT_NE(shown().find("tokenize 2048 texts"), std::string::npos);
  of_texts(512);
  EXPECT_EQ(shown(), kErased);
}

// Rows of a table whose end is not known, then its labels.
TEST_F(LoadingProgressTest, RowsAreReadAndLabelsCounted) {
  const LoadingProgress loading = progress();
  const auto of_rows_read = loading.of_rows_read();
  for (int64_t rows = 512; rows <= 2048; rows += 512) of_rows_read(rows);
  EXPECT_NE(shown().find("read 2048 texts"), std::string::npos);
  const auto of_labels = loading.of_labels();
  for (int64_t samples = 1000; samples <= 4000; samples += 1000) of_labels(samples, 4000);
  const std::string counting = shown();
  EXPECT_TRUE(counting.starts_with(kErased)) << counting;
  EXPECT_NE(counting.find("count labels  75% "), std::string::npos) << counting;
  EXPECT_TRUE(counting.ends_with(kErased)) << counting;
}

TEST_F(LoadingProgressTest, ItHeedsAStop) {
  const LoadingProgress loading = progress();
  const auto of_cache = loading.of_cache();
  of_cache(CacheWork::kHashTexts, 1, 4);
  request_stop();
  EXPECT_THROW(of_cache(CacheWork::kHashTexts, 2, 4), Stopped);
  EXPECT_THROW(loading.of_rows()(1, 4), Stopped);
  EXPECT_THROW(loading.of_texts()(1), Stopped);
  EXPECT_THROW(loading.of_rows_read()(1), Stopped);
  EXPECT_THROW(loading.of_labels()(1, 4), Stopped);
  clear_stop_request();
}

TEST_F(LoadingProgressTest, NothingIsDrawnWithoutATerminal) {
  const auto of_cache = progress(false).of_cache();
  for (int64_t part = 0; part < 20; ++part) of_cache(CacheWork::kHashTexts, part, 40);
  EXPECT_EQ(shown(), "");
}

}  // namespace
}  // namespace shoehorn
