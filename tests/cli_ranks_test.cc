// The program as several ranks, started by mpirun: `shoehorn launch`. Skipped where there is no MPI.
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "base/processors.h"
#include "base/stop_request.h"
#include "beside_program.h"
#include "cli_support.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "rank_processes.h"
#include "ranks/rank_launcher.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;
namespace fs = std::filesystem;

class CliRanks : public CliTest {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << kNoMpi;
  }

  static std::vector<std::string> on_ranks(int ranks, std::vector<std::string> words) {
    std::vector<std::string> all = {"launch", "--nproc_per_node", std::to_string(ranks)};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  // A run of two ranks that has done some steps and would go on for long.
  StartedProgram endless(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words =
        train_words({"--max_steps", "1000000", "--logging_steps", "1", "--save_strategy", "no"});
    words.insert(words.end(), more.begin(), more.end());
    return {on_ranks(2, words), directory_.path()};
  }

  static bool wait_for(const StartedProgram& program, const std::string& text) {
    for (int i = 0; i < 1200; ++i) {
      if (program.output().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  const ShortWaitOfMpirun short_wait_;
};

double number(const fs::path& file, const char* name) {
  return read_json(file).at(name).get<double>();
}

// The same flags on two ranks as on one with twice the accumulation: the loss of the run within the rounding of sums, one
// log, one directory, and the memory of a rank as planned.
TEST_F(CliRanks, TrainAsOneProcessDoes) {
  const std::vector<std::string> more = {
      "--validation_file", path("validation.csv").string(), "--max_steps", "6", "--save_steps", "3"};
  std::vector<std::string> words = train_words(more);
  words.insert(words.end(), {"--gradient_accumulation_steps", "2", "--output_dir", path("one").string()});
  const ProgramRun one = run(words);
  ASSERT_EQ(one.exit_code, 0) << one.error;
  const ProgramRun two = run(on_ranks(2, train_words(more)));
  ASSERT_EQ(two.exit_code, 0) << two.output << two.error;
  EXPECT_TRUE(contains(two.output, "Effective batch 16 = 8 a device x 2 ranks"));
  EXPECT_EQ(two.output.find("step 2 "), two.output.rfind("step 2 ")) << two.output;
  const double loss = number(path("one") / "train_results.json", "train_loss");
  EXPECT_NEAR(number(output() / "train_results.json", "train_loss"), loss, 1e-5 * loss);
  const double eval_loss = number(path("one") / "eval_results.json", "eval_loss");
  EXPECT_NEAR(number(output() / "eval_results.json", "eval_loss"), eval_loss, 1e-4 * eval_loss);
  EXPECT_EQ(number(output() / "train_results.json", "memory_arena_predicted_bytes"),
            number(output() / "train_results.json", "memory_arena_measured_bytes"));
  EXPECT_EQ(checkpoint_defect(output() / "checkpoint-6", VerifiedFiles::kAll), "");
  EXPECT_EQ(read_json(output() / "training_args.json").at("world_size"), 2);
  EXPECT_EQ(
      run({"eval", "--model_name_or_path", output(), "--validation_file", path("validation.csv")}).exit_code,
      0);
}

// The batches are shared, and the files are those of one process, byte for byte, in the order of the rows.
TEST_F(CliRanks, EvaluateAndPredictAsOneProcessDoes) {
  ASSERT_EQ(run(train_words({"--max_steps", "2"})).exit_code, 0);
  const auto words_of = [&](const std::string& command, const std::string& file, const std::string& to) {
    std::vector<std::string> words = {command, "--model_name_or_path", output(),
                                      file,    path("validation.csv"), "--per_device_eval_batch_size",
                                      "2",     "--output_dir",         path(to)};
    if (command == "predict") words.insert(words.end(), {"--max_predict_samples", "7", "--logits"});
    return words;
  };
  const auto results_of = [&](const std::string& to, const std::string& split) {
    nlohmann::json results = read_json(path(to) / (split + "_results.json"));
    for (const char* changing : {"runtime", "samples_per_second", "steps_per_second"})
      results.erase(split + "_" + changing);
    for (const std::string memory : {"arena", "process"}) {
      for (const std::string which : {"predicted", "measured"})
        results.erase(fmt::format("{}_memory_{}_{}_bytes", split, memory, which));
    }
    return results;
  };
  ASSERT_EQ(run(words_of("eval", "--validation_file", "one")).exit_code, 0);
  ASSERT_EQ(run(words_of("predict", "--test_file", "one")).exit_code, 0);
  for (const int ranks : {2, 3}) {
    const std::string to = std::to_string(ranks);
    for (const std::vector<std::string>& words :
         {words_of("eval", "--validation_file", to), words_of("predict", "--test_file", to)}) {
      const ProgramRun many = run(on_ranks(ranks, words));
      EXPECT_EQ(many.exit_code, 0) << many.error;
    }
    EXPECT_EQ(results_of(to, "eval"), results_of("one", "eval"));
    EXPECT_EQ(results_of(to, "predict"), results_of("one", "predict"));
    EXPECT_EQ(read_text_file(path(to) / "predictions.jsonl"),
              read_text_file(path("one") / "predictions.jsonl"));
  }
  std::vector<std::string> of_standard_input = words_of("predict", "--test_file", "2");
  std::ranges::replace(of_standard_input, path("validation.csv").string(), "-");
  const ProgramRun refused = run(on_ranks(2, of_standard_input));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_TRUE(contains(refused.error, "[--test_file -] expected a file that each rank reads"))
      << refused.error;
}

// The first rank tells what all of them took; without --max_steps they end with it.
TEST_F(CliRanks, BenchStepTimesThePlannedStep) {
  const std::vector<std::string> step = {"--model_name_or_path",
                                         model(),
                                         "--max_seq_length",
                                         "16",
                                         "--num_threads",
                                         "1",
                                         "--per_device_train_batch_size",
                                         "2",
                                         "--gradient_accumulation_steps",
                                         "3",
                                         "--zero_stage",
                                         "2"};
  const ProgramRun run_on_ranks =
      run(on_ranks(2, joined({"bench", "step", "--json", "--no_limits", "--max_seconds", "0.1"}, step)));
  ASSERT_EQ(run_on_ranks.exit_code, 0) << run_on_ranks.output << run_on_ranks.error;
  const json result = json::parse(run_on_ranks.output);
  EXPECT_EQ(result.at("ranks"), 2);
  EXPECT_NEAR(result.at("samples_per_second").get<double>() * result.at("step_seconds").get<double>(),
              2 * 2 * 3, 1e-6);
  EXPECT_GE(result.at("steps"), 4);
  const ProgramRun plan = run(joined({"plan", "--json", "--world_size", "2"}, step));
  ASSERT_EQ(plan.exit_code, 0) << plan.error;
  EXPECT_EQ(result.at("program"), json::parse(plan.output).at("program"));
  const ProgramRun shown =
      run(on_ranks(2, joined({"bench", "step", "--max_steps", "2", "--no_limits"}, step)));
  ASSERT_EQ(shown.exit_code, 0) << shown.error;
  const std::string heading =
      "Training step, 3 x 2 sequences of 16 tokens (96 tokens a step), on each of 2 ranks";
  EXPECT_TRUE(contains(shown.output, heading)) << shown.output;
  EXPECT_EQ(shown.output.find(heading), shown.output.rfind(heading)) << "one rank tells";
}

// Each file of texts is tokenized once into the user's cache, for all ranks and all later runs, and `plan` knows it. What is
// trained is what tokens in memory give.
TEST_F(CliRanks, KeepTokenizedTextsInTheUsersCache) {
  const fs::path data_sets = path("user_cache") / "shoehorn" / "data_sets";
  const std::vector<std::string> words =
      train_words({"--max_steps", "2", "--validation_file", path("validation.csv").string(),
                   "--overwrite_output_dir", "--log_level_replica", "info"});
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    const ProgramRun three = run(on_ranks(3, all));
    EXPECT_EQ(three.exit_code, 0) << three.error;
    return three.output;
  };
  const std::string in_memory = train({"--dataset_cache", "none"});
  EXPECT_FALSE(contains(in_memory, "are read from")) << in_memory;
  EXPECT_FALSE(path_exists(data_sets));
  const std::string weights = read_text_file(output() / "model.safetensors");
  std::vector<std::string> written;
  for (int i = 0; i < 2; ++i) {
    const std::string text = train({});
    for (const char* rank : {"\n", "\nrank 2: "}) {
      const std::string file = rank + path("train.csv").string();
      EXPECT_TRUE(contains(text, file + ": tokenized samples are read from " + data_sets.string())) << text;
    }
    EXPECT_EQ(read_text_file(output() / "model.safetensors"), weights);
    const std::vector<std::string> found = list_directory(data_sets);
    EXPECT_EQ(found.size(), 2U) << fmt::format("{}", fmt::join(found, " "));
    if (i > 0) {
      EXPECT_EQ(found, written);
    }
    written = found;
  }
  std::vector<std::string> plan = words;
  plan[0] = "plan";
  plan.insert(plan.end(), {"--world_size", "3"});
  const ProgramRun planned = run(plan);
  EXPECT_EQ(planned.exit_code, 0) << planned.error;
  EXPECT_TRUE(contains(planned.output, data_sets.string())) << planned.output;
}

// The first rank makes the cache anew, and the others read what it made.
TEST_F(CliRanks, OverwriteACacheOnce) {
  for (const bool overwrites : {false, true}) {
    std::vector<std::string> words = train_words(
        {"--max_steps", "2", "--dataset_cache", path("cache").string(), "--overwrite_output_dir"});
    if (overwrites) words.emplace_back("--overwrite_cache");
    const ProgramRun three = run(on_ranks(3, words));
    EXPECT_EQ(three.exit_code, 0) << three.error;
  }
}

// The first rank takes several times as long for the texts as a rank waits for a message.
TEST_F(CliRanks, WaitForTheCacheHoweverLongItTakes) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "notawordofthevocabulary ";
  std::string csv = "text,label\n";
  for (int i = 0; i < 2500; ++i) csv += text + (i % 2 == 0 ? ",up\n" : ",down\n");
  directory_.write("long.csv", csv);
  const ProgramRun two =
      run(on_ranks(2, train_words({"--train_file", path("long.csv").string(), "--dataset_cache",
                                   path("cache").string(), "--max_seq_length", "16", "--num_threads", "1",
                                   "--save_strategy", "no", "--ddp_timeout", "2"})));
  EXPECT_EQ(two.exit_code, 0) << two.error;
}

// Others than the first say what it says where they are asked to, each line with its rank.
TEST_F(CliRanks, LogLevelReplicaLetsTheOthersSpeak) {
  const auto lines_of = [&](const std::string& level) {
    const ProgramRun two =
        run(on_ranks(2, train_words({"--log_level_replica", level, "--overwrite_output_dir"})));
    EXPECT_EQ(two.exit_code, 0) << two.error;
    std::map<bool, std::vector<std::string>> lines;  // by whether they are of rank 1
    std::istringstream text(two.output);
    for (std::string line; std::getline(text, line);) lines[line.starts_with("rank 1: ")].push_back(line);
    return lines;
  };
  EXPECT_TRUE(lines_of("warning")[true].empty());
  std::map<bool, std::vector<std::string>> lines = lines_of("info");
  for (const bool other : {false, true}) {
    EXPECT_EQ(std::ranges::count_if(
                  lines[other], [](const std::string& line) { return contains(line, "Effective batch 16"); }),
              1)
        << "other ranks: " << other;
  }
}

// One process goes on from the checkpoint of two, with their effective batch.
TEST_F(CliRanks, OneProcessResumesTheirCheckpoint) {
  ASSERT_EQ(run(on_ranks(2, train_words({"--save_steps", "2"}))).exit_code, 0);
  std::vector<std::string> words = train_words({"--gradient_accumulation_steps", "2", "--max_steps", "6"});
  words.insert(words.end(), {"--resume_from_checkpoint", (output() / "checkpoint-2").string()});
  const ProgramRun resumed = run(words);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_TRUE(contains(resumed.output, "changed since checkpoint-2: --world_size 2 → 1")) << resumed.output;
  words = train_words({"--resume_from_checkpoint", (output() / "checkpoint-2").string()});
  expect_failure(words, 2,
                 {"--world_size 2 → 1", "other samples",
                  "--effective_batch_size 16 gives its batch, and --allow_resume_changes"});
}

// Whatever the arguments decide: nothing is exchanged before they are compared.
TEST_F(CliRanks, ArgumentsOfOneRankAreNamed) {
  for (const char* flag :
       {"--zero_group_size=0", "--dataset_cache=cache", "--no_enable_cpu_affinity", "--seed=9"}) {
    const std::string train = fmt::format("{} {}", SHOEHORN_PROGRAM, fmt::join(train_words(), " "));
    const std::string command = start_two_ranks(train, train + " " + flag);
    const ProgramRun result = StartedProgram({"-c", command}, directory_.path(), {}, "/bin/sh").wait();
    EXPECT_NE(result.exit_code, 0);
    const std::string name = std::string(flag).substr(0, std::string(flag).find('='));
    const std::string expected = "error: [ranks] expected --" +
                                 name.substr(name.starts_with("--no_") ? 5 : 2) +
                                 " to be the same on all ranks, got another on rank 1";
    EXPECT_TRUE(contains(result.error, expected)) << result.error;
  }
}

// A stop goes to the ranks and not to mpirun: all stop behind the same step, the first saves, and the exit code is that of one
// process. Nobody waits for a timeout of mpirun, which would say that a rank has failed.
TEST_F(CliRanks, AStopSavesACheckpoint) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    SCOPED_TRACE(signal);
    StartedProgram program = endless({"--save_strategy", "steps", "--save_steps", "100000000",
                                      "--logging_steps", "500", "--overwrite_output_dir"});
    ASSERT_TRUE(wait_for(program, "step 500 "));
    kill(program.pid(), signal);
    const ProgramRun result = program.wait();
    EXPECT_EQ(result.exit_code, 128 + signal);
    EXPECT_TRUE(contains(result.output, "Stopped by " + stop_signal_name(signal) + " after step"))
        << result.error;
    EXPECT_TRUE(contains(result.output, "launch --nproc_per_node 2 train ")) << result.output;
    EXPECT_EQ(result.error.find("mpirun"), std::string::npos) << result.error;
    const LatestCheckpoint latest = latest_checkpoint(output());
    ASSERT_TRUE(latest.path);
    EXPECT_EQ(checkpoint_defect(*latest.path, VerifiedFiles::kAll), "");
  }
}

