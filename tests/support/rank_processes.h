// The ranks that a started `shoehorn launch` has, as processes, and how long mpirun leaves them.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace shoehorn::test_support {

inline pid_t parent_of(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string id, command, state;
  pid_t parent = 0;
  return stat >> id >> command >> state >> parent ? parent : 0;
}

inline bool is_below(pid_t process, pid_t ancestor) {
  do {
    process = parent_of(process);
  } while (process > 1 && process != ancestor);
  return process == ancestor;
}

// Processes of the program that `launcher` started by mpirun, Open MPI's or MPICH's, by their rank.
inline std::map<int, pid_t> ranks_of(pid_t launcher) {
  std::map<int, pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
      continue;
    if (!is_below(std::stoi(name), launcher)) continue;
    std::ifstream environment(entry.path() / "environ");
    for (std::string variable; std::getline(environment, variable, '\0');) {
      for (const std::string& begin : {std::string("OMPI_COMM_WORLD_RANK="), std::string("PMI_RANK=")}) {
        if (variable.starts_with(begin)) ranks[std::stoi(variable.substr(begin.size()))] = std::stoi(name);
      }
    }
  }
  return ranks;
}

// While it lives, Open MPI's mpirun kills what is left of a run whose rank has failed after a second, in place of launch's four.
// Open MPI 4 waits for it twice, also where all ranks have ended; 5 has a variable of its own.
class ShortWaitOfMpirun {
 public:
  ShortWaitOfMpirun() {
    for (const char* variable : kVariables) setenv(variable, "1", 1);
  }
  ~ShortWaitOfMpirun() {
    for (const char* variable : kVariables) unsetenv(variable);
  }
  ShortWaitOfMpirun(const ShortWaitOfMpirun&) = delete;
  ShortWaitOfMpirun& operator=(const ShortWaitOfMpirun&) = delete;

 private:
  static constexpr std::array kVariables = {"OMPI_MCA_odls_base_sigkill_timeout",
                                            "PRTE_MCA_odls_base_sigkill_timeout"};
};

}  // namespace shoehorn::test_support
