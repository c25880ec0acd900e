// Runs a program to its end and captures its output (Linux).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

// What a program has for its own end when it is stopped.
inline constexpr double kStopGraceSeconds = 3;

struct FinishedProcess {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  std::string output;  // all of its standard output
  std::string error;   // all of its standard error
  double seconds = 0;  // wall-clock time from start to end

  bool ended_by_signal() const { return signal != 0; }
};

inline constexpr double kNoLimitSeconds = 1e9;

// Runs a program and waits for it. words[0] is its path, the other words its arguments. The environment is
// this process's plus `variables`, each as NAME=value, or NAME alone of one that it is not to have. Standard
// input is empty. The program is killed when the calling thread ends first. SystemError if it cannot be
// started. If a stop is requested meanwhile (base/stop_request.h) the program gets SIGTERM, and is killed if
// it does not end within kStopGraceSeconds; then Stopped is thrown. Behind `limit_seconds` it is ended in the
// same way, and the result says by which signal, or with which exit code the program answered it.
FinishedProcess run_process(const std::vector<std::string>& words,
                            const std::vector<std::string>& variables = {},
                            double limit_seconds = kNoLimitSeconds);

// Replaces this process by a program; words as above. SystemError if it cannot be started.
[[noreturn]] void become_process(const std::vector<std::string>& words);

// The path of the running program.
std::filesystem::path own_program();

}  // namespace shoehorn