// Each rank says where its threads may run.
TEST_F(CliRanks, AreBoundToProcessorsOfTheirOwn) {
  if (processors().allowed < 2) GTEST_SKIP() << "one processor";
  if (!has_hwloc()) GTEST_SKIP() << kNoHwloc;
  for (const bool is_asked : {true, false}) {
    StartedProgram program = endless({"--enable_cpu_affinity", is_asked ? "true" : "false"});
    ASSERT_TRUE(wait_for(program, "step 2 ")) << program.output();
    EXPECT_EQ(contains(program.output(), "Ranks are bound to processors of their own: "), is_asked)
        << program.output();
    const std::map<int, pid_t> ranks = ranks_of(program.pid());
    ASSERT_EQ(ranks.size(), 2U);
    std::set<std::string> lists;
    for (const auto& [rank, process] : ranks) {
      std::ifstream status("/proc/" + std::to_string(process) + "/status");
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("Cpus_allowed_list:")) lists.insert(line);
      }
    }
    EXPECT_EQ(lists.size(), is_asked ? 2U : 1U);
    kill(ranks.at(1), SIGKILL);
    program.wait();
  }
}

// A rank is killed, and the run goes on from its last checkpoint to the result of one that nobody disturbed.
class CliRestartedRanks : public CliRanks {
 protected:
  // What is done to a rank's process at step 1000.
  using Failure = std::function<void(pid_t)>;
  static void kill_it(pid_t process) { kill(process, SIGKILL); }

