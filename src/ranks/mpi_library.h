// The interface between the program and libshoehorn_mpi.so, the one part that is linked with MPI. The program opens it
// when there are ranks, so that a run of one rank needs no MPI. Plain C: each function returns null, or what failed, a
// text that stays until the next call.
#pragma once

#include <cstddef>

extern "C" {

struct ShoehornMpiLibrary {
  const char* (*start)(int* rank, int* size, int* local_size);
  const char* (*version)();  // "Open MPI v4.1.4, …"
  // One pair of messages at a time; see Communicator::begin and is_done.
  const char* (*begin)(int to, const void* bytes, size_t count, int from, void* received,
                       size_t received_count);
  const char* (*is_done)(int* done);
  // A byte to another rank beside those messages, and one that has arrived: `from` is -1 where there is none. Errors are
  // not told: who does not hear takes the other for gone.
  void (*send_sign)(int to, unsigned char sign);
  unsigned char (*next_sign)(int* from);
  const char* (*finish)();
  // Starts MPI where it is not started yet.
  const char* (*join)();
  // Ends all ranks with this exit code; returns only behind finish().
  void (*end_all)(int exit_code);
};

// Null if the library is built for another interface.
const ShoehornMpiLibrary* shoehorn_mpi_library(int interface_version);
}

namespace shoehorn {

inline constexpr int kMpiInterfaceVersion = 3;
inline constexpr const char* kMpiLibraryName = "libshoehorn_mpi.so";
inline constexpr const char* kMpiLibraryFunction = "shoehorn_mpi_library";

}  // namespace shoehorn
