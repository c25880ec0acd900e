#include "ranks/rank_launcher.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

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

// Where there is no rank mpirun is told, as it passes signals on, and its group is not this process's: Ctrl-C of a terminal does not.
TEST(RankLauncher, PassesASignalOn) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    dup2(ends[1], STDOUT_FILENO);
    const LaunchEnd end =
        run_launcher(shell("trap 'exit 5' USR1; echo $(ps -o pgid= -p $$) $$; while :; do sleep 0.02; done"));
    _exit(end.stop_signal == SIGTERM ? end.exit_code : 99);
  }
  std::string line;
  for (char c = 0; c != '\n' && read(ends[0], &c, 1) == 1;) line += c;
  kill(launcher, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(launcher, &status, 0), launcher);
  EXPECT_EQ(WEXITSTATUS(status), 5);
  const size_t space = line.find(' ');
  ASSERT_NE(space, std::string::npos) << line;
  EXPECT_EQ(std::stoi(line), std::stoi(line.substr(space))) << "a group of its own";
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
