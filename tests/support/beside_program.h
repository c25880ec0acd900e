// Files beside the program that not every build has: the libraries that it opens for MPI and hwloc.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "io/file.h"

namespace shoehorn::test_support {

// Of tests that need has_mpi() and are skipped without it.
inline constexpr const char* kNoMpi =
    "no MPI: libopenmpi-dev and openmpi-bin, or libmpich-dev and mpich, and a build with them";
inline constexpr const char* kNoHwloc = "no hwloc: libhwloc-dev, and a build with it";

inline std::filesystem::path beside_program(const char* name) {
  return std::filesystem::path(SHOEHORN_PROGRAM).parent_path() / name;
}

inline bool has_mpi_library() {
  return std::filesystem::exists(beside_program("libshoehorn_mpi.so"));
}

// Whether the program's MPI is MPICH, a library that its own names; else it is Open MPI.
inline bool is_of_mpich() {
  return has_mpi_library() &&
         read_text_file(beside_program("libshoehorn_mpi.so")).find("libmpich.so") != std::string::npos;
}

// A command that says what starts ranks of the program's MPI, and fails where there is none.
inline std::string find_rank_starter() {
  return is_of_mpich() ? "command -v mpiexec.hydra" : "{ command -v mpirun.openmpi || command -v mpirun; }";
}

// What a shell's command begins with that starts ranks as root, more than there are processors.
inline std::string rank_starter() {
  return "$(" + find_rank_starter() + ")" + (is_of_mpich() ? "" : " --allow-run-as-root --oversubscribe");
}

// A shell's command that starts two ranks, each with a command of its own, which has no quotes. One program tells them apart: Open
// MPI 5.0.7's mpirun crashes where it is given two.
inline std::string start_two_ranks(const std::string& first, const std::string& second) {
  return rank_starter() + " -n 2 sh -c '[ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" != 0 ] || exec " + first +
         "; exec " + second + "'";
}

// Whether the program runs as several ranks here.
inline bool has_mpi() {
  return has_mpi_library() && std::system((find_rank_starter() + " > /dev/null 2>&1").c_str()) == 0;
}

inline bool has_hwloc() {
  return std::filesystem::exists(beside_program("libshoehorn_hwloc.so"));
}

}  // namespace shoehorn::test_support