  void expect_same_result(const std::vector<std::string>& flags_of_launch,
                          const std::vector<std::string>& flags_of_train,
                          const Failure& fail = kill_it) const;
};

TEST_F(CliRestartedRanks, GoOnFromTheLastCheckpoint) {
  expect_same_result({"--keep_ranks"}, {});
}

// Its next checkpoint finds no room: the process that takes its place has some again.
TEST_F(CliRestartedRanks, GoOnBehindAFullDisk) {
  expect_same_result({"--keep_ranks"}, {"--zero_stage", "2"}, [](pid_t process) {
    const rlimit limit = {1000, 1000};
    ASSERT_EQ(prlimit(process, RLIMIT_FSIZE, &limit, nullptr), 0);
  });
}

TEST_F(CliRestartedRanks, GoOnBehindAStoppedRank) {
  expect_same_result({"--keep_ranks"}, {"--ddp_timeout", "3"}, [](pid_t process) { kill(process, SIGSTOP); });
}

// Ranks that train alone are as many again without being told, for each has an optimizer of its own.
TEST_F(CliRestartedRanks, GoOnAlone) {
  expect_same_result({},
                     {"--local_sgd_steps", "20", "--outer_learning_rate", "0.7", "--outer_momentum", "0.9"});
}

void CliRestartedRanks::expect_same_result(const std::vector<std::string>& flags_of_launch,
                                           const std::vector<std::string>& flags_of_train,
                                           const Failure& fail) const {
  std::vector<std::string> more = {"--max_steps",        "3000", "--save_steps",    "500",
                                   "--save_total_limit", "2",    "--logging_steps", "500"};
  more.insert(more.end(), flags_of_train.begin(), flags_of_train.end());
  std::vector<std::string> words = train_words(more);
  words.insert(words.end(), {"--output_dir", path("undisturbed").string()});
  ASSERT_EQ(run(on_ranks(2, words)).exit_code, 0);
  words = on_ranks(2, train_words(more));
  words.insert(words.begin() + 1, {"--max_restarts", "1"});
  words.insert(words.begin() + 3, flags_of_launch.begin(), flags_of_launch.end());
  StartedProgram program(words, directory_.path());
  ASSERT_TRUE(wait_for(program, "step 1000 "));
  const std::map<int, pid_t> ranks = ranks_of(program.pid());
  ASSERT_EQ(ranks.size(), 2U);
  fail(ranks.at(1));
  const ProgramRun result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_NE(
      result.error.find("restart 1 of 1 with 2 ranks goes on from " + (output() / "checkpoint-").string()),
      std::string::npos)
      << result.error;
  EXPECT_EQ(read_text_file(output() / "model.safetensors"),
            read_text_file(path("undisturbed") / "model.safetensors"));
}

