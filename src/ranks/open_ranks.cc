#include "ranks/open_ranks.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <system_error>

#include "base/child_process.h"
#include "base/error.h"
#include "ranks/agreement.h"
#include "ranks/mpi_library.h"

namespace shoehorn {

namespace {

// As large as what a first exchange makes MPI reserve: more than any message that is sent at once without a handshake.
constexpr size_t kFirstMessageBytes = size_t{4} << 20;

void throw_if_failed(const char* failure) {
  if (failure != nullptr)
    throw system_error("[MPI] expected to send and receive, got {}; another rank may have ended", failure);
}

class MpiRanks final : public Communicator {
 public:
  MpiRanks(const ShoehornMpiLibrary& library, RankPlace place) : Communicator(place), library_(library) {}

  void finish() override {
    wait_for_all(*this);
    throw_if_failed(library_.finish());
  }

 private:
  void begin(int32_t to, std::span<const std::byte> bytes, int32_t from,
             std::span<std::byte> received) override {
    throw_if_failed(library_.begin(to, bytes.data(), bytes.size(), from, received.data(), received.size()));
  }

  bool is_done() override {
    int done = 0;
    throw_if_failed(library_.is_done(&done));
    return done != 0;
  }

  const ShoehornMpiLibrary& library_;
};

const ShoehornMpiLibrary& open_library(const LaunchedRank& launched) {
  std::string reason = fmt::format("no {}", kMpiLibraryName);
  for (const std::filesystem::path& place : mpi_library_places()) {
    std::error_code absent;
    if (!std::filesystem::exists(place, absent)) continue;
    // MPI loads parts of its own, which look for its symbols among the global ones.
    void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle == nullptr) {
      reason = dlerror();
      continue;
    }
    auto* function = reinterpret_cast<const ShoehornMpiLibrary* (*)(int)>(dlsym(handle, kMpiLibraryFunction));
    const ShoehornMpiLibrary* library = function == nullptr ? nullptr : function(kMpiInterfaceVersion);
    if (library != nullptr) return *library;
    reason = fmt::format("{} of another version", place.string());
  }
  throw user_error(
      "[ranks] expected {} for the {} ranks that {} started, got {}; install libopenmpi-dev and openmpi-bin and build "
      "again, or start one process",
      kMpiLibraryName, launched.size, launched.launcher, reason);
}

}  // namespace

std::vector<std::filesystem::path> mpi_library_places() {
  const std::filesystem::path folder = own_program().parent_path();
  return {folder / kMpiLibraryName, folder.parent_path() / "lib" / kMpiLibraryName,
          folder.parent_path() / SHOEHORN_LIBRARY_DIRECTORY / kMpiLibraryName};
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "this host";
  return name.data();
}

std::shared_ptr<Communicator> open_ranks(const LaunchedRank& launched, double timeout_seconds) {
  const ShoehornMpiLibrary& library = open_library(launched);
  RankPlace place;
  throw_if_failed(library.start(&place.rank, &place.size, &place.local_size));
  if (place.size != launched.size || place.rank != launched.rank) {
    throw user_error(
        "[ranks] expected rank {} of {}, as {} says, got rank {} of {} from {}; start with the mpirun of that MPI",
        launched.rank, launched.size, launched.launcher, place.rank, place.size, library.version());
  }
  auto ranks = std::make_shared<MpiRanks>(library, place);
  ranks->set_timeout_seconds(timeout_seconds);
  const std::vector<std::string> hosts = gather_texts(*ranks, host_name());
  std::vector<pid_t> processes = gather_values(*ranks, getpid());
  for (size_t i = 0; i < processes.size(); ++i) {
    if (hosts[i] != host_name() || kill(processes[i], 0) != 0) processes[i] = 0;
  }
  ranks->set_hosts(hosts);
  ranks->set_local_processes(std::move(processes));
  std::vector<std::byte> sent(kFirstMessageBytes), received(kFirstMessageBytes);
  ranks->exchange(ranks->next(), sent, ranks->before(), received);
  ranks->exchange(ranks->before(), sent, ranks->next(), received);
  return ranks;
}

}  // namespace shoehorn
