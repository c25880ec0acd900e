// libshoehorn_mpi.so: messages by MPI. See ranks/mpi_library.h.
#include <mpi.h>

#include <array>
#include <string>

#include "ranks/mpi_library.h"

namespace {

constexpr int kTag = 1;
constexpr int kSignTag = 2;

std::array<MPI_Request, 2> requests = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
std::string failure;

const char* result_of(int status, const char* call) {
  if (status == MPI_SUCCESS) return nullptr;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  failure = std::string(call) + ": " + std::string(text.data(), static_cast<size_t>(length));
  return failure.c_str();
}

const char* join() {
  int is_started = 0;
  MPI_Initialized(&is_started);
  if (is_started != 0) return nullptr;
  int provided = 0;
  if (const char* failed =
          result_of(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init"))
    return failed;
  if (provided < MPI_THREAD_SERIALIZED) return "MPI_Init: no messages from a thread beside the computing";
  return result_of(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

const char* start(int* rank, int* size, int* local_size) {
  if (const char* failed = join()) return failed;
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
  MPI_Comm host = MPI_COMM_NULL;
  if (const char* failed =
          result_of(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
                    "MPI_Comm_split"))
    return failed;
  MPI_Comm_size(host, local_size);
  return result_of(MPI_Comm_free(&host), "MPI_Comm_free");
}

const char* version() {
  static const std::string text = [] {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> said{};
    int length = 0;
    MPI_Get_library_version(said.data(), &length);
    return std::string(said.data(), static_cast<size_t>(length));
  }();
  return text.c_str();
}

const char* begin(int to, const void* bytes, size_t count, int from, void* received, size_t received_count) {
  if (received_count > 0) {
    const int status = MPI_Irecv(received, static_cast<int>(received_count), MPI_BYTE, from, kTag,
                                 MPI_COMM_WORLD, &requests[0]);
    if (const char* failed = result_of(status, "MPI_Irecv")) return failed;
  }
  if (count == 0) return nullptr;
  return result_of(
      MPI_Isend(bytes, static_cast<int>(count), MPI_BYTE, to, kTag, MPI_COMM_WORLD, &requests[1]),
      "MPI_Isend");
}

const char* is_done(int* done) {
  return result_of(MPI_Testall(static_cast<int>(requests.size()), requests.data(), done, MPI_STATUSES_IGNORE),
                   "MPI_Testall");
}

void send_sign(int to, unsigned char sign) {
  // It is sent after this call has returned, from a place that stays.
  static std::array<unsigned char, 256> signs;
  signs[sign] = sign;
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Isend(&signs[sign], 1, MPI_BYTE, to, kSignTag, MPI_COMM_WORLD, &request) == MPI_SUCCESS)
    MPI_Request_free(&request);
}

unsigned char next_sign(int* from) {
  *from = -1;
  int is_there = 0;
  MPI_Status status;
  unsigned char sign = 0;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kSignTag, MPI_COMM_WORLD, &is_there, &status) != MPI_SUCCESS ||
      is_there == 0)
    return 0;
  if (MPI_Recv(&sign, 1, MPI_BYTE, status.MPI_SOURCE, kSignTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) ==
      MPI_SUCCESS)
    *from = status.MPI_SOURCE;
  return sign;
}

const char* finish() {
  return result_of(MPI_Finalize(), "MPI_Finalize");
}

void end_all(int exit_code) {
  int is_finished = 0;
  MPI_Finalized(&is_finished);
  if (is_finished == 0) MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const ShoehornMpiLibrary* shoehorn_mpi_library(
    int interface_version) {
  static const ShoehornMpiLibrary library = {start,     version, begin, is_done, send_sign,
                                             next_sign, finish,  join,  end_all};
  return interface_version == shoehorn::kMpiInterfaceVersion ? &library : nullptr;
}