// Those that are left take the same steps, of four micro-batches: three ranks two, one and one, two ranks two each. The result is that
// of two ranks that somebody lets go on from the same checkpoint.
TEST_F(CliRanks, ARestartGoesOnWithTheRanksThatAreLeft) {
  const std::vector<std::string> train =
      train_words({"--effective_batch_size", "32", "--zero_stage", "2", "--max_steps", "2000", "--save_steps",
                   "200", "--logging_steps", "200"});
  std::vector<std::string> words = on_ranks(3, train);
  words.insert(words.begin() + 1, {"--max_restarts", "1"});
  StartedProgram program(words, directory_.path());
  ASSERT_TRUE(wait_for(program, "step 400 "));
  const std::map<int, pid_t> ranks = ranks_of(program.pid());
  ASSERT_EQ(ranks.size(), 3U);
  kill(ranks.at(2), SIGKILL);
  const ProgramRun result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const std::string goes_on =
      "restart 1 of 1 with 2 ranks goes on from " + (output() / "checkpoint-").string();
  const size_t at = result.error.find(goes_on);
  ASSERT_NE(at, std::string::npos) << result.error;
  const int step = std::stoi(result.error.substr(at + goes_on.size()));
  EXPECT_TRUE(contains(result.output, "Effective batch 32 = 4 micro-batches of 8 on 3 ranks"))
      << result.output;
  EXPECT_TRUE(contains(result.output, "Effective batch 32 = 8 a device x 2 accumulation steps x 2 ranks"));
  EXPECT_EQ(read_json(output() / "trainer_state.json").at("global_step"), 2000);

  std::vector<std::string> resumed = train;
  resumed.insert(resumed.end(),
                 {"--output_dir", path("resumed").string(), "--resume_from_checkpoint",
                  (output() / fmt::format("checkpoint-{}", step)).string(), "--save_strategy", "no"});
  const ProgramRun by_hand = run(on_ranks(2, resumed));
  ASSERT_EQ(by_hand.exit_code, 0) << by_hand.error;
  EXPECT_TRUE(read_text_file(output() / "model.safetensors") ==
              read_text_file(path("resumed") / "model.safetensors"));
}

