// Counts the bytes of the messages that a program sends and receives by MPI. It is loaded before the program (LD_PRELOAD) and
// stands in place of MPI's functions, which it calls by the names of MPI's profiling interface (PMPI). When a rank ends MPI it
// writes "SENT RECEIVED" to the file $SHOEHORN_MPI_COUNTS.RANK.
#include <mpi.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

int64_t sent_bytes = 0;
int64_t received_bytes = 0;

int64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return int64_t{count} * size;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int MPI_Isend(const void* bytes, int count, MPI_Datatype type, int to,
                                                     int tag, MPI_Comm ranks, MPI_Request* request) {
  sent_bytes += bytes_of(count, type);
  return PMPI_Isend(bytes, count, type, to, tag, ranks, request);
}

__attribute__((visibility("default"))) int MPI_Irecv(void* bytes, int count, MPI_Datatype type, int from,
                                                     int tag, MPI_Comm ranks, MPI_Request* request) {
  received_bytes += bytes_of(count, type);
  return PMPI_Irecv(bytes, count, type, from, tag, ranks, request);
}

__attribute__((visibility("default"))) int MPI_Finalize() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (const char* file = std::getenv("SHOEHORN_MPI_COUNTS"); file != nullptr)
    std::ofstream(std::string(file) + "." + std::to_string(rank))
        << sent_bytes << " " << received_bytes << "\n";
  return PMPI_Finalize();
}
}
