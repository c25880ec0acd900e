#include "base/child_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/error.h"
#include "base/stop_request.h"

namespace shoehorn {
namespace {

FinishedProcess run_shell(const std::string& script) {
  return run_process({"/bin/sh", "-c", script});
}

TEST(ChildProcess, BothStreamsAndTheExitCode) {
  const FinishedProcess finished = run_shell("echo said; echo complained >&2; exit 3");
  EXPECT_EQ(finished.exit_code, 3);
  EXPECT_FALSE(finished.ended_by_signal());
  EXPECT_EQ(finished.output, "said\n");
  EXPECT_EQ(finished.error, "complained\n");
}

TEST(ChildProcess, ArgumentsAreTakenAsTheyAre) {
  const FinishedProcess finished =
      run_process({"/bin/sh", "-c", "printf '%s|' \"$@\"", "sh", "a b", "", "$x'"});
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.output, "a b||$x'|");
}

TEST(ChildProcess, InputIsEmpty) {
  EXPECT_EQ(run_shell("cat; echo end").output, "end\n");
}

// More than any pipe holds, on both streams in turns.
TEST(ChildProcess, LongOutput) {
  const FinishedProcess finished =
      run_shell("i=0; while [ $i -lt 64 ]; do printf '%4096d' $i; printf '%4096d' $i >&2; i=$((i+1)); done");
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.output.size(), 64U * 4096);
  EXPECT_EQ(finished.error.size(), 64U * 4096);
  EXPECT_EQ(finished.output.substr(finished.output.size() - 3), " 63");
}

TEST(ChildProcess, EndByASignal) {
  const FinishedProcess finished = run_shell("echo before; kill -KILL $$");
  EXPECT_TRUE(finished.ended_by_signal());
  EXPECT_EQ(finished.signal, SIGKILL);
  EXPECT_EQ(finished.exit_code, -1);
  EXPECT_EQ(finished.output, "before\n");
}

TEST(ChildProcess, NoSuchProgram) {
  try {
    run_process({"/nowhere/program", "--flag"});
    FAIL() << "it ran";
  } catch (const SystemError& error) {
    EXPECT_NE(std::string(error.what()).find("[/nowhere/program]"), std::string::npos) << error.what();
  }
}

TEST(ChildProcess, OwnProgram) {
  EXPECT_NE(own_program().filename().string().find("test"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(own_program()));
}

// How long it takes until a program is gone after a stop was requested.
double seconds_to_stop(const std::string& script) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point requested;
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    requested = Clock::now();
    request_stop(SIGINT);
  });
  EXPECT_THROW(run_shell(script), Stopped);
  const Clock::time_point ended = Clock::now();
  user.join();
  clear_stop_request();
  return std::chrono::duration<double>(ended - requested).count();
}

TEST(ChildProcess, AStopEndsIt) {
  EXPECT_LT(seconds_to_stop("exec sleep 60"), kStopGraceSeconds);
  // One that does not listen is killed.
  EXPECT_GE(seconds_to_stop("trap '' TERM; while :; do sleep 0.05; done"), kStopGraceSeconds);
}

// What it wrote before stays.
TEST(ChildProcess, ALimitEndsIt) {
  const FinishedProcess finished = run_process({"/bin/sh", "-c", "echo begun; exec sleep 10"}, {}, 0.2);
  EXPECT_EQ(finished.signal, SIGTERM);
  EXPECT_EQ(finished.output, "begun\n");
  EXPECT_LT(finished.seconds, 10);
  EXPECT_EQ(run_process({"/bin/sh", "-c", "exit 3"}, {}, 30).exit_code, 3);
}

// Ctrl-C reaches both: what the child ended with is no result.
TEST(ChildProcess, WhatEndsWhileAStopIsRequestedIsNoResult) {
  request_stop(SIGINT);
  EXPECT_THROW(run_shell("exit 130"), Stopped);
  clear_stop_request();
}

TEST(ChildProcess, VariablesAreAddedToTheEnvironment) {
  setenv("CHILD_PROCESS_TEST", "old", 1);
  const std::vector<std::string> words = {"/bin/sh", "-c", "echo $CHILD_PROCESS_TEST ${HOME:+home}"};
  setenv("HOME", "/", 0);
  EXPECT_EQ(run_process(words).output, "old home\n");
  EXPECT_EQ(run_process(words, {"CHILD_PROCESS_TEST=new=er"}).output, "new=er home\n");
  EXPECT_EQ(run_process(words, {"CHILD_PROCESS_TEST"}).output, "home\n") << "taken away";
  unsetenv("CHILD_PROCESS_TEST");
}

}  // namespace
}  // namespace shoehorn
