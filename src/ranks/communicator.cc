#include "ranks/communicator.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/stop_request.h"

namespace shoehorn {

namespace {

using Clock = std::chrono::steady_clock;

// Small messages come within a few looks; what takes longer is looked for less and less often.
constexpr int kLooksWithoutSleep = 20;
constexpr std::chrono::microseconds kShortestSleep{20};
constexpr std::chrono::microseconds kLongestSleep{500};
// Of so many looks one is at whether the other rank is there at all: some ten a second.
constexpr int kLooksAtProcesses = 150;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

double LinkPace::seconds_of(int64_t bytes) const {
  return latency_seconds + static_cast<double>(bytes) / bytes_per_second;
}

std::string Communicator::name_of(int32_t rank) const {
  const auto at = static_cast<size_t>(rank);
  return at < hosts_.size() ? fmt::format("rank {} on {}", rank, hosts_[at]) : fmt::format("rank {}", rank);
}

void Communicator::exchange(int32_t to, std::span<const std::byte> bytes, int32_t from,
                            std::span<std::byte> received) {
  begin(to, bytes, from, received);
  sent_bytes_ += std::ssize(bytes);
  const auto start = Clock::now();
  wait(from);
  if (pace_ && !bytes.empty()) {
    const std::chrono::duration<double> on_its_way(pace_->seconds_of(std::ssize(bytes)));
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(on_its_way));
  }
  waited_seconds_ += seconds_since(start);
}

void Communicator::wait(int32_t from) {
  const auto start = Clock::now();
  std::optional<Clock::time_point> stop_seen;
  auto sleep = kShortestSleep;
  for (int looks = 0; !is_done(); ++looks) {
    if (looks < kLooksWithoutSleep) {
      sched_yield();
      continue;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min(sleep * 2, kLongestSleep);
    if (seconds_since(start) > timeout_seconds_) {
      throw system_error(
          "[ddp_timeout] expected {} to send within {:g} s, got nothing at {}; it was stopped, or its link is cut",
          name_of(from), timeout_seconds_, name_of(rank()));
    }
    if (stop_signal() != 0 && !stop_seen) stop_seen = Clock::now();
    if (looks % kLooksAtProcesses == 0) check_goes_on(from, stop_seen ? seconds_since(*stop_seen) : 0);
  }
}

// Throws if this rank or the one that it waits for has failed.
void Communicator::check_goes_on(int32_t from, double stopping_seconds) const {
  if (has_given_up_) throw system_error("[ranks] expected {} to go on, got its failure", name_of(rank()));
  const auto at = static_cast<size_t>(from);
  const pid_t process = at < processes_.size() ? processes_[at] : 0;
  if (process > 0 && kill(process, 0) != 0)
    throw system_error("[ranks] expected {} to send, got its end at {}", name_of(from), name_of(rank()));
  if (process == 0 && stopping_seconds > kStopPatienceSeconds) {
    throw system_error("[ranks] expected {} to send before the run is stopped by {}, got nothing at {}",
                       name_of(from), stop_signal_name(stop_signal()), name_of(rank()));
  }
}

}  // namespace shoehorn