// Ranks of two builds might not understand each other: the second one's file has a byte more.
TEST_F(CliRanks, OfAnotherBuildAreRefused) {
  if (is_of_mpich()) GTEST_SKIP() << "mpirun's flags are Open MPI's";
  const fs::path program = SHOEHORN_PROGRAM;
  const fs::path other = path("other") / program.filename();
  fs::create_directory(other.parent_path());
  fs::copy_file(program, other);
  std::ofstream(other, std::ios::app) << ' ';
  for (const auto& entry : fs::directory_iterator(program.parent_path())) {
    if (entry.path().extension() == ".so")
      fs::create_symlink(entry.path(), other.parent_path() / entry.path().filename());
  }
  std::string command = "mpirun --allow-run-as-root --oversubscribe";
  for (const fs::path& one : {program, other})
    command += fmt::format("{} -n 1 '{}' '{}'", one == other ? " :" : "", one.string(),
                           fmt::join(train_words(), "' '"));
  const ProgramRun result = StartedProgram({"-c", command}, directory_.path(), {}, "/bin/sh").wait();
  EXPECT_NE(result.exit_code, 0) << result.output;
  EXPECT_TRUE(contains(
      result.error, "[ranks] expected the program's file to be the same on all ranks, got another on rank 1"))
      << result.error;
  EXPECT_FALSE(fs::exists(output() / "model.safetensors"));
}

// Processes of another launcher, which MPI does not know as its ranks, do not each train the whole.
TEST_F(CliRanks, SingletonsOfAnotherLauncherAreRefused) {
  const std::string other = is_of_mpich() ? "OMPI_COMM_WORLD_" : "PMI_";
  setenv((other + "RANK").c_str(), "0", 1);
  setenv((other + "SIZE").c_str(), "2", 1);
  const ProgramRun result = run(train_words());
  for (const char* variable : {"RANK", "SIZE"}) unsetenv((other + variable).c_str());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(
      contains(result.error,
               fmt::format("[ranks] expected rank 0 of 2, as mpirun ({}) says, got rank 0 of 1 from {}",
                           is_of_mpich() ? "Open MPI" : "MPICH", is_of_mpich() ? "MPICH 4" : "Open MPI v")));
  EXPECT_TRUE(contains(result.error, is_of_mpich() ? "mpiexec.hydra" : "mpirun.openmpi"));
  EXPECT_FALSE(fs::exists(output() / "model.safetensors"));
}

// A mistake of the common arguments is said once, by the first rank.
TEST_F(CliRanks, AMistakeIsSaidOnce) {
  const ProgramRun result = run(on_ranks(2, train_words({"--world_size", "3"})));
  EXPECT_NE(result.exit_code, 0);
  const std::string said = "[--world_size 3] expected the number of ranks, got 2 of them";
  EXPECT_NE(result.error.find(said), std::string::npos) << result.error;
  EXPECT_EQ(result.error.find(said), result.error.rfind(said)) << result.error;
}

// How many ranks a host has is found; what is given is checked.
TEST_F(CliRanks, ANumberOfRanksPerHostThatIsAnotherIsRefused) {
  const ProgramRun result = run(on_ranks(2, train_words({"--ranks_per_host", "1"})));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_TRUE(
      contains(result.error, "[--ranks_per_host 1] expected so many ranks in a row on each host, got 2 on "))
      << result.error;
}

// Launched by a script in mpirun's place, which runs one process, counts its starts and keeps the words of each on a line. Where
// launch asks the first rank for success the script tells it.
class CliLaunch : public CliTest {
 protected:
  static constexpr const char* kRunsTheProgram = "\"$@\"\n";

  StartedProgram launched(const std::string& script, const std::vector<std::string>& launch_words,
                          const std::vector<std::string>& words) const {
    std::vector<std::string> all = {"launch", "--nproc_per_node", "1"};
    all.insert(all.end(), launch_words.begin(), launch_words.end());
    all.insert(all.end(), words.begin(), words.end());
    return started(script, all);
  }

  StartedProgram started(const std::string& script, const std::vector<std::string>& words) const {
    const std::string counted = path("starts").string();
    const fs::path mpirun = directory_.write(
        "mpirun",
        "#!/bin/sh\n[ \"$1\" != --version ] || exit 0\n"
        "[ -z \"$SHOEHORN_LAUNCH_SUCCESS\" ] || echo > \"$SHOEHORN_LAUNCH_SUCCESS\"\nprintf ' %s\\n' \"$*\" >> " +
            counted + "\nstarts=$(wc -l < " + counted +
            ")\nwords=\"$*\"\nwhile [ \"$1\" != -n ]; do shift; done\nshift 2\n" + script);
    fs::permissions(mpirun, fs::perms::owner_all);
    const std::string before = std::getenv("PATH");
    setenv("PATH", (mpirun.parent_path().string() + ":" + before).c_str(), 1);
    StartedProgram program(words, directory_.path());
    setenv("PATH", before.c_str(), 1);
    return program;
  }

  std::string starts() const { return read_text_file(path("starts")); }
  std::string last_start() const {
    const std::string all = starts();
    return all.substr(all.rfind('\n', all.size() - 2) + 1);
  }
  int64_t number_of_starts() const {
    const std::string all = starts();
    return std::count(all.begin(), all.end(), '\n');
  }
};

