#include "ranks/open_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/error.h"
#include "ranks/agreement.h"
#include "ranks/mpi_library.h"
#include "ranks/opened_library.h"

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
  OpenedLibrary opened = open_library(kMpiLibraryName, kMpiLibraryFunction);
  const auto function = reinterpret_cast<const ShoehornMpiLibrary* (*)(int)>(opened.function);
  const ShoehornMpiLibrary* library = function == nullptr ? nullptr : function(kMpiInterfaceVersion);
  if (library != nullptr) return *library;
  if (function != nullptr) opened.reason = fmt::format("{} of another version", opened.path.string());
  throw user_error(
      "[ranks] expected {} for the {} ranks that {} started, got {}; install libopenmpi-dev and openmpi-bin and build "
      "again, or start one process",
      kMpiLibraryName, launched.size, launched.launcher, opened.reason);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "this host";
  return name.data();
}

std::shared_ptr<Communicator> open_ranks(const LaunchedRank& launched, double timeout_seconds) {
  const ShoehornMpiLibrary& library = mpi_library(launched);
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
