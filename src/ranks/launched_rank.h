// What the environment says of the rank that this process is, before MPI is opened: Open MPI's mpirun, MPICH's, Slurm's
// srun. One process that nobody launched is one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ranks/communicator.h"

namespace shoehorn {

struct LaunchedRank {
  int32_t rank = 0;
  int32_t size = 1;
  int32_t local_size = 1;  // of them on this host; 1 if the launcher does not say
  std::string launcher;    // "mpirun (Open MPI)", …
};

using Environment = std::function<const char*(const char* name)>;  // as getenv

// None where there is one rank. UserError for processes that torchrun started, which has no MPI, and for variables that are no
// rank and size: not whole numbers, or a rank that is not below the size.
std::optional<LaunchedRank> launched_rank(const Environment& environment);
std::optional<LaunchedRank> launched_rank();

// The words in front of the program's by which as many ranks start again where `launch` is not what starts them: "srun", … in a
// step of Slurm; none elsewhere.
std::vector<std::string> words_to_start_again(const Environment& environment);
std::vector<std::string> words_to_start_again();

// Whether a launcher of MPI started this process, be it as the only rank.
bool is_launched(const Environment& environment);
bool is_launched();

// Variables for run_process() that make a program one process which a rank starts: it is none of the launcher's ranks, and may start
// ranks itself. `names`: those that this process has.
std::vector<std::string> variables_of_one_process(const std::vector<std::string>& names);
std::vector<std::string> variables_of_one_process();

// The tasks of a job of Slurm, as a script of it has them; none elsewhere. UserError for what is no number of them.
std::optional<int32_t> slurm_tasks(const Environment& environment);
std::optional<int32_t> slurm_tasks();

// Set in the environment of ranks that are launched for a slower link: "LATENCY_SECONDS BYTES_PER_SECOND". UserError for a text that
// is none.
inline constexpr const char* kLinkVariable = "SHOEHORN_LINK";
std::optional<LinkPace> launched_pace(const Environment& environment);
std::optional<LinkPace> launched_pace();
std::string to_text(const LinkPace& pace);

}  // namespace shoehorn
