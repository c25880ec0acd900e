#include <gtest/gtest.h>

#include <sstream>

#include "base/stop_request.h"
#include "io/checkpoint_directory.h"
#include "io/test_directory.h"
#include "train/test_support.h"
#include "train/trainer.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// What a terminal gets of a run by a clock that moves a second each time it is read.
class TrainerProgress : public testing::Test {
 protected:
  TrainerOptions options() {
    TrainerOptions options;
    options.progress.stream = &stream_;
    options.progress.terminal = true;
    options.progress.unicode = false;
    options.progress.clock_seconds = [this] { return now_ += 1; };
    return options;
  }

  TrainingArguments arguments(const std::string& output_dir) {
    TrainingArguments args = quiet_arguments(8);
    args.max_steps = 3;
    args.logging_steps = 1;
    args.output_dir = output_dir;
    return args;
  }

  bool shows(const std::string& text) const { return stream_.str().find(text) != std::string::npos; }

  std::ostringstream stream_;
  double now_ = 0;
};

TEST_F(TrainerProgress, TheBarShowsTheStepThatTheLineAboveItTellsOf) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(0));
  Trainer trainer(model, arguments(directory.path().string()), tiny_samples(24, 5), {}, options());
  trainer.train();
  std::string text = stream_.str();
  for (const char* step : {" 1/3", " 2/3", " 3/3"}) {
    const size_t line = text.find("step ");
    ASSERT_NE(line, std::string::npos) << step;
    text = text.substr(text.find('\n', line));
    EXPECT_NE(text.substr(0, text.find('\r')).find(step), std::string::npos) << step;
  }
}

TEST_F(TrainerProgress, LoadingEvaluatingAndSavingHaveTheirBars) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(0));
  TrainingArguments args = arguments(directory.path().string());
  args.save_strategy = "steps";
  args.save_steps = 3;
  args.eval_strategy = "steps";
  args.eval_steps = 3;
  Trainer trainer(model, args, tiny_samples(24, 5), tiny_samples(24, 6), options());
  trainer.train();
  EXPECT_TRUE(shows("load weights"));
  EXPECT_TRUE(shows("evaluate"));
  EXPECT_TRUE(shows("save checkpoint"));
  EXPECT_FALSE(shows("save model"));
  trainer.save_model(directory.path() / "model");
  EXPECT_TRUE(shows("save model"));

  stream_.str("");
  args.resume_from_checkpoint = (directory.path() / "checkpoint-3").string();
  args.max_steps = 4;
  Trainer(model, args, tiny_samples(24, 5), tiny_samples(24, 6), options()).train();
  EXPECT_TRUE(shows("load checkpoint"));
  EXPECT_TRUE(shows("100%")) << "what is counted is what is loaded";
}

// Samples are read for the hash that a checkpoint keeps. A stop ends that before the run changes anything.
TEST_F(TrainerProgress, HashingHasItsBarAndHeedsAStop) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(0));
  TrainingArguments args = arguments(directory.path().string());
  args.save_strategy = "steps";
  args.save_steps = 3;
  const Dataset many = Dataset::random_tokens(
      {.count = 120000, .length = 8, .vocab_begin = 5, .vocab_end = 20, .num_labels = 3});
  Trainer(model, args, many, {}, options()).train();
  EXPECT_TRUE(shows("hash samples"));
  EXPECT_TRUE(shows("3.00 MiB of 3.66 MiB")) << "four bytes a token";

  args.overwrite_output_dir = true;
  Trainer stopped(model, args, many, {}, options());
  request_stop();
  EXPECT_THROW(stopped.train(), Stopped);
  clear_stop_request();
  EXPECT_EQ(list_checkpoints(directory.path()).size(), 1U) << "what is to be overwritten is still there";
}

}  // namespace
}  // namespace shoehorn
