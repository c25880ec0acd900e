// Signals to the program at random instants: it ends with the signal's exit code, loses nothing that was finished,
// says how to go on, and the run that goes on ends where the run that was never stopped ends, bit for bit.
//
// SHOEHORN_SIGNALS=100 sends a hundred; by default a few seconds' worth.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/stop_request.h"
#include "cli_support.h"
#include "environment_count.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "on_terminal.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

int signals_to_send() {
  return environment_count("SHOEHORN_SIGNALS", 12);
}

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class CliSignals : public CliTest {
 protected:
  static constexpr int64_t kSteps = 12;

  std::vector<std::string> words(const fs::path& output_dir, bool resume = false) const {
    std::vector<std::string> all = train_words({"--output_dir",
                                                output_dir,
                                                "--max_steps",
                                                std::to_string(kSteps),
                                                "--save_steps",
                                                "5",
                                                "--eval_strategy",
                                                "steps",
                                                "--eval_steps",
                                                "3",
                                                "--validation_file",
                                                path("validation.csv"),
                                                "--logging_steps",
                                                "2",
                                                "--metric_for_best_model",
                                                "accuracy",
                                                "--gradient_accumulation_steps",
                                                "2",
                                                "--save_total_limit",
                                                "3"});
    if (resume) all.emplace_back("--resume_from_checkpoint");
    return all;
  }

  // A run that is far from its end when a signal comes, whatever the machine does meanwhile.
  std::vector<std::string> endless_words(std::vector<std::string> more = {}) const {
    std::vector<std::string> all =
        train_words({"--max_steps", "1000000", "--save_steps", "1000000", "--logging_steps", "1"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Interrupts the program later and later, until it is behind the beginning of main().
  ProgramRun interrupted_early(const std::vector<std::string>& all) const {
    ProgramRun stopped;
    for (double seconds = 0.1; stopped.exit_code == -1 && seconds < 10; seconds *= 1.5) {
      StartedProgram program(all, directory_.path());
      sleep_seconds(seconds);
      kill(program.pid(), SIGINT);
      stopped = program.wait();
    }
    return stopped;
  }

  // Waits until the program has said a text.
  static void wait_for(const StartedProgram& program, const std::string& text) {
    const auto start = std::chrono::steady_clock::now();
    while (program.output().find(text) == std::string::npos) {
      sleep_seconds(0.005);
      ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120)) << program.output();
    }
  }

  // The state without what a clock measured, and without a path.
  static std::string state_of(const fs::path& file) {
    nlohmann::json state = read_json(file);
    for (nlohmann::json& entry : state["log_history"]) {
      for (const char* name : {"eval_runtime", "eval_samples_per_second", "eval_steps_per_second"})
        entry.erase(name);
    }
    state.erase("best_model_checkpoint");
    return state.dump();
  }

  void expect_finished(const fs::path& output_dir, const fs::path& uninterrupted) const {
    const std::string last = fmt::format("checkpoint-{}", kSteps);
    for (const char* name : {"model.safetensors", "optimizer.safetensors", "shoehorn_state.json"}) {
      EXPECT_TRUE(read_text_file(output_dir / last / name) == read_text_file(uninterrupted / last / name))
          << name << " differs";
    }
    EXPECT_EQ(state_of(output_dir / last / "trainer_state.json"),
              state_of(uninterrupted / last / "trainer_state.json"));
    EXPECT_TRUE(read_text_file(output_dir / "model.safetensors") ==
                read_text_file(uninterrupted / "model.safetensors"));
  }

  static int64_t newest(const fs::path& output_dir) { return latest_checkpoint(output_dir).step; }
};

TEST_F(CliSignals, TheRunGoesOnAsIfNothingHadHappened) {
  const fs::path uninterrupted = path("uninterrupted");
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run(words(uninterrupted)).exit_code, 0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - start;
  std::mt19937_64 random(5);
  // How long a run takes changes with what else the machine does: signals come later where nothing was saved, and sooner where
  // a run has ended. Those that hit nothing worth saving are sent again, within reason.
  double longest_seconds = 0.7 * whole.count();
  constexpr double kChange = 1.2;
  const int needed = signals_to_send() / 4;
  int64_t known = 0;
  int resumed = 0;
  int sent = 0;
  while ((sent < signals_to_send() || resumed < needed) && sent < 4 * signals_to_send() && !HasFailure()) {
    const int signal = std::array{SIGINT, SIGTERM, SIGHUP}[static_cast<size_t>(sent % 3)];
    StartedProgram program(words(output(), known > 0), directory_.path());
    sleep_seconds(std::uniform_real_distribution<double>(0, longest_seconds)(random));
    // A signal before main() finds no handler.
    const bool is_running = program.output().size() > 0;
    kill(program.pid(), signal);
    const ProgramRun result = program.wait();
    if (result.exit_code == -1) {
      EXPECT_FALSE(is_running) << result.output << result.error;
      continue;
    }
    ++sent;
    EXPECT_GE(newest(output()), known) << "a finished checkpoint is lost";
    for (const fs::path& checkpoint : list_checkpoints(output()))
      EXPECT_EQ(checkpoint_defect(checkpoint, VerifiedFiles::kAll), "") << checkpoint;
    // A run that is stopped before its first step has made no directory.
    if (fs::exists(output())) {
      for (const auto& entry : fs::directory_iterator(output()))
        EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path() << " is left";
    }
    if (result.exit_code == 0 || contains(result.error, "the training is done")) {
      expect_finished(output(), uninterrupted);
      fs::remove_all(output());
      known = 0;
      longest_seconds /= kChange;
      continue;
    }
    EXPECT_EQ(result.exit_code, 128 + signal) << result.output << result.error;
    known = newest(output());
    if (known == 0) longest_seconds *= kChange;
    if (known > 0) {
      ++resumed;
      EXPECT_TRUE(contains(result.output + result.error, "--resume_from_checkpoint") ||
                  contains(result.error, "training had not begun"));
    }
  }
  ASSERT_EQ(run(words(output(), known > 0)).exit_code, 0);
  expect_finished(output(), uninterrupted);
  EXPECT_GE(resumed, needed) << "the signals must hit runs that have something to lose";
  RecordProperty("resumed", resumed);
}

TEST_F(CliSignals, SaysWhatIsSavedAndHowToGoOn) {
  StartedProgram program(endless_words({"--overwrite_output_dir", "--report_to", "html"}), directory_.path());
  wait_for(program, "step 2 ");
  kill(program.pid(), SIGINT);
  const ProgramRun stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.error;
  EXPECT_EQ(stopped.error, "");
  const int64_t step = newest(output());
  EXPECT_GE(step, 2);
  EXPECT_TRUE(contains(stopped.output, "***** train metrics *****"));
  EXPECT_TRUE(
      contains(stopped.output, fmt::format("Stopped by Ctrl-C (SIGINT) after step {}; saved in {}\n"
                                           "To go on from there:\n  ",
                                           step, (output() / fmt::format("checkpoint-{}", step)).string())));
  EXPECT_FALSE(contains(stopped.output, "Saved in"));
  EXPECT_TRUE(fs::exists(output() / "report.html"));
  EXPECT_EQ(read_json(output() / "trainer_state.json")["global_step"], step);
  EXPECT_TRUE(read_json(output() / "train_results.json").contains("train_loss"));
  EXPECT_FALSE(fs::exists(output() / "model.safetensors")) << "a model that is not trained to its end";
  // The line is copied into a shell, with another end.
  const size_t at = stopped.output.find("To go on from there:\n  ") + 23;
  const std::string command = stopped.output.substr(at, stopped.output.find('\n', at) - at);
  const std::string shell =
      fmt::format("{} --max_steps {} > {} 2>&1", command, step + 1, path("resumed").string());
  EXPECT_EQ(std::system(shell.c_str()), 0) << read_text_file(path("resumed"));
  EXPECT_TRUE(contains(read_text_file(path("resumed")), fmt::format("at step {}\n", step)));
}

TEST_F(CliSignals, WithoutCheckpointsNothingIsSaved) {
  for (const char* flag : {"--save_strategy=no", "--enable_jit_checkpoint=false"}) {
    StartedProgram program(endless_words({flag}), directory_.path());
    wait_for(program, "step 2 ");
    kill(program.pid(), SIGTERM);
    const ProgramRun stopped = program.wait();
    EXPECT_EQ(stopped.exit_code, 143) << stopped.error;
    EXPECT_TRUE(contains(stopped.output, "no checkpoint is saved, because")) << flag;
    EXPECT_TRUE(list_checkpoints(output()).empty());
  }
}

// A stop in the evaluation behind the last step: what was trained would be lost.
TEST_F(CliSignals, BehindTheLastStepTheModelIsSaved) {
  directory_.write("long.csv", long_labelled_csv(60, 4));
  StartedProgram program(
      train_words({"--max_steps", "2", "--save_strategy", "no", "--logging_steps", "1", "--eval_strategy",
                   "steps", "--eval_steps", "2", "--validation_file", path("long.csv")}),
      directory_.path());
  wait_for(program, "step 2 ");
  kill(program.pid(), SIGTERM);
  const ProgramRun stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 143) << stopped.error;
  EXPECT_TRUE(contains(stopped.output, "Stopped by SIGTERM after step 2, the last one; the model is in"))
      << stopped.output;
  EXPECT_TRUE(fs::exists(output() / "model.safetensors"));
}

