#include "base/stop_request.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace shoehorn {
namespace {

// What a process ends with that runs `body`, whatever signals this one ignores: a shell that starts it in the background
// has it ignore SIGINT.
int exit_code_of(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class StopRequest : public testing::Test {
 protected:
  ~StopRequest() override { clear_stop_request(); }
};

TEST_F(StopRequest, TheFirstOneCounts) {
  throw_if_stop_requested();
  EXPECT_EQ(stop_signal(), 0);
  request_stop(SIGHUP);
  request_stop(SIGINT);
  EXPECT_EQ(stop_signal(), SIGHUP);
  try {
    throw_if_stop_requested();
    FAIL();
  } catch (const Stopped& stop) {
    EXPECT_EQ(stop.signal(), SIGHUP);
    EXPECT_STREQ(stop.what(), "stopped by SIGHUP");
  }
  clear_stop_request();
  throw_if_stop_requested();
}

TEST_F(StopRequest, SaysWhatIsKept) {
  EXPECT_STREQ(Stopped(SIGINT, "nothing was written").what(),
               "stopped by Ctrl-C (SIGINT): nothing was written");
  EXPECT_EQ(exit_code_of_stop(SIGINT), 130);
  EXPECT_EQ(exit_code_of_stop(SIGTERM), 143);
  EXPECT_EQ(exit_code_of_stop(SIGHUP), 129);
}

TEST_F(StopRequest, SignalsRequestItWhileTheObjectLives) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int code = exit_code_of([signal] {
      {
        const StopSignals outer;
        {
          const StopSignals inner;
        }
        raise(signal);
        if (stop_signal() != signal) _exit(1);
        clear_stop_request();
      }
      raise(signal);
    });
    EXPECT_EQ(code, -signal);
  }
}

// The exit code of a program that is done stays what it is.
TEST_F(StopRequest, ASignalBehindTheLastWorkChangesNothing) {
  const int code = exit_code_of([] {
    keep_stop_signals();
    {
      const StopSignals signals;
    }
    raise(SIGTERM);
    _exit(3);
  });
  EXPECT_EQ(code, 3);
}

// nohup ignores SIGHUP; a shell without job control ignores SIGINT of what it starts in the background.
TEST_F(StopRequest, AnIgnoredSignalStaysIgnored) {
  const int code = exit_code_of([] {
    std::signal(SIGHUP, SIG_IGN);
    const StopSignals signals;
    raise(SIGHUP);
    if (stop_signal() != 0) _exit(1);
    raise(SIGTERM);
    if (stop_signal() != SIGTERM) _exit(2);
  });
  EXPECT_EQ(code, 0);
}

TEST_F(StopRequest, ASecondSignalEndsTheProcess) {
  const int at_once = exit_code_of([] {
    const StopSignals signals;
    raise(SIGTERM);
    raise(SIGTERM);  // `timeout` signals the process and its group
    raise(SIGHUP);
  });
  EXPECT_EQ(at_once, 0);
  const int later = exit_code_of([] {
    const StopSignals signals;
    raise(SIGTERM);
    usleep(static_cast<useconds_t>(1e6 * kSecondSignalSeconds));
    raise(SIGINT);
  });
  EXPECT_EQ(later, 130);
}

}  // namespace
}  // namespace shoehorn