TEST_F(CliLaunch, PassesSignalsToTheProcessesOfTheProgram) {
  StartedProgram program =
      launched(kRunsTheProgram, {},
               train_words({"--max_steps", "1000000", "--logging_steps", "1", "--save_steps", "100000000"}));
  for (int i = 0; i < 1200 && program.output().find("step 3 ") == std::string::npos; ++i) usleep(50000);
  kill(program.pid(), SIGINT);
  const ProgramRun result = program.wait();
  EXPECT_EQ(result.exit_code, 130) << result.error;
  EXPECT_TRUE(contains(result.output, "Stopped by Ctrl-C (SIGINT) after step")) << result.output;
  EXPECT_TRUE(latest_checkpoint(output()).path);
}

// A restart may have one rank, on another host, to which mpirun passes a stop on in its own way.
TEST_F(CliLaunch, ASingleRankTakesAStopFromMpirun) {
  const std::map<std::string, std::string> variables = {
      {kLauncherVariable, "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  StartedProgram program(
      train_words({"--max_steps", "1000000", "--logging_steps", "1", "--save_steps", "100000000"}),
      directory_.path());
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
  for (int i = 0; i < 1200 && program.output().find("step 3 ") == std::string::npos; ++i) usleep(50000);
  kill(program.pid(), kPassedOnSignal);
  const ProgramRun result = program.wait();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(latest_checkpoint(output()).path);
}

// A slip is told before mpirun is looked for.
TEST_F(CliLaunch, MistakesAreToldBeforeRanksAreStarted) {
  expect_failure(
      {"launch", "--nproc_per_node", "2", "plan"}, 2,
      {"[launch] expected train, eval, predict, topo, bench step, which run as ranks, got 'plan'"});
  expect_failure({"launch", "--nproc_per_node", "2", "bench", "batch"}, 2,
                 {"which run as ranks, got 'bench batch'; it runs as one process: `shoehorn bench batch …`"});
  expect_failure({"launch", "--nproc_per_node", "2", "bench", "step", "--max_secnds", "3"}, 2,
                 {"[--max_secnds] expected a known flag", "max_seconds"});
  expect_failure({"launch", "--nproc_per_node", "2", "train", "--learnign_rate", "3"}, 2,
                 {"[--learnign_rate] expected a known flag", "learning_rate"});
}

// Those of other launchers say what to give here, unless they ask for nothing.
TEST_F(CliLaunch, FlagsOfOtherLaunchersSayWhatToGive) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> flags = {
      {{"--nnodes", "2"}, "torchrun and Accelerate; give --hostfile"},
      {{"--num_machines", "2"}, "torchrun and Accelerate; give --hostfile"},
      {{"--node_rank", "1"}, "launch is called on one host"},
      {{"--master_addr", "10.0.0.1"}, "leave it out"},
      {{"--master_port", "29500"}, "leave it out"}};
  for (const auto& [flag, said] : flags) {
    std::vector<std::string> words = {"launch", "--nproc_per_node", "2", flag[0], flag[1], "train"};
    expect_failure(words, 2, {"[" + flag[0] + "] expected a flag of Shoehorn, got one of", said});
  }
  EXPECT_EQ(launched("exit 0\n", {"--nnodes", "1", "--node_rank", "0"}, train_words()).wait().exit_code, 0);
}

// Of the hosts or of the job, unless a flag says how many.
TEST_F(CliLaunch, StartsARankForEachSlotOrTask) {
  const std::string hosts = directory_.write("hosts", "a slots=2\nb slots=3\n").string();
  const auto started_with = [&](const std::vector<std::string>& launch_words) {
    fs::remove(path("starts"));
    const ProgramRun result =
        started("exit 0\n", joined(joined({"launch"}, launch_words), train_words())).wait();
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return starts();
  };
  const std::string on_hosts = is_of_mpich() ? " -hosts a:2,b:3" : " --hostfile " + hosts;
  EXPECT_TRUE(contains(started_with({"--hostfile", hosts}), on_hosts + " -n 5 "));
  EXPECT_TRUE(contains(started_with({"--hostfile", hosts, "--nproc_per_node", "4"}), " -n 4 "));
  setenv("SLURM_NTASKS", "7", 1);
  EXPECT_TRUE(contains(started_with({}), " -n 7 "));
  EXPECT_TRUE(contains(started_with({"--hostfile", hosts}), " -n 5 "));
  setenv("SLURM_NTASKS", "many", 1);
  expect_failure(joined({"launch"}, train_words()), 2, {"[SLURM_NTASKS] expected a whole number"});
  unsetenv("SLURM_NTASKS");
  const std::string bare = directory_.write("bare", "a\n").string();
  expect_failure(joined({"launch", "--hostfile", bare}, train_words()), 2,
                 {"[--hostfile " + bare + "] expected slots=N of each host, got 'a' without"});
}

// The one mpirun that there is starts ranks of which the program's MPI knows nothing.
TEST_F(CliLaunch, AnotherMpisMpirunIsRefused) {
  if (!has_mpi_library()) GTEST_SKIP() << kNoMpi;
  const std::string version = is_of_mpich() ? "mpirun (Open MPI) 5.0.7" : "HYDRA build details:";
  const fs::path mpirun = directory_.write("other/mpirun", "#!/bin/sh\necho '" + version + "'\n");
  fs::permissions(mpirun, fs::perms::owner_all);
  const std::string before = std::getenv("PATH");
  setenv("PATH", mpirun.parent_path().c_str(), 1);
  expect_failure(joined({"launch", "--nproc_per_node", "2"}, train_words()), 2,
                 {is_of_mpich() ? "[launch] expected mpiexec.hydra or mpirun.mpich or mpirun of MPICH 4"
                                : "[launch] expected mpirun.openmpi or mpirun of Open MPI v",
                  "got " + mpirun.string() + " of another MPI; install "});
  setenv("PATH", before.c_str(), 1);
}

