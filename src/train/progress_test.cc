#include "train/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <vector>

namespace shoehorn {
namespace {

class ProgressTest : public testing::Test {
 protected:
  ProgressOptions options(bool terminal) {
    ProgressOptions options;
    options.stream = &stream_;
    options.terminal = terminal;
    options.unicode = false;
    options.columns = [this] { return columns_; };
    options.clock_seconds = [this] { return now_; };
    options.on_log_line = [this](const std::string& line) { lines_.push_back(line); };
    return options;
  }

  // What was written since the last call.
  std::string written() {
    std::string text = stream_.str();
    stream_.str("");
    return text;
  }

  std::ostringstream stream_;
  double now_ = 100.0;
  int64_t columns_ = 80;
  std::vector<std::string> lines_;
};

TEST_F(ProgressTest, DrawsOneLineThatFitsTheTerminal) {
  Progress progress("train", 0, 100, options(true));
  now_ = 110.0;
  progress.update(42, 336, 0.42126);
  EXPECT_EQ(written(), "train  42% #######------------ 42/100  33.6 samples/s  loss 0.4213  13.8 s left");
}

// Of ten steps the first five are 4 samples each, the others 16: 40 of 100.
TEST_F(ProgressTest, StepsOfUnequalWork) {
  ProgressOptions unequal = options(true);
  unequal.work_of = [](int64_t step) {
    return static_cast<double>(step <= 5 ? 4 * step : 20 + 16 * (step - 5));
  };
  Progress progress("train", 0, 10, unequal);
  now_ = 110.0;
  progress.update(5, 20);
  EXPECT_EQ(written(), "train  20% #######---------------------------- 5/10  2.0 samples/s  40.0 s left");
}

TEST_F(ProgressTest, NeverWiderThanTheTerminal) {
  for (columns_ = 1; columns_ < 160; ++columns_) {
    Progress progress("train", 0, 100000, options(true));
    now_ += 10.0;
    progress.update(777, 12345, 0.5);
    const std::string line = written();
    EXPECT_LE(static_cast<int64_t>(line.size()), std::max<int64_t>(1, columns_ - 1));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    progress.finish();
    written();
  }
}

TEST_F(ProgressTest, RedrawsAtMostOncePerRefreshAndAlwaysAtTheEnd) {
  Progress progress("train", 0, 10, options(true));
  progress.update(1, 8);
  EXPECT_NE(written(), "");
  now_ += 0.05;
  progress.update(2, 16);
  EXPECT_EQ(written(), "");
  now_ += 0.06;
  progress.update(3, 24);
  EXPECT_TRUE(written().starts_with("\r\x1b[Ktrain  30%"));
  progress.update(10, 80);
  EXPECT_NE(written().find("100%"), std::string::npos);
}

TEST_F(ProgressTest, FinishLeavesTheLastStateOnce) {
  {
    Progress progress("eval", 0, 4, options(true));
    now_ += 2.0;
    progress.update(4, 16);
    written();
    progress.finish();
    EXPECT_EQ(written(),
              "\r\x1b[Keval 100% ######################################## 4/4  8.0 samples/s  2.0 s\n");
    progress.finish();
    progress.update(4, 16);
  }
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressTest, AbandonLeavesAnEmptyLine) {
  {
    Progress progress("train", 0, 4, options(true));
    now_ += 2.0;
    progress.update(1, 4);
    written();
    progress.abandon();
    EXPECT_EQ(written(), "\r\x1b[K");
    progress.update(2, 8);
    progress.abandon();
  }
  EXPECT_EQ(written(), "");
  Progress elsewhere("train", 0, 4, options(false));
  elsewhere.abandon();
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressTest, LogLinesStandAboveTheBar) {
  Progress progress("train", 0, 10, options(true));
  now_ += 1.0;
  progress.update(5, 40);
  written();
  progress.log_line("loss 0.5");
  EXPECT_TRUE(written().starts_with("\r\x1b[Kloss 0.5\ntrain  50%"));
  EXPECT_TRUE(lines_.empty());
}

TEST_F(ProgressTest, WritesNothingWhereThereIsNoTerminal) {
  {
    Progress progress("train", 0, 10, options(false));
    now_ += 1.0;
    progress.update(5, 40, 0.5);
    progress.log_line("loss 0.5");
    progress.update(10, 80, 0.25);
    progress.log_line("loss 0.25");
  }
  EXPECT_EQ(written(), "");
  EXPECT_EQ(lines_, (std::vector<std::string>{"loss 0.5", "loss 0.25"}));
}

TEST_F(ProgressTest, ALineEveryHalfMinuteWhereThereIsNoTerminal) {
  Progress progress("train", 0, 100, options(false));
  now_ += 29;
  progress.update(29, 58);
  EXPECT_EQ(written(), "");
  now_ += 1;
  progress.update(30, 60, 0.5);
  EXPECT_EQ(written(), "train  30% 30/100  2.0 samples/s  loss 0.5000  1:10 left\n");
  now_ += 20;
  progress.log_line("loss 0.5");
  now_ += 20;
  progress.update(70, 140);
  EXPECT_EQ(written(), "") << "a log line 20 seconds ago said as much";
  now_ += 10;
  progress.update(80, 160);
  EXPECT_EQ(written(), "train  80% 80/100  2.0 samples/s  loss 0.5000  20.0 s left\n");
  EXPECT_EQ(lines_, std::vector<std::string>{"loss 0.5"});
}

TEST_F(ProgressTest, ALongStepShowsItsShare) {
  Progress bar("train", 0, 4, options(true));
  now_ = 101.5;
  bar.move_within_step(0.3);
  EXPECT_EQ(written(), "") << "a step of a second is not taken apart";
  now_ = 110.0;
  bar.move_within_step(0.5);
  EXPECT_EQ(written(), "train  12% #####----------------------------------- 0/4  step 1 50%  1:10 left");
  now_ = 120.0;
  bar.update(1, 8);
  EXPECT_EQ(written(),
            "\r\x1b[Ktrain  25% #########----------------------------- 1/4  0.4 samples/s  1:00 left");
}

TEST_F(ProgressTest, ALineOfALongStepWhereThereIsNoTerminal) {
  Progress progress("train", 0, 2, options(false));
  for (now_ = 100; now_ < 165; now_ += 1) progress.move_within_step((now_ - 100) / 100);
  EXPECT_EQ(written(), "train  15% 0/2  step 1 30%  2:50 left\ntrain  30% 0/2  step 1 60%  2:20 left\n");
}

TEST_F(ProgressTest, WithoutAStreamThereIsNothing) {
  ProgressOptions silent = options(true);
  silent.stream = nullptr;
  Progress progress("train", 0, 100, silent);
  now_ += 100;
  progress.update(50, 100);
  progress.log_line("loss 0.5");
  progress.finish();
  EXPECT_EQ(written(), "");
  EXPECT_EQ(lines_, std::vector<std::string>{"loss 0.5"});
}

TEST_F(ProgressTest, BesideTheMainWorkABarAppearsLateAndVanishes) {
  Progress progress("evaluate", 0, 100, beside_main_work(options(true)));
  now_ += 1.9;
  progress.update(10, 10);
  EXPECT_EQ(written(), "");
  now_ += 0.6;
  progress.update(20, 20);
  EXPECT_EQ(written(),
            "\r\x1b[Kevaluate  20% ######------------------------ 20/100  8.0 samples/s  10.0 s left");
  progress.finish();
  EXPECT_EQ(written(), "\r\x1b[K");
  Progress quick("evaluate", 0, 100, beside_main_work(options(true)));
  quick.update(100, 100);
  quick.finish();
  EXPECT_EQ(written(), "") << "nothing was drawn, so nothing is erased";
}

TEST_F(ProgressTest, BytesAndTexts) {
  constexpr int64_t kMiB = 1 << 20;
  Progress bytes("save model", 0, 200 * kMiB, beside_main_work(options(true), ProgressUnit::kBytes));
  now_ += 4;
  bytes.update(50 * kMiB, 50 * kMiB);
  EXPECT_EQ(written(),
            "\r\x1b[Ksave model  25% ###---------- 50.00 MiB of 200.00 MiB  12.50 MiB/s  12.0 s left");
  Progress texts("tokenize", 0, 0, beside_main_work(options(true), ProgressUnit::kTexts));
  now_ += 4;
  texts.update(1000, 1000);
  EXPECT_EQ(written(), "\r\x1b[Ktokenize 1000 texts  250 texts/s");
}

TEST_F(ProgressTest, ResumedRunsCountTheirOwnTime) {
  Progress progress("train", 90, 100, options(true));
  now_ += 5.0;
  progress.update(95, 40);
  EXPECT_NE(written().find(" 95/100  8.0 samples/s  5.0 s left"), std::string::npos);
}

TEST_F(ProgressTest, ColorAndUnicodeOnlyWhenAsked) {
  ProgressOptions plain = options(true);
  plain.color = true;
  plain.unicode = true;
  Progress progress("train", 0, 2, plain);
  now_ += 1.0;
  progress.update(1, 8);
  const std::string line = written();
  EXPECT_NE(line.find("\x1b[32m━"), std::string::npos);
  EXPECT_NE(line.find("━\x1b[0m─"), std::string::npos);
}

TEST_F(ProgressTest, AFileIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const ProgressOptions detected = detect_terminal(file, stream_);
  EXPECT_FALSE(detected.terminal);
  EXPECT_FALSE(detected.color);
  EXPECT_EQ(detected.stream, &stream_);
  setenv("COLUMNS", "123", 1);
  EXPECT_EQ(detect_terminal(file, stream_).columns(), 123);
  unsetenv("COLUMNS");
  EXPECT_EQ(detect_terminal(file, stream_).columns(), 80);
  std::fclose(file);
}

}  // namespace
}  // namespace shoehorn