TEST_F(CliSignals, TheResultOnStandardOutputIsOneJsonObject) {
  StartedProgram program(endless_words({"--json"}), directory_.path());
  while (read_text_file(directory_.path() / "stderr").find("step 2 ") == std::string::npos)
    sleep_seconds(0.005);
  kill(program.pid(), SIGINT);
  const ProgramRun stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 130);
  EXPECT_TRUE(parse_json(stopped.output, "stdout").contains("train_loss"));
  EXPECT_TRUE(contains(stopped.error, "To go on from there:"));
}

// `timeout` signals its child and then the group of both: that is one stop. Of signals that wait together the one with
// the least number comes first.
TEST_F(CliSignals, TwoSignalsOfOneEventAreOne) {
  StartedProgram program(endless_words(), directory_.path());
  wait_for(program, "step 2 ");
  for (int i = 0; i < 3; ++i) kill(program.pid(), SIGTERM);
  kill(program.pid(), SIGHUP);
  const int exit_code = program.wait().exit_code;
  EXPECT_TRUE(exit_code == 143 || exit_code == 129) << exit_code;
  EXPECT_GE(newest(output()), 2);
}

// The first signal comes when the program is stopped (SIGSTOP), so that the second one finds it at work on the first.
TEST_F(CliSignals, ASecondSignalEndsItAtOnceAndLosesNoFinishedCheckpoint) {
  std::mt19937_64 random(3);
  int at_once = 0;
  for (int i = 0; i < 6 && !HasFailure(); ++i) {
    fs::remove_all(output());
    StartedProgram program(endless_words({"--save_steps", "1", "--save_total_limit", "2"}),
                           directory_.path());
    wait_for(program, "saved ");
    kill(program.pid(), SIGTERM);
    const int64_t known = newest(output());
    sleep_seconds(0.001 * static_cast<double>(random() % 8));
    kill(program.pid(), SIGSTOP);
    sleep_seconds(kSecondSignalSeconds + 0.02);
    kill(program.pid(), SIGINT);
    kill(program.pid(), SIGCONT);
    const ProgramRun ended = program.wait();
    // -1: by the signal itself, behind the last line of the program, when all is saved.
    EXPECT_TRUE(ended.exit_code == 130 || ended.exit_code == 143 || ended.exit_code == -1)
        << ended.exit_code << ended.error;
    at_once += ended.error.find("by a second signal") == std::string::npos ? 0 : 1;
    EXPECT_GE(newest(output()), known);
    std::vector<std::string> more = endless_words({"--resume_from_checkpoint"});
    more.insert(more.end(), {"--max_steps", std::to_string(newest(output()) + 1)});
    EXPECT_EQ(run(more).exit_code, 0);
  }
  EXPECT_GE(at_once, 1);
}