// Each restart is said, with what it goes on from: of this run, not of an earlier one in the directory.
TEST_F(CliLaunch, RestartsBehindAFailure) {
  fs::create_directories(output());
  ASSERT_EQ(run(train_words({"--max_steps", "4", "--save_steps", "4"})).exit_code, 0);
  const std::string train = "\"$@\" --max_steps 2 --save_steps 2 > /dev/null";
  const std::string script = "if [ $starts -eq 1 ]; then exit 9; fi\nif [ $starts -eq 2 ]; then " + train +
                             "; kill -9 $$; fi\nexit 0\n";
  const ProgramRun result =
      launched(script, {"--max_restarts", "3"}, train_words({"--overwrite_output_dir"})).wait();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const std::string checkpoint = (output() / "checkpoint-2").string();
  EXPECT_EQ(
      result.error,
      "The ranks ended with exit code 9; restart 1 of 3 with 1 rank begins anew, as no checkpoint was saved\n"
      "The ranks ended with exit code 137; restart 2 of 3 with 1 rank goes on from " +
          checkpoint + "\n");
  EXPECT_TRUE(starts().ends_with("--resume_from_checkpoint " + checkpoint + "\n")) << starts();
}

// One rank less takes the same steps: in as many micro-batches, of which each runs more.
TEST_F(CliLaunch, ARestartHasOneRankLess) {
  const auto restarted = [&](const std::vector<std::string>& launch_words,
                             const std::vector<std::string>& flags) {
    fs::remove(path("starts"));
    std::vector<std::string> words = {"--nproc_per_node", "3", "--max_restarts", "1"};
    words.insert(words.end(), launch_words.begin(), launch_words.end());
    const ProgramRun result = launched("exit 9\n", words, train_words(flags)).wait();
    EXPECT_EQ(result.exit_code, 9);
    EXPECT_EQ(number_of_starts(), 2);
    return std::pair(result.error, last_start());
  };
  const auto [error, words] = restarted({}, {"--gradient_accumulation_steps", "2"});
  EXPECT_TRUE(contains(error, "restart 1 of 1 with 2 ranks begins anew")) << error;
  EXPECT_TRUE(contains(words, " -n 2 ")) << words;
  EXPECT_TRUE(words.ends_with(
      " --effective_batch_size 48 --per_device_train_batch_size 8 --gradient_accumulation_steps 3\n"))
      << words;
  EXPECT_TRUE(restarted({}, {"--world_size", "3"})
                  .second.ends_with(" --gradient_accumulation_steps 2 --world_size 2\n"));
  EXPECT_TRUE(contains(restarted({"--keep_ranks"}, {}).second, " -n 3 "));
  EXPECT_TRUE(contains(restarted({}, {"--auto_find_batch_size"}).second, " -n 3 "));
  EXPECT_TRUE(
      contains(restarted({}, {"--deepspeed", R"({"gradient_accumulation_steps": 1})"}).second, " -n 3 "))
      << "the configuration says another number of micro-batches";
}

