#include "ranks/open_ranks.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "ranks/agreement.h"
#include "ranks/mpi_engine.h"
#include "ranks/mpi_library.h"

namespace shoehorn {

namespace {

// As large as what a first exchange makes MPI reserve: more than any message that is sent at once without a handshake.
constexpr size_t kFirstMessageBytes = size_t{4} << 20;
// What a rank has written goes through mpiexec, which passes nothing on once it is told of the failure.
constexpr std::chrono::milliseconds kOutputTime{200};

void throw_if_failed(const char* failure) {
  if (failure != nullptr)
    throw system_error("[MPI] expected to send and receive, got {}; another rank may have ended", failure);
}

class MpiRanks final : public Communicator {
 public:
  MpiRanks(const ShoehornMpiLibrary& library, RankPlace place) : Communicator(place), library_(library) {}

  void finish() override {
    wait_for_all(*this);
    is_finished_ = true;
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

  bool has_signs() const override { return !is_finished_; }

  void send_sign(int32_t to, RankSign sign) override {
    library_.send_sign(to, static_cast<unsigned char>(sign));
  }

  std::optional<std::pair<int32_t, RankSign>> next_sign() override {
    int from = -1;
    const auto sign = static_cast<RankSign>(library_.next_sign(&from));
    if (from < 0) return std::nullopt;
    return std::pair(from, sign);
  }

  const ShoehornMpiLibrary& library_;
  bool is_finished_ = false;
};

const ShoehornMpiLibrary& mpi_library(const LaunchedRank& launched) {
  const OpenedMpi opened = open_mpi();
  if (opened.library != nullptr) return *opened.library;
  throw user_error(
      "[ranks] expected {} for the {} ranks that {} started, got {}; install libopenmpi-dev and openmpi-bin (or libmpich-dev and "
      "mpich) and build again, or start one process",
      kMpiLibraryName, launched.size, launched.launcher, opened.reason);
}

[[noreturn]] void throw_not_its_ranks(const LaunchedRank& launched, const RankPlace& place, const Mpi& mpi) {
  throw user_error(
      "[ranks] expected rank {} of {}, as {} says, got rank {} of {} from {}, which this program is built with; start with "
      "`shoehorn launch`, or with {} of that MPI",
      launched.rank, launched.size, launched.launcher, place.rank, place.size, mpi.name,
      fmt::join(names_of_rank_starters(mpi.engine), " or "));
}

// The library, where this process is a rank of MPICH; else null.
const ShoehornMpiLibrary* mpich_library() {
  const OpenedMpi opened = open_mpi();
  const bool is_mpich =
      opened.library != nullptr && mpi_of(opened.library->version()).engine == MpiEngine::kMpich;
  return is_mpich ? opened.library : nullptr;
}

}  // namespace

void join_ranks() {
  // Who cannot join ends without.
  if (const ShoehornMpiLibrary* library = mpich_library()) library->join();
}

void end_ranks(int exit_code) {
  const ShoehornMpiLibrary* library = mpich_library();
  if (library == nullptr || library->join() != nullptr) return;
  std::fflush(nullptr);
  std::this_thread::sleep_for(kOutputTime);
  library->end_all(exit_code);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "this host";
  return name.data();
}

std::shared_ptr<Communicator> open_ranks(const LaunchedRank& launched, double timeout_seconds) {
  const ShoehornMpiLibrary& library = mpi_library(launched);
  RankPlace place;
  throw_if_failed(library.start(&place.rank, &place.size, &place.local_size));
  if (place.size != launched.size || place.rank != launched.rank)
    throw_not_its_ranks(launched, place, mpi_of(library.version()));
  auto ranks = std::make_shared<MpiRanks>(library, place);
  ranks->set_timeout_seconds(timeout_seconds);
  const std::vector<std::string> hosts = gather_texts(*ranks, host_name());
  std::vector<pid_t> processes = gather_values(*ranks, getpid());
  for (size_t i = 0; i < processes.size(); ++i) {
    // One that has ended is of this host all the same, where ends are noticed; one of another namespace has no such number here.
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
