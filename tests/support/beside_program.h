// Files beside the program that not every build has: the libraries that it opens for MPI and hwloc.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace shoehorn::testing {

// Of tests that need has_mpi() and are skipped without it.
inline constexpr const char* kNoMpi = "no MPI: libopenmpi-dev and openmpi-bin, and a build with them";
inline constexpr const char* kNoHwloc = "no hwloc: libhwloc-dev, and a build with it";

inline std::filesystem::path beside_program(const char* name) {
  return std::filesystem::path(SHOEHORN_PROGRAM).parent_path() / name;
}

// Whether the program runs as several ranks here.
inline bool has_mpi() {
  return std::filesystem::exists(beside_program("libshoehorn_mpi.so")) &&
         std::system("command -v mpirun > /dev/null 2>&1") == 0;
}

inline bool has_hwloc() {
  return std::filesystem::exists(beside_program("libshoehorn_hwloc.so"));
}

}  // namespace shoehorn::testing
