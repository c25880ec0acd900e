#include "ranks/communicator.h"

#include <sched.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/process.h"
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
// Of so many one is at the other ranks' signs.
constexpr int kLooksAtSigns = 10;
constexpr std::chrono::milliseconds kLookAtFailures{10};  // of a rank that has failed, or waits for its end

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

// Who is alive: those that answer while this rank waits.
class Communicator::RollCall {
 public:
  explicit RollCall(Communicator& ranks)
      : ranks_(ranks), grace_(std::min(kLongestRollCallSeconds, ranks.timeout_seconds_ / 10)) {}

  // To be called now and then; `waited`: seconds so far. True once the time is up.
  bool is_over(double waited) {
    if (!ranks_.has_signs()) return waited > ranks_.timeout_seconds_;
    take_signs();
    const bool ends_elsewhere = !over_.empty();
    if (!asked_ && (ends_elsewhere || waited > ranks_.timeout_seconds_ - grace_)) ask();
    return asked_ && seconds_since(*asked_) > grace_ && (ends_elsewhere || waited > ranks_.timeout_seconds_);
  }

  // Answers those that ask, and hears who answered.
  void take_signs() {
    while (const auto heard = ranks_.next_sign()) {
      const auto [from, sign] = *heard;
      if (sign == RankSign::kAsk) ranks_.send_sign(from, RankSign::kAlive);
      if (sign == RankSign::kFailed) ranks_.send_sign(from, RankSign::kHeard);
      if (sign == RankSign::kOver) over_.push_back(from);
      if (sign == RankSign::kFailed || sign == RankSign::kSays)
        failed_ = std::min(failed_.value_or(from), from);
      if (sign == RankSign::kFailed || sign == RankSign::kHeard) settled_.insert(from);
      is_said_ |= sign == RankSign::kSays;
      if (asked_) alive_.at(static_cast<size_t>(from)) = true;
    }
  }

  void tell_that_it_is_over() {
    for (int32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (rank != ranks_.rank() && is_alive(rank)) ranks_.send_sign(rank, RankSign::kOver);
    }
  }

  void tell_all(RankSign sign) {
    for (int32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (rank != ranks_.rank()) ranks_.send_sign(rank, sign);
    }
  }

  // The first rank that has failed by an error of its own.
  std::optional<int32_t> failed() const { return failed_; }
  // Whether another rank says why the run fails.
  bool another_says() const { return is_said_ || (failed_ && *failed_ < ranks_.rank()); }
  // Whether every other rank has failed or heard that this one has: none has a mistake of its own to come.
  bool all_are_settled() const { return std::ssize(settled_) == ranks_.size() - 1; }

  bool is_alive(int32_t rank) const { return alive_.empty() || alive_[static_cast<size_t>(rank)]; }

  // `from`, where all that can be asked are there.
  std::vector<int32_t> silent_or(int32_t from) const {
    std::vector<int32_t> silent;
    for (int32_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!is_alive(rank)) silent.push_back(rank);
    }
    if (silent.empty()) silent.push_back(from);
    return silent;
  }

  // The first of those that are there has the word.
  bool is_speaker() const {
    int32_t first = 0;
    while (!is_alive(first)) ++first;
    return first == ranks_.rank() || !ranks_.has_signs();
  }

 private:
  void ask() {
    alive_.assign(static_cast<size_t>(ranks_.size()), false);
    alive_[static_cast<size_t>(ranks_.rank())] = true;
    for (const int32_t rank : over_) alive_[static_cast<size_t>(rank)] = true;  // it does not answer any more
    tell_all(RankSign::kAsk);
    asked_ = Clock::now();
  }

  Communicator& ranks_;
  double grace_;
  std::optional<Clock::time_point> asked_;
  std::vector<int32_t> over_;  // ranks whose time is up
  std::vector<bool> alive_;    // by rank, since it asked
  std::optional<int32_t> failed_;
  std::set<int32_t> settled_;
  bool is_said_ = false;
};

void Communicator::fail_in_time(int32_t from, RollCall& call) {
  std::vector<std::string> silent;
  for (const int32_t rank : call.silent_or(from)) silent.push_back(name_of(rank));
  call.tell_that_it_is_over();
  const SystemError failure = system_error(
      "[ddp_timeout] expected {} to send within {:g} s, got nothing at {}; it was stopped, or its link is cut",
      fmt::join(silent, ", "), timeout_seconds_, name_of(rank()));
  if (!call.is_speaker()) wait_for_end(call);
  throw failure;
}

// Who waits for another that has failed is not what the run ends by.
void Communicator::fail_with(int32_t failed, RollCall& call) {
  wait_for_end(call);
  throw system_error("[ranks] expected {} to go on, got its failure at {}", name_of(failed), name_of(rank()));
}

// Another rank says why the run fails. This one answers the others until the launcher ends it.
void Communicator::wait_for_end(RollCall& call) {
  leaves_word_to_another_ = true;
  const auto start = Clock::now();
  while (stop_signal() == 0 && !has_given_up_ && seconds_since(start) < kFailurePatienceSeconds) {
    call.take_signs();
    std::this_thread::sleep_for(kLookAtFailures);
  }
}

bool Communicator::may_say_its_failure(double seconds) {
  if (leaves_word_to_another_) return false;
  RollCall call(*this);
  if (has_signs()) call.tell_all(RankSign::kFailed);
  for (const auto start = Clock::now();; std::this_thread::sleep_for(kLookAtFailures)) {
    if (has_signs()) call.take_signs();
    if (call.another_says()) {
      wait_for_end(call);
      return false;
    }
    if (is_main() || call.all_are_settled() || seconds_since(start) > seconds) break;
    if (stop_signal() != 0) return false;
  }
  if (has_signs()) call.tell_all(RankSign::kSays);
  return true;
}

void Communicator::wait(int32_t from) {
  const auto start = Clock::now();
  std::optional<Clock::time_point> stop_seen;
  RollCall call(*this);
  auto sleep = kShortestSleep;
  for (int looks = 0; !is_done(); ++looks) {
    if (looks < kLooksWithoutSleep) {
      sched_yield();
      continue;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min(sleep * 2, kLongestSleep);
    if (looks % kLooksAtSigns == 0 && call.is_over(seconds_since(start))) fail_in_time(from, call);
    if (const std::optional<int32_t> failed = call.failed()) fail_with(*failed, call);
    if (stop_signal() != 0 && !stop_seen) stop_seen = Clock::now();
    if (looks % kLooksAtProcesses == 0) check_goes_on(from, stop_seen ? seconds_since(*stop_seen) : 0);
  }
}

// Throws if this rank or the one that it waits for has failed.
void Communicator::check_goes_on(int32_t from, double stopping_seconds) const {
  if (has_given_up_) throw system_error("[ranks] expected {} to go on, got its failure", name_of(rank()));
  const auto at = static_cast<size_t>(from);
  const pid_t process = at < processes_.size() ? processes_[at] : 0;
  if (process > 0 && !is_process_running(process))
    throw system_error("[ranks] expected {} to send, got its end at {}", name_of(from), name_of(rank()));
  if (process == 0 && stopping_seconds > kStopPatienceSeconds) {
    throw system_error("[ranks] expected {} to send before the run is stopped by {}, got nothing at {}",
                       name_of(from), stop_signal_name(stop_signal()), name_of(rank()));
  }
}

}  // namespace shoehorn