// What head or a pager leaves unread.
TEST_F(CliSignals, AReaderThatGoesEndsItWithACheckpoint) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  std::vector<std::string> all = endless_words();
  all.insert(all.begin(), SHOEHORN_PROGRAM);
  const pid_t program = fork();
  if (program == 0) {
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    take_signals();
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  std::string shown;
  std::array<char, 4096> bytes{};
  while (!contains(shown, "step 2 ")) {
    const ssize_t count = read(ends[0], bytes.data(), bytes.size());
    ASSERT_GT(count, 0) << shown;
    shown.append(bytes.data(), static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(program, &status, 0), program);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGPIPE) << status;
  EXPECT_GE(newest(output()), 2);
  std::vector<std::string> more = endless_words({"--resume_from_checkpoint"});
  more.insert(more.end(), {"--max_steps", std::to_string(newest(output()) + 1)});
  EXPECT_EQ(run(more).exit_code, 0);
}

// nohup ignores SIGHUP; what was ignored at the start stays so.
TEST_F(CliSignals, AnIgnoredSignalStaysIgnored) {
  StartedProgram program(words(output()), directory_.path(), {.ignored_signal = SIGHUP});
  wait_for(program, "step 2 ");
  kill(program.pid(), SIGHUP);
  EXPECT_EQ(program.wait().exit_code, 0);
  EXPECT_EQ(newest(output()), kSteps);
}

