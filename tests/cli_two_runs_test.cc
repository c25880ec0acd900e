// Two runs into one output directory: the second is refused at once, whatever it would have done there.
#include <chrono>
#include <thread>

#include "cli_support.h"
#include "io/checkpoint_directory.h"
#include "models/bert.h"
#include "train/accelerator.h"
#include "train/test_support.h"
#include "train/trainer.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

class CliTwoRuns : public CliTest {
 protected:
  CliTwoRuns() { fs::create_directory(path("first")); }

  std::vector<std::string> first_words() const {
    return train_words({"--max_steps", "400", "--save_steps", "2", "--save_total_limit", "2"});
  }

  // Lets it run to its first checkpoint, and stops it there.
  void stop_at_a_checkpoint(const StartedProgram& program) const {
    while (!latest_checkpoint(output()).path && kill(program.pid(), 0) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(program.pid(), SIGSTOP);
    siginfo_t stopped{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(program.pid()), &stopped, WSTOPPED | WEXITED | WNOWAIT), 0);
    ASSERT_EQ(stopped.si_code, CLD_STOPPED) << "it ended before";
  }

  // Names and times of all files.
  std::vector<std::string> state() const {
    std::vector<std::string> all;
    for (const std::string& name : written())
      all.push_back(
          fmt::format("{} {}", name, fs::last_write_time(output() / name).time_since_epoch().count()));
    return all;
  }
};

TEST_F(CliTwoRuns, TheSecondIsRefusedAndChangesNothing) {
  StartedProgram first(first_words(), path("first"));
  stop_at_a_checkpoint(first);
  const std::vector<std::string> before = state();
  const std::string holder = fmt::format("held by process {} on ", first.pid());
  const std::vector<std::string> seconds[] = {
      train_words(),
      train_words({"--overwrite_output_dir"}),
      train_words({"--resume_from_checkpoint"}),
      train_words({"--save_strategy", "no", "--output_dir", path("first/../out/.")}),
      {"eval", "--model_name_or_path", model(), "--validation_file", path("validation.csv"), "--output_dir",
       output()},
      train_words({"--fit", "--memory_budget", "1MiB"}),  // for which its search finds nothing
      {"tokenizer", "train", "--vocab_size", "300", "--output_dir", output(), path("validation.csv")}};
  for (const std::vector<std::string>& words : seconds) {
    expect_failure(words, 2, {holder, ", since 2", "give another directory"});
    EXPECT_EQ(state(), before);
  }
  // Reading is fine, and predictions are a file of their own.
  const fs::path checkpoint = *latest_checkpoint(output()).path;
  EXPECT_EQ(run({"eval", "--model_name_or_path", checkpoint, "--validation_file", path("validation.csv"),
                 "--output_dir", path("results")})
                .exit_code,
            0);
  EXPECT_EQ(run({"predict", "--model_name_or_path", checkpoint, "--test_file", path("validation.csv"),
                 "--output_dir", output()})
                .exit_code,
            0);
  // Killed, it holds nothing any more.
  kill(first.pid(), SIGKILL);
  kill(first.pid(), SIGCONT);
  first.wait();
  const ProgramRun next = run(train_words({"--overwrite_output_dir"}));
  EXPECT_EQ(next.exit_code, 0) << next.error;
  EXPECT_FALSE(fs::exists(output() / ".shoehorn_lock"));
}

TEST_F(CliTwoRuns, ALibrarysSaveIsRefusedToo) {
  StartedProgram first(first_words(), path("first"));
  stop_at_a_checkpoint(first);
  const BertForSequenceClassification bert = BertForSequenceClassification::from_pretrained(model());
  TrainingArguments args;
  args.output_dir = path("another").string();
  Trainer trainer(bert, args,
                  Dataset::random_tokens({.count = 8, .length = 4, .vocab_begin = 5, .vocab_end = 20}));
  const std::string holder = fmt::format("held by process {} on ", first.pid());
  EXPECT_TRUE(contains(message_of<UserError>([&] { trainer.save_model(output()); }), holder));
  Accelerator accelerator(args);
  accelerator.prepare(
      bert, create_optimizer(args),
      DataLoader(Dataset::random_tokens({.count = 8, .length = 4, .vocab_begin = 5, .vocab_end = 20}),
                 {.batch_size = 4}));
  EXPECT_TRUE(contains(message_of<UserError>([&] { accelerator.save_model(output()); }), holder));
  kill(first.pid(), SIGKILL);
  kill(first.pid(), SIGCONT);
  first.wait();
  EXPECT_NO_THROW(trainer.save_model(output()));
}

// In one process the second may begin while the first is still there: what is locked is the work, not the trainer.
TEST_F(CliTwoRuns, TrainersOneAfterTheOther) {
  const BertForSequenceClassification bert = BertForSequenceClassification::from_pretrained(model());
  TrainingArguments args;
  args.output_dir = output().string();
  args.max_steps = 2;
  args.save_steps = 1;
  const auto samples = [] {
    return Dataset::random_tokens({.count = 8, .length = 4, .vocab_begin = 5, .vocab_end = 20});
  };
  Trainer first(bert, args, samples());
  first.train();
  Trainer second(bert, args, samples());
  EXPECT_NO_THROW(second.train());
  EXPECT_NO_THROW(first.save_model(output()));
  EXPECT_FALSE(fs::exists(output() / ".shoehorn_lock"));
}

}  // namespace
}  // namespace shoehorn
