// Runs a program to its end and takes what it says (Linux).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

struct FinishedProcess {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  std::string output;  // all of its standard output
  std::string error;   // all of its standard error
  double seconds = 0;  // from its start to its end

  bool ended_by_signal() const { return signal != 0; }
};

// words[0] is the program's path, the others its arguments; the environment is this process's, and what
// `variables` add to it as NAME=value; standard input is empty. The program is killed when the calling thread ends before it. SystemError where it cannot be
// started.
FinishedProcess run_process(const std::vector<std::string>& words,
                            const std::vector<std::string>& variables = {});

// The path of the running program.
std::filesystem::path own_program();

}  // namespace shoehorn