// Hosts on which mpirun starts nothing any more are left out, with the ranks that had their slots; those that are left take the same
// steps. The script keeps the hostfile of each start.
TEST_F(CliLaunch, ARestartLeavesOutHostsThatDoNotAnswer) {
  const std::string hosts = directory_.write("hosts", "a slots=3\nb slots=1 # spare\nc slots=2\n").string();
  const auto restarted = [&](const std::string& lost, const std::vector<std::string>& launch_words) {
    fs::remove(path("starts"));
    const std::string script =
        "case $words in\n" + lost + ") exit 1 ;;\n'--host '*) exit 0 ;;\nesac\nset -- $words\ncp $2 " +
        path("used").string() + "\n[ \"$OMPI_MCA_oob_tcp_keepalive_time\" = 10 ] || exit 2\nexit 9\n";
    return started(script, joined(joined({"launch", "--hostfile", hosts, "--max_restarts"}, launch_words),
                                  train_words()))
        .wait();
  };
  const ProgramRun one = restarted("'--host b -n 1 true'", {"1"});
  EXPECT_EQ(one.exit_code, 9);
  EXPECT_TRUE(
      one.error.starts_with("b does not answer any more: the run goes on without\n"
                            "The ranks ended with exit code 9; restart 1 of 1 with 5 ranks begins anew"))
      << one.error;
  EXPECT_EQ(read_text_file(path("used")), "a slots=3\nc slots=2\n");
  EXPECT_TRUE(starts().ends_with(
      " --effective_batch_size 48 --per_device_train_batch_size 8 --gradient_accumulation_steps 2\n"))
      << starts();
  const ProgramRun twice = restarted("'--host b '*|'--host c '*", {"2"});
  EXPECT_TRUE(contains(twice.error, "b, c do not answer any more")) << twice.error;
  EXPECT_TRUE(contains(twice.error, "restart 1 of 2 with 3 ranks")) << twice.error;
  EXPECT_TRUE(contains(twice.error, "restart 2 of 2 with 2 ranks")) << "a rank of a is lost: " << twice.error;
  EXPECT_TRUE(contains(restarted("'--host b '*", {"1", "--keep_ranks"}).error, "with 6 ranks"));
  const ProgramRun none = restarted("'--host '*", {"1"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(contains(none.error, "[--hostfile " + hosts + "] expected a host to go on with")) << none.error;
  EXPECT_TRUE(contains(none.error, "mpirun starts nothing on a, b, c")) << none.error;
}

// Ranks that share in groups are as many again, where one less would leave a group that is not whole.
TEST_F(CliLaunch, ARestartHasWholeGroups) {
  const auto restarted = [&](const char* ranks, const std::vector<std::string>& flags) {
    fs::remove(path("starts"));
    const std::vector<std::string> words = {"--nproc_per_node", ranks, "--max_restarts", "1"};
    EXPECT_EQ(launched("exit 9\n", words, train_words(flags)).wait().exit_code, 9);
    return last_start();
  };
  const std::vector<std::string> in_pairs = {"--zero_stage", "3", "--zero_group_size", "2"};
  EXPECT_TRUE(contains(restarted("4", in_pairs), " -n 4 "));
  EXPECT_TRUE(contains(restarted("4", {"--fsdp", "hybrid_shard"}), " -n 4 ")) << "a group is a host";
  EXPECT_TRUE(contains(restarted("4", {"--zero_stage", "3"}), " -n 3 ")) << "all share";
  EXPECT_TRUE(contains(restarted("4", {"--zero_group_size", "2"}), " -n 3 ")) << "none share";
  // Of two hosts of three one is lost: a group is the one that is left, or two ranks of it.
  const std::string hosts = directory_.write("hosts", "a slots=3\nb slots=3\n").string();
  const auto on_one_host = [&](const char* group) {
    fs::remove(path("starts"));
    const std::vector<std::string> flags = {"--zero_stage", "3", "--zero_group_size", group};
    started("case $words in '--host b '*) exit 1 ;; '--host '*) exit 0 ;; esac\nexit 9\n",
            joined({"launch", "--hostfile", hosts, "--max_restarts", "1"}, train_words(flags)))
        .wait();
    return starts();
  };
  EXPECT_TRUE(contains(on_one_host("0"), " -n 3 "));
  EXPECT_TRUE(contains(on_one_host("2"), " -n 2 "));
}

TEST_F(CliLaunch, NoRestartHelpsAMistakeOrIsWithoutLimit) {
  EXPECT_EQ(launched("exit 2\n", {"--max_restarts", "3"}, train_words()).wait().exit_code, 2);
  EXPECT_EQ(number_of_starts(), 1) << "a mistake of the arguments";
  EXPECT_EQ(launched("exit 1\n", {"--max_restarts", "2"}, train_words()).wait().exit_code, 1);
  EXPECT_EQ(number_of_starts(), 1 + 3);
  EXPECT_EQ(launched("exit 1\n", {}, train_words()).wait().exit_code, 1);
  EXPECT_EQ(number_of_starts(), 1 + 3 + 1) << "none is asked for";
}

// Ranks of torchrun, of accelerate launch and of DeepSpeed's launcher have no MPI: they would each train the whole.
TEST_F(CliLaunch, RanksOfTorchrunAreRefused) {
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("LOCAL_RANK", "0", 1);
  const ProgramRun result = run(train_words());
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) unsetenv(name);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.error.find("torchrun"), std::string::npos) << result.error;
  EXPECT_NE(result.error.find("shoehorn launch --nproc_per_node N train"), std::string::npos) << result.error;
}

TEST_F(CliLaunch, NeedsACommandThatRunsOnRanks) {
  expect_failure({"launch", "--nproc_per_node", "2"}, 2,
                 {"[launch] expected the command that the ranks run"});
  expect_failure({"launch", "--nproc_per_node", "0", "train"}, 2, {"[--nproc_per_node] expected"});
  expect_failure({"launch", "--nproc_per_node", "4097", "train"}, 2,
                 {"[--nproc_per_node] expected at most 4096 ranks, got 4097"});
  expect_failure(train_words({"--world_size", "4"}), 2,
                 {"[--world_size 4]", "shoehorn launch --nproc_per_node 4"});
}

// Without ranks there: what each of them would hold and send. Their gradients are as many however many they are.
TEST_F(CliLaunch, PlansForRanksThatAreNotThere) {
  const auto plan = [&](const std::string& ranks) {
    const ProgramRun result = run(
        {"plan", "--model_name_or_path", model(), "--max_seq_length", "32", "--world_size", ranks, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return nlohmann::json::parse(result.output);
  };
  const nlohmann::json one = plan("1");
  const nlohmann::json many = plan("1024");
  EXPECT_FALSE(one.contains("world_size"));
  EXPECT_EQ(many.at("world_size"), 1024);
  const double gradients = 4 * many.at("trainable_parameters").get<double>();
  const double words_about_stops = 4 * 1023;
  EXPECT_NEAR(many.at("sent_bytes_in_step").get<double>(), 2 * 1023.0 / 1024 * gradients + words_about_stops,
              0.01 * gradients);
  EXPECT_EQ(many.at("by_role").at("optimizer_state"), one.at("by_role").at("optimizer_state"));
  EXPECT_TRUE(many.at("by_role").contains("communication"));
}

}  // namespace
}  // namespace shoehorn
