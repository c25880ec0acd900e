// The program as several ranks, started by mpirun: `shoehorn launch`. Skipped where there is no MPI.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli_support.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;
namespace fs = std::filesystem;

// A run whose rank has failed ends in about eight seconds on an idle machine, most of which mpirun waits. Others may use the
// processors of a test: what it looks for is that nobody waits for ever.
constexpr double kNoHangSeconds = 60;

class CliRanks : public CliTest {
 protected:
  void SetUp() override {
    const fs::path library = fs::path(SHOEHORN_PROGRAM).parent_path() / "libshoehorn_mpi.so";
    if (!fs::exists(library) || std::system("command -v mpirun > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "no MPI: libopenmpi-dev and openmpi-bin, and a build with them";
  }

  static std::vector<std::string> on_ranks(int ranks, std::vector<std::string> words) {
    std::vector<std::string> all = {"launch", "--nproc_per_node", std::to_string(ranks)};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  // Processes of the program that `launcher` started, by their rank.
  static std::map<int, pid_t> ranks_of(pid_t launcher) {
    std::map<int, pid_t> ranks;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename().string();
      if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
        continue;
      std::ifstream stat(entry.path() / "stat");
      std::string id, command, state;
      pid_t parent = 0;
      if (!(stat >> id >> command >> state >> parent) || parent != launcher) continue;
      std::ifstream environment(entry.path() / "environ");
      for (std::string variable; std::getline(environment, variable, '\0');) {
        if (variable.starts_with("OMPI_COMM_WORLD_RANK="))
          ranks[std::stoi(variable.substr(21))] = std::stoi(name);
      }
    }
    return ranks;
  }

  // One that has ended may stay in the table of processes until somebody asks for its exit code.
  static bool is_running(pid_t process) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string id, command, state;
    return static_cast<bool>(stat >> id >> command >> state) && state != "Z" && state != "X";
  }

  // A run of two ranks that has done some steps and would go on for long.
  StartedProgram endless(std::vector<std::string> more = {}) const {
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

// One process goes on from the checkpoint of two, with their effective batch.
TEST_F(CliRanks, OneProcessResumesTheirCheckpoint) {
  ASSERT_EQ(run(on_ranks(2, train_words({"--save_steps", "2"}))).exit_code, 0);
  std::vector<std::string> words = train_words({"--gradient_accumulation_steps", "2", "--max_steps", "6"});
  words.insert(words.end(), {"--resume_from_checkpoint", (output() / "checkpoint-2").string()});
  const ProgramRun resumed = run(words);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_TRUE(contains(resumed.output, "changed since checkpoint-2: --world_size 2 → 1")) << resumed.output;
  words = train_words({"--resume_from_checkpoint", (output() / "checkpoint-2").string()});
  expect_failure(words, 2, {"--world_size 2 → 1", "other samples"});
}

// A rank that is killed ends the others, whatever they wait for, within ten seconds.
TEST_F(CliRanks, AKilledRankEndsTheRun) {
  StartedProgram program = endless();
  ASSERT_TRUE(wait_for(program, "step 3 "));
  const std::map<int, pid_t> ranks = ranks_of(program.pid());
  ASSERT_EQ(ranks.size(), 2U);
  const auto begin = std::chrono::steady_clock::now();
  kill(ranks.at(1), SIGKILL);
  const ProgramRun result = program.wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), kNoHangSeconds);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE((result.output + result.error).find("rank 1"), std::string::npos) << result.error;
  EXPECT_FALSE(is_running(ranks.at(0)));
}

// A rank that is stopped is noticed after ddp_timeout, and named.
TEST_F(CliRanks, AStoppedRankIsNamedAfterTheTimeout) {
  StartedProgram program = endless({"--ddp_timeout", "3"});
  ASSERT_TRUE(wait_for(program, "step 3 "));
  const std::map<int, pid_t> ranks = ranks_of(program.pid());
  ASSERT_EQ(ranks.size(), 2U);
  const auto begin = std::chrono::steady_clock::now();
  kill(ranks.at(1), SIGSTOP);
  const ProgramRun result = program.wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), kNoHangSeconds);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.error.find("[ddp_timeout] expected rank 1 on "), std::string::npos) << result.error;
  EXPECT_FALSE(is_running(ranks.at(1)));
}

// A stop reaches mpirun: all ranks stop behind the same step, and the first saves. Open MPI 4 passes the signal on after its
// timeout, reads no output meanwhile (so that much of it would block a rank), and kills ranks after the same time again.
TEST_F(CliRanks, AStopSavesACheckpoint) {
  setenv("OMPI_MCA_odls_base_sigkill_timeout", "10", 1);
  setenv("PRTE_MCA_odls_base_sigkill_timeout", "10", 1);
  StartedProgram program =
      endless({"--save_strategy", "steps", "--save_steps", "100000000", "--logging_steps", "500"});
  unsetenv("OMPI_MCA_odls_base_sigkill_timeout");
  unsetenv("PRTE_MCA_odls_base_sigkill_timeout");
  ASSERT_TRUE(wait_for(program, "step 500 "));
  kill(program.pid(), SIGTERM);
  const ProgramRun result = program.wait();
  EXPECT_TRUE(contains(result.output, "Stopped by SIGTERM after step")) << result.error;
  const LatestCheckpoint latest = latest_checkpoint(output());
  ASSERT_TRUE(latest.path);
  EXPECT_EQ(checkpoint_defect(*latest.path, VerifiedFiles::kAll), "");
}

// A mistake of the common arguments is said once, by the first rank.
TEST_F(CliRanks, AMistakeIsSaidOnce) {
  const ProgramRun result = run(on_ranks(2, train_words({"--world_size", "3"})));
  EXPECT_NE(result.exit_code, 0);
  const std::string said = "[--world_size 3] expected the number of ranks, got 2 of them";
  EXPECT_NE(result.error.find(said), std::string::npos) << result.error;
  EXPECT_EQ(result.error.find(said), result.error.rfind(said)) << result.error;
}

class CliLaunch : public CliTest {};

TEST_F(CliLaunch, NeedsACommandThatRunsOnRanks) {
  expect_failure({"launch", "--nproc_per_node", "2"}, 2,
                 {"[launch] expected the command that the ranks run"});
  expect_failure({"launch", "--nproc_per_node", "0", "train"}, 2, {"[--nproc_per_node] expected"});
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
  EXPECT_NEAR(many.at("sent_bytes_in_step").get<double>(), 2 * 1023.0 / 1024 * gradients, 0.01 * gradients);
  EXPECT_EQ(many.at("by_role").at("optimizer_state"), one.at("by_role").at("optimizer_state"));
  EXPECT_TRUE(many.at("by_role").contains("communication"));
}

}  // namespace
}  // namespace shoehorn
