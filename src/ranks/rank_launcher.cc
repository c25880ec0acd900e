#include "ranks/rank_launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "base/child_process.h"
#include "base/error.h"
#include "base/process.h"
#include "base/stop_request.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;

constexpr int kNotStarted = 127;  // a shell's code

// Signals that a stop may be, unless they are ignored, and that of a child's end: held back from this thread, which waits
// for them.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGCHLD);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction action{};
      if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&held_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { release(); }

  void release() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  // The next one; -1 if there is none soon.
  int wait() const {
    const timespec soon{.tv_sec = 0, .tv_nsec = 250'000'000};
    return sigtimedwait(&held_, nullptr, &soon);
  }

 private:
  sigset_t held_{};
  sigset_t before_{};
};

// Runs in the child between fork and exec.
[[noreturn]] void become(const std::vector<char*>& arguments, const HeldSignals& signals, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  signals.release();
  if (getppid() != parent) _exit(kNotStarted);  // the parent ended before the lines above
  // A process group in the background that reads a terminal is stopped.
  if (isatty(STDIN_FILENO) != 0) {
    if (const int nothing = open("/dev/null", O_RDONLY); nothing >= 0) dup2(nothing, STDIN_FILENO);
  }
  execv(arguments[0], arguments.data());
  constexpr std::string_view kFailed =
      "[launch] expected mpirun to be started, got a program that cannot be run\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kFailed.data(), kFailed.size());
  _exit(kNotStarted);
}

// The parent of a process; 0 if it is gone.
pid_t parent_of(const fs::path& process) {
  std::ifstream stat(process / "stat");
  std::string line;
  if (!std::getline(stat, line)) return 0;
  const size_t end = line.rfind(')');  // of the program's name, which may hold anything
  if (end == std::string::npos) return 0;
  char state = 0;
  int parent = 0;
  return std::sscanf(line.c_str() + end + 1, " %c %d", &state, &parent) == 2 && state != 'Z' ? parent : 0;
}

// Whether a process has a child that runs; true where the kernel does not say.
bool has_running_child(pid_t process) {
  std::error_code absent;
  bool is_told = false;
  for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", process), absent)) {
    std::ifstream children(thread.path() / "children");
    is_told = is_told || children.is_open();
    for (pid_t child = 0; children >> child;) {
      if (is_process_running(child)) return true;
    }
  }
  return !is_told;
}

// A file in memory, of this process, that processes below it find by its path.
class SuccessFile {
 public:
  explicit SuccessFile(Success success) {
    unsetenv(kSuccessVariable);
    if (success == Success::kIsExitCode) return;
    file_ = memfd_create("success", MFD_CLOEXEC);
    if (file_ < 0) throw system_error("[memfd_create] expected a file, got: {}", std::strerror(errno));
    setenv(kSuccessVariable, fmt::format("/proc/{}/fd/{}", getpid(), file_).c_str(), 1);
  }
  SuccessFile(const SuccessFile&) = delete;
  SuccessFile& operator=(const SuccessFile&) = delete;
  ~SuccessFile() {
    if (file_ >= 0) close(file_);
  }

  bool is_missed() const { return file_ >= 0 && lseek(file_, 0, SEEK_END) <= 0; }

 private:
  int file_ = -1;
};

using Clock = std::chrono::steady_clock;

// The signals so far. One that comes at once behind another is the same event (base/stop_request.h).
class PassedOn {
 public:
  void take(int signal, pid_t launcher, LaunchEnd& end) {
    const auto now = Clock::now();
    const bool is_first = end.stop_signal == 0;
    if (!is_first && std::chrono::duration<double>(now - last_).count() < kSecondSignalSeconds) return;
    last_ = now;
    if (is_first) end.stop_signal = signal;
    const std::vector<pid_t> ranks = processes_below(launcher);
    for (const pid_t rank : ranks) kill(rank, signal);
    if (!is_first) {
      kill(launcher, signal);
    } else if (ranks.empty()) {
      kill(launcher, kPassedOnSignal);
    }
  }

 private:
  Clock::time_point last_;
};

// Whether all children of a launcher have ended for so long.
class LeftAlone {
 public:
  explicit LeftAlone(double seconds) : seconds_(seconds) {}

  bool look(pid_t launcher) {
    const auto now = Clock::now();
    if (has_running_child(launcher)) {
      has_had_child_ = true;
      last_child_ = now;
    }
    return has_had_child_ && std::chrono::duration<double>(now - last_child_).count() >= seconds_;
  }

 private:
  double seconds_;
  bool has_had_child_ = false;
  Clock::time_point last_child_;
};

}  // namespace

int LaunchEnd::shell_code() const {
  const bool failed = exit_code > 0 && exit_code < 128;
  return stop_signal != 0 && !failed ? exit_code_of_stop(stop_signal) : exit_code;
}

std::vector<pid_t> processes_below(pid_t ancestor) {
  std::error_code absent;
  const fs::path program = own_program();
  std::map<pid_t, pid_t> parents;
  for (const auto& entry : fs::directory_iterator("/proc", absent)) {
    const std::string name = entry.path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
      continue;
    if (const pid_t parent = parent_of(entry.path()); parent > 0) parents[std::stoi(name)] = parent;
  }
  std::vector<pid_t> found;
  for (const auto& [process, parent] : parents) {
    pid_t above = parent;
    while (above != ancestor && parents.contains(above)) above = parents.at(above);
    if (above != ancestor) continue;
    const fs::path its_program =
        fs::read_symlink(fs::path("/proc") / std::to_string(process) / "exe", absent);
    if (!absent && its_program == program) found.push_back(process);
  }
  return found;
}

void tell_success() {
  const char* path = std::getenv(kSuccessVariable);
  if (path != nullptr) std::ofstream(path) << "finished\n";
}

LaunchEnd run_launcher(const std::vector<std::string>& words, Success success, double seconds_alone) {
  CHECK(!words.empty(), "no program is named");
  const SuccessFile success_file(success);
  setenv(kLauncherVariable, std::to_string(getpid()).c_str(), 1);
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const HeldSignals signals;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw system_error("[{}] expected it to start, got: {}", words[0], std::strerror(errno));
  if (child == 0) become(arguments, signals, parent);
  setpgid(child, child);  // whoever comes first
  LaunchEnd end;
  PassedOn passed_on;
  LeftAlone left_alone(seconds_alone);
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) {
      end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : exit_code_of_stop(WTERMSIG(status));
      end.has_lost_a_rank = end.exit_code == 0 && success_file.is_missed();
      if (end.has_lost_a_rank) end.exit_code = 1;
      return end;
    }
    if (ended < 0 && errno != EINTR)
      throw system_error("[{}] expected its end, got: {}", words[0], std::strerror(errno));
    const int signal = signals.wait();
    if (signal > 0 && signal != SIGCHLD) passed_on.take(signal, child, end);
    if (!end.was_stuck && left_alone.look(child)) {
      end.was_stuck = true;
      kill(child, SIGKILL);
    }
  }
}

}  // namespace shoehorn
