#include "base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/now_seconds.h"
#include "base/stop_request.h"

namespace shoehorn {

namespace {

class Descriptor {
 public:
  Descriptor(int number, const char* what) : number_(number) {
    if (number < 0) throw system_error("[{}] expected a descriptor, got: {}", what, std::strerror(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  int number() const { return number_; }
  void reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

// A file in memory. Unlike with a pipe, a child that writes much never waits for a reader.
std::string text_of(const Descriptor& file) {
  std::string text;
  std::array<char, 4096> block{};
  off_t at = 0;
  for (;;) {
    const ssize_t count = pread(file.number(), block.data(), block.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(block.data(), static_cast<size_t>(count));
    at += count;
  }
}

// Runs in the child between fork and exec: allocates nothing and takes no lock. Writes errno to `failures` if
// exec fails.
[[noreturn]] void become(char* const* arguments, char* const* environment, int in, int out, int err,
                         int failures, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent ended before the line above
  if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0)
    execve(arguments[0], arguments, environment);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(failures, &reason, sizeof(reason));
  _exit(127);
}

// The pointers that exec takes. They are valid as long as `texts`.
std::vector<char*> null_terminated(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's environment with `variables` added; they replace variables of the same name, or take them away.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  const auto name_of = [](std::string_view setting) { return setting.substr(0, setting.find('=')); };
  std::vector<std::string> all;
  std::ranges::copy_if(variables, std::back_inserter(all),
                       [](const std::string& variable) { return variable.find('=') != std::string::npos; });
  for (char** setting = environ; *setting != nullptr; ++setting) {
    const bool is_replaced =
        std::any_of(variables.begin(), variables.end(),
                    [&](const std::string& variable) { return name_of(variable) == name_of(*setting); });
    if (!is_replaced) all.emplace_back(*setting);
  }
  return all;
}

// Waits for a child's end and for a request to stop, whichever comes first.
class Waiting {
 public:
  // `name`: of the program, for errors.
  Waiting(pid_t child, const std::string& name)
      : child_(child), name_(name), end_(static_cast<int>(syscall(SYS_pidfd_open, child, 0)), name.c_str()) {}

  // True if the child has ended within the time, with its status then.
  bool has_ended_within(double seconds, int& status) {
    pollfd end = {.fd = end_.number(), .events = POLLIN, .revents = 0};
    if (poll(&end, 1, static_cast<int>(1000 * seconds)) < 0 && errno != EINTR) fail();
    const pid_t ended = waitpid(child_, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) fail();
    return ended == child_;
  }

  // Waits for the end; the child's status. A stop that is requested meanwhile ends it, and so does the limit.
  int status(double limit_seconds) {
    constexpr double kLookSeconds = 0.1;  // a signal between two looks interrupts no poll
    const double end_seconds = now_seconds() + limit_seconds;
    int status = 0;
    while (!has_ended_within(kLookSeconds, status)) {
      if (stop_signal() == 0 && now_seconds() < end_seconds) continue;
      kill(child_, SIGTERM);
      if (has_ended_within(kStopGraceSeconds, status)) break;
      kill(child_, SIGKILL);
      while (!has_ended_within(kLookSeconds, status)) {
      }
      break;
    }
    return status;
  }

 private:
  [[noreturn]] void fail() const {
    throw system_error("[{}] expected its end, got: {}", name_, std::strerror(errno));
  }

  pid_t child_;
  const std::string& name_;
  Descriptor end_;
};

}  // namespace

FinishedProcess run_process(const std::vector<std::string>& words, const std::vector<std::string>& variables,
                            double limit_seconds) {
  CHECK(!words.empty(), "no program is named");
  std::vector<std::string> copies = words;
  std::vector<char*> arguments = null_terminated(copies);
  std::vector<std::string> settings = environment_with(variables);
  std::vector<char*> environment = null_terminated(settings);

  const Descriptor in(open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null");
  const Descriptor out(memfd_create("stdout", MFD_CLOEXEC), "memfd_create");
  const Descriptor err(memfd_create("stderr", MFD_CLOEXEC), "memfd_create");
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("[pipe] {}", std::strerror(errno));
  const Descriptor failures(ends[0], "pipe");
  Descriptor failures_in(ends[1], "pipe");

  const double start = now_seconds();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw system_error("[{}] expected it to start, got: {}", words[0], std::strerror(errno));
  if (child == 0)
    become(arguments.data(), environment.data(), in.number(), out.number(), err.number(),
           failures_in.number(), parent);
  failures_in.reset();
  int reason = 0;
  ssize_t read_bytes = 0;  // the pipe closes, empty, when the program has taken the child's place
  do {
    read_bytes = read(failures.number(), &reason, sizeof(reason));
  } while (read_bytes < 0 && errno == EINTR);
  const int status = Waiting(child, words[0]).status(limit_seconds);
  if (read_bytes == sizeof(reason))
    throw system_error("[{}] expected a program that can be run, got: {}", words[0], std::strerror(reason));

  // Ctrl-C reaches the child too: what it ended with is no result.
  throw_if_stop_requested();
  FinishedProcess finished;
  finished.seconds = now_seconds() - start;
  if (WIFEXITED(status)) finished.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) finished.signal = WTERMSIG(status);
  finished.output = text_of(out);
  finished.error = text_of(err);
  return finished;
}

void become_process(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  throw system_error("[{}] expected a program that can be started, got: {}", words.at(0),
                     std::strerror(errno));
}

std::filesystem::path own_program() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw system_error("[/proc/self/exe] expected the running program, got: {}", error.message());
  return path;
}

}  // namespace shoehorn