TEST_F(CliSignals, CtrlCOnATerminalClearsTheBar) {
  OnTerminal program(endless_words());
  program.read_until("step 3 ");
  constexpr char kCtrlC = 3;
  program.type(kCtrlC);
  program.read_until("nothing ends with this");
  EXPECT_EQ(program.exit_code(), 130) << program.shown();
  const std::string& shown = program.shown();
  const size_t metrics = shown.rfind("***** train metrics");
  ASSERT_NE(metrics, std::string::npos) << shown;
  EXPECT_EQ(shown.substr(metrics - 4, 4), "\r\x1b[K") << "the line is the bar's no more";
  EXPECT_TRUE(shown.ends_with("--resume_from_checkpoint\r\n")) << shown;
}

TEST_F(CliSignals, AWindowThatClosesLosesNothing) {
  OnTerminal program(endless_words());
  program.read_until("step 3 ");
  program.close_window();
  EXPECT_EQ(program.exit_code(), 129);
  EXPECT_GE(newest(output()), 3);
  EXPECT_TRUE(fs::exists(output() / "train_results.json"));
}

// Each ends cleanly, and says what there is of its work.
TEST_F(CliSignals, EvaluationAndPredictionEndCleanly) {
  // With labels that the model has; several times what a processor evaluates until the last signal.
  directory_.write("long.csv", long_labelled_csv(400, 4, {.up = "LABEL_1", .down = "LABEL_0"}));
  const std::vector<std::vector<std::string>> commands = {
      {"eval", "--validation_file", path("long.csv")},
      {"predict", "--test_file", path("long.csv"), "--output_file", path("labels.jsonl")}};
  for (const std::vector<std::string>& command : commands) {
    for (const double seconds : {0.15, 0.6}) {
      std::vector<std::string> all = command;
      all.insert(all.end(), {"--model_name_or_path", model(), "--output_dir", output()});
      StartedProgram program(all, directory_.path());
      sleep_seconds(seconds);
      kill(program.pid(), SIGTERM);
      const ProgramRun stopped = program.wait();
      if (stopped.exit_code == -1) continue;  // before main()
      EXPECT_EQ(stopped.exit_code, 143) << stopped.output << stopped.error;
      EXPECT_TRUE(contains(stopped.error, command[0] == "eval" ? "stopped by SIGTERM: no results are written"
                                                               : "labels.jsonl is not written"));
      EXPECT_FALSE(fs::exists(path("labels.jsonl")));
      EXPECT_TRUE(written().empty()) << written()[0];
      for (const auto& entry : fs::directory_iterator(directory_.path()))
        EXPECT_FALSE(entry.path().filename().string().starts_with(".labels")) << entry.path();
    }
  }
}

