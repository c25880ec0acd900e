#include "ranks/rank_launcher.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <utility>

#include "base/child_process.h"
#include "base/error.h"
#include "base/stop_request.h"

namespace shoehorn {
namespace {

std::vector<std::string> shell(const std::string& script) {
  return {"/bin/sh", "-c", script};
}

TEST(RankLauncher, HasTheExitCodeOfItsProgram) {
  EXPECT_EQ(run_launcher(shell("exit 0")).shell_code(), 0);
  EXPECT_EQ(run_launcher(shell("exit 3")).shell_code(), 3);
  EXPECT_EQ(run_launcher(shell("kill -9 $$")).shell_code(), 137);
  EXPECT_EQ(run_launcher({"/no/such/mpirun"}).exit_code, 127);
  EXPECT_EQ(run_launcher(shell("test \"$SHOEHORN_LAUNCHER\" = " + std::to_string(getpid()))).exit_code, 0);
}

TEST(RankLauncher, AStopIsASuccessUnlessItFails) {
  EXPECT_EQ((LaunchEnd{.exit_code = 0, .stop_signal = SIGTERM}.shell_code()), 143);
  EXPECT_EQ((LaunchEnd{.exit_code = 137, .stop_signal = SIGINT}.shell_code()), 130);
  EXPECT_EQ((LaunchEnd{.exit_code = 1, .stop_signal = SIGHUP}.shell_code()), 1)
      << "the checkpoint was not saved";
}

// A mpirun that loses a rank and says 0 has not succeeded, where the ranks tell of success.
TEST(RankLauncher, AsksForSuccess) {
  const LaunchEnd lost = run_launcher(shell("exit 0"), Success::kIsTold);
  EXPECT_TRUE(lost.has_lost_a_rank);
  EXPECT_EQ(lost.shell_code(), 1);
  const std::string tell = "echo finished > \"$SHOEHORN_LAUNCH_SUCCESS\"; exit ";
  EXPECT_EQ(run_launcher(shell(tell + "0"), Success::kIsTold).shell_code(), 0);
  const LaunchEnd failed = run_launcher(shell(tell + "3"), Success::kIsTold);
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_FALSE(failed.has_lost_a_rank);
  EXPECT_EQ(run_launcher(shell("test -z \"$SHOEHORN_LAUNCH_SUCCESS\"")).exit_code, 0) << "nobody asks";
}

// A mpirun that does not end when its ranks have is killed; with one of them, or before the first, it is waited for. A rank that it does
// not collect has ended, too.
TEST(RankLauncher, EndsAProgramThatOutlivesItsChildren) {
  const LaunchEnd stuck = run_launcher(shell("sleep 0.8 & exec sleep 20"), Success::kIsExitCode, 0.3);
  EXPECT_TRUE(stuck.was_stuck);
  EXPECT_EQ(stuck.shell_code(), 137);
  for (const char* script : {"sleep 1 & wait", "exec sleep 1"}) {
    const LaunchEnd end = run_launcher(shell(script), Success::kIsExitCode, 0.3);
    EXPECT_FALSE(end.was_stuck) << script;
    EXPECT_EQ(end.exit_code, 0) << script;
  }
}

// A child process that runs run_launcher() and ends with `exit_code` of it, or with 99 if no SIGTERM was passed on.
class LauncherProcess {
 public:
  explicit LauncherProcess(const std::vector<std::string>& words) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      close(ends[1]);
      const LaunchEnd end = run_launcher(words);
      _exit(end.stop_signal == SIGTERM ? end.exit_code : 99);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;
  ~LauncherProcess() { close(output_); }

  // The rest of the first line of the output that begins with `begin`; all of the output if there is none.
  std::string line_behind(const std::string& begin) const {
    std::string output;
    std::string line;
    for (char c = 0; read(output_, &c, 1) == 1;) {
      line += c;
      if (c != '\n') continue;
      if (line.starts_with(begin)) return line.substr(begin.size(), line.size() - begin.size() - 1);
      output += std::exchange(line, {});
    }
    return output + line;
  }

  int exit_code_after(int signal) const {
    kill(process_, signal);
    int status = 0;
    EXPECT_EQ(waitpid(process_, &status, 0), process_);
    return WEXITSTATUS(status);
  }

 private:
  pid_t process_ = 0;
  int output_ = -1;
};

// Where there is no rank mpirun is told, as it passes signals on, and its group is not this process's: Ctrl-C of a terminal does not.
TEST(RankLauncher, PassesASignalOn) {
  const LauncherProcess launcher(
      shell("trap 'exit 5' USR1; echo groups: $(ps -o pgid= -p $$) $$;"
            "for turn in $(seq 1000); do sleep 0.02; done; exit 6"));
  const std::string line = launcher.line_behind("groups: ");
  EXPECT_EQ(launcher.exit_code_after(SIGTERM), 5);
  const size_t space = line.find(' ');
  ASSERT_NE(space, std::string::npos) << line;
  EXPECT_EQ(std::stoi(line), std::stoi(line.substr(space))) << "a group of its own";
}

// Runs as a process of its own, as a rank does.
TEST(LaunchedProgram, DISABLED_WaitsForASignal) {
  sigset_t awaited{};
  sigemptyset(&awaited);
  for (const int signal : {SIGTERM, SIGUSR1}) sigaddset(&awaited, signal);
  sigprocmask(SIG_BLOCK, &awaited, nullptr);
  std::printf("\nwaits\n");
  std::fflush(stdout);
  const timespec limit{.tv_sec = 20, .tv_nsec = 0};
  const int signal = sigtimedwait(&awaited, nullptr, &limit);
  _exit(signal == SIGTERM ? 7 : 8);
}

// mpirun would give it little time to save a checkpoint. The shell stands for mpirun, and would end with 9.
TEST(RankLauncher, PassesASignalToARankItselfWhereOneIsHere) {
  const LauncherProcess launcher(shell(
      "trap 'exit 9' TERM USR1; env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX '" + own_program().string() +
      "' --gtest_filter=LaunchedProgram.DISABLED_WaitsForASignal --gtest_also_run_disabled_tests; exit $?"));
  ASSERT_EQ(launcher.line_behind("waits"), "");
  EXPECT_EQ(launcher.exit_code_after(SIGTERM), 7);
}

// Two levels below, as ranks are below mpirun on some systems.
TEST(RankLauncher, FindsItsProgramBelowAProcess) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild > 0 && write(ends[1], &grandchild, sizeof(grandchild)) < 0) _exit(1);
    pause();
  }
  pid_t grandchild = 0;
  ASSERT_EQ(read(ends[0], &grandchild, sizeof(grandchild)), static_cast<ssize_t>(sizeof(grandchild)));
  EXPECT_EQ(processes_below(child), std::vector<pid_t>{grandchild});
  std::vector<pid_t> both = {child, grandchild};
  std::sort(both.begin(), both.end());
  EXPECT_EQ(processes_below(getpid()), both);
  kill(grandchild, SIGKILL);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace shoehorn
