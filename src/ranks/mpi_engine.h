// Which MPI the ranks' messages go by, and the program that starts its ranks. Several can be installed beside each other, as
// Debian's Open MPI and MPICH, and `mpirun` is of one of them: ranks that another's mpirun starts are one process each to MPI. So
// libshoehorn_mpi.so says which MPI it is, and its own mpirun is looked for. Flags and variables are those of Open MPI
// 4 and 5 (mpirun(1), prterun(1)) and of MPICH's Hydra (mpiexec(1)).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ranks/mpi_library.h"

namespace shoehorn {

enum class MpiEngine { kOpenMpi, kMpich, kOther };

struct Mpi {
  MpiEngine engine = MpiEngine::kOther;
  std::string name = {};  // "Open MPI v4.1.4", "MPICH 4.2.1"
};

// By the version that a library says, or a program to --version.
Mpi mpi_of(std::string_view version);

// libshoehorn_mpi.so, opened; `reason`: why there is none.
struct OpenedMpi {
  const ShoehornMpiLibrary* library = nullptr;
  std::string reason = {};
};
OpenedMpi open_mpi();

// A program that starts ranks.
struct RankStarter {
  std::string program = {};                 // its path; "": there is none
  std::vector<std::string> of_others = {};  // those that were found and start another MPI's
};

// The names of such programs, the plain `mpirun` last.
std::vector<std::string> names_of_rank_starters(MpiEngine engine);

// The first of them in `folders` (as PATH has them). `version_of` a program is asked of a plain mpirun only.
RankStarter find_rank_starter(MpiEngine engine, const std::string& folders,
                              const std::function<std::string(const std::string& program)>& version_of);

// `program` and the flags that it needs for more ranks than processors, unbound; their number and command follow. `hostfile`:
// its path, or "" for this host. UserError for a hostfile that is none.
std::vector<std::string> rank_starter_words(MpiEngine engine, const std::string& program,
                                            const std::string& hostfile);

// `program` and the flags that start one rank on the host of that name; its command follows.
std::vector<std::string> words_of_one_rank_on(MpiEngine engine, const std::string& program,
                                              const std::string& host);

// What it needs in its environment besides, as root and to end in time. A variable that is set already is to stay.
std::vector<std::pair<const char*, const char*>> rank_starter_variables(MpiEngine engine);

// What makes it notice that a host is lost, which answers nothing for 10 + 4 x 5 seconds; Open MPI would else wait for eight minutes.
// For runs that can go on without it. As above.
std::vector<std::pair<const char*, const char*>> lost_host_variables(MpiEngine engine);

}  // namespace shoehorn