// A file that is tokenized for long, also into a cache.
TEST_F(CliSignals, TokenizingEndsCleanly) {
  directory_.write("long.csv", long_labelled_csv(300, 4));
  for (const bool cached : {false, true}) {
    std::vector<std::string> all = endless_words({"--train_file", path("long.csv")});
    if (cached) all.insert(all.end(), {"--dataset_cache", path("cache")});
    const ProgramRun stopped = interrupted_early(all);
    EXPECT_EQ(stopped.exit_code, 130) << stopped.error;
    EXPECT_TRUE(contains(stopped.error, "training had not begun, and nothing is saved"));
    EXPECT_TRUE(list_checkpoints(output()).empty());
  }
  if (!fs::exists(path("cache"))) return;
  for (const auto& entry : fs::directory_iterator(path("cache")))
    ADD_FAILURE() << entry.path() << " is left of a data set";
}

// So does that of a language model's texts.
TEST_F(CliSignals, TokenizingALanguageModelsTextsEndsCleanly) {
  std::mt19937_64 random(7);
  std::string texts;
  for (int line = 0; line < 100'000; ++line) {
    for (int word = 0; word < 12; ++word) texts += std::to_string(random()) + " ";
    texts += "\n";
  }
  directory_.write("corpus.txt", texts);
  ASSERT_EQ(run({"tokenizer", "train", "--output_dir", path("tokenizer"), "--vocab_size", "270",
                 directory_.write("few.txt", "a cat sat here and there\n").string()})
                .exit_code,
            0);
  for (const bool cached : {false, true}) {
    std::vector<std::string> all = {"train",
                                    "--model_type",
                                    "gpt2",
                                    "--config_overrides",
                                    "n_layer=1,n_head=1,n_embd=8,n_positions=32,vocab_size=270",
                                    "--tokenizer_name",
                                    path("tokenizer"),
                                    "--train_file",
                                    path("corpus.txt"),
                                    "--output_dir",
                                    output()};
    if (cached) all.insert(all.end(), {"--dataset_cache", path("cache")});
    const ProgramRun stopped = interrupted_early(all);
    EXPECT_EQ(stopped.exit_code, 130) << stopped.error;
    EXPECT_TRUE(contains(stopped.error, "training had not begun, and nothing is saved")) << stopped.error;
  }
}

// Whatever takes long ends when it is told to, with the signal's exit code and a sentence, and leaves its terminal's line
// empty and no file.
TEST_F(CliSignals, EveryLongCommandEndsCleanly) {
  // Words of random letters, which take long to learn.
  std::string texts;
  std::mt19937_64 random(7);
  for (int word = 0; word < 300'000; ++word) {
    for (uint64_t letters = random(), i = 0; i < 9; ++i, letters /= 26)
      texts += static_cast<char>('a' + letters % 26);
    texts += word % 40 == 39 ? "\n" : " ";
  }
  directory_.write("corpus.txt", texts);
  // Steps are short: who is told to end ends behind a step.
  const std::vector<std::string> run_flags = {"--model", "bert-mini",         "--per_device_train_batch_size",
                                              "8",       "--sequence_length", "32"};
  const auto with_run_flags = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), run_flags.begin(), run_flags.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  struct LongCommand {
    std::vector<std::string> words;
    std::string says;
  };
  const std::vector<LongCommand> commands = {
      {with_run_flags({"bench", "step"}, {"--max_steps", "100000"}),
       "no step is measured|of the steps so far"},
      {with_run_flags({"anatomy"}, {"--steps", "2000", "--report", path("a.html")}), "no result is written"},
      {with_run_flags({"fit"}, {"--memory_budget", "150MiB", "--allow", "numerics", "--verify", "1000",
                                "--report", path("f.html")}),
       "stopped by SIGTERM"},
      {with_run_flags({"train", "--fit"}, {"--verify", "1000", "--memory_budget", "2GiB", "--train_file",
                                           path("train.csv"), "--model_name_or_path", model()}),
       "training had not begun"},
      {{"calibrate", "--max_seconds", "1000"}, "nothing of it is kept"},
      {{"tokenizer", "train", "--output_dir", path("tokenizer"), "--vocab_size", "100000",
        path("corpus.txt")},
       "no tokenizer is written"}};
  setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
  for (const LongCommand& command : commands) {
    ProgramRun stopped;
    // Later and later, until it is behind the beginning of main().
    for (double seconds = 0.4; stopped.exit_code == -1 && seconds < 20; seconds *= 1.5) {
      StartedProgram program(command.words, directory_.path());
      sleep_seconds(seconds);
      kill(program.pid(), SIGTERM);
      stopped = program.wait();
    }
    EXPECT_EQ(stopped.exit_code, 143) << command.words[0] << stopped.output << stopped.error;
    bool is_said = false;
    for (size_t at = 0; at < command.says.size();) {
      const size_t end = std::min(command.says.find('|', at), command.says.size());
      is_said |= contains(stopped.error, command.says.substr(at, end - at));
      at = end + 1;
    }
    EXPECT_TRUE(is_said) << command.words[0] << stopped.error;
  }
  unsetenv("XDG_CACHE_HOME");
  for (const char* file : {"a.html", "f.html", "tokenizer/tokenizer.json", "cache/shoehorn/calibration"})
    EXPECT_FALSE(fs::exists(path(file))) << file;
}

TEST_F(CliSignals, CtrlCInASearchClearsItsLine) {
  OnTerminal program({"bench", "step", "--model", "bert-mini", "--per_device_train_batch_size", "16",
                      "--sequence_length", "128", "--max_steps", "100000"});
  program.read_until("left");
  constexpr char kCtrlC = 3;
  program.type(kCtrlC);
  program.read_until("nothing ends with this");
  EXPECT_EQ(program.exit_code(), 130) << program.shown();
  const std::string& shown = program.shown();
  EXPECT_TRUE(shown.ends_with("stopped by Ctrl-C (SIGINT): the result is of the steps so far\r\n")) << shown;
  EXPECT_NE(shown.find("a step), median of"), std::string::npos) << shown;
}

// The processes of a benchmark end with it, and what was measured is shown.
TEST_F(CliSignals, ABenchmarkEndsWithItsProcesses) {
  StartedProgram program({"bench", "quality", "--quick", "--json_file", path("quality.json")},
                         directory_.path());
  const auto start = std::chrono::steady_clock::now();
  while (!fs::exists(path("quality.json"))) {
    sleep_seconds(0.02);
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
  }
  kill(program.pid(), SIGINT);
  const auto sent = std::chrono::steady_clock::now();
  const ProgramRun stopped = program.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - sent, std::chrono::seconds(20));
  EXPECT_EQ(stopped.exit_code, 130) << stopped.error;
  EXPECT_TRUE(contains(stopped.error, "the result is of the settings so far"));
  EXPECT_NE(stopped.output, "");
  EXPECT_GE(read_json(path("quality.json"))["rungs"].size(), 1U);
}

// A size that is measured is in the files before the next one is, and none is called best.
TEST_F(CliSignals, BatchSizesSoFarAreKept) {
  StartedProgram program(
      {"bench", "batch", "--model", "bert-mini", "--sequence_length", "128", "--max", "1024",
       "--memory_budget", "100GiB", "--max_seconds", "600", "--json_file", path("batch.json")},
      directory_.path());
  const auto start = std::chrono::steady_clock::now();
  while (!fs::exists(path("batch.json"))) {
    sleep_seconds(0.02);
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
  }
  kill(program.pid(), SIGINT);
  const ProgramRun stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 130) << stopped.error;
  EXPECT_TRUE(contains(stopped.error, "the result is of the batch sizes so far, up to ")) << stopped.error;
  EXPECT_TRUE(contains(stopped.output, "best: not known. Not all sizes are measured")) << stopped.output;
  const nlohmann::json written = read_json(path("batch.json"));
  EXPECT_GE(written["sizes"].size(), 1U);
  EXPECT_TRUE(written["best_batch_size"].is_null());
}

}  // namespace
}  // namespace shoehorn
