#include "base/stop_request.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <utility>

namespace shoehorn {

namespace {

std::atomic<int> requested_signal{0};
std::atomic<int64_t> request_nanoseconds{0};
std::atomic<bool> handlers_stay{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t monotonic_nanoseconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Only what is async-signal-safe.
void handle_stop_signal(int signal) {
  const int error_number = errno;
  if (stop_signal() == 0) {
    request_stop(signal);
  } else if (signal != SIGPIPE &&  // each further line of a pipe without a reader is the same event
             static_cast<double>(monotonic_nanoseconds() - request_nanoseconds.load()) * 1e-9 >=
                 kSecondSignalSeconds) {
    constexpr std::string_view kEnd = "\nended at once by a second signal\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kEnd.data(), kEnd.size());
    _exit(exit_code_of_stop(signal));
  }
  errno = error_number;
}

}  // namespace

void request_stop(int signal) noexcept {
  if (stop_signal() != 0) return;
  request_nanoseconds = monotonic_nanoseconds();
  int none = 0;
  requested_signal.compare_exchange_strong(none, signal);
}

int stop_signal() noexcept {
  return requested_signal.load(std::memory_order_relaxed);
}

void clear_stop_request() noexcept {
  requested_signal = 0;
}

std::string stop_signal_name(int signal) {
  switch (signal) {
    case SIGINT:
      return "Ctrl-C (SIGINT)";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    case SIGPIPE:
      return "SIGPIPE";
    case SIGUSR1:
      return "the launcher (SIGUSR1)";
    default:
      return fmt::format("signal {}", signal);
  }
}

Stopped::Stopped(int signal, std::string kept) : signal_(signal), kept_(std::move(kept)) {
  text_ = fmt::format("stopped by {}{}{}", stop_signal_name(signal), kept_.empty() ? "" : ": ", kept_);
}

StopSignals::StopSignals(std::initializer_list<int> signals) {
  for (const int signal : signals) {
    struct sigaction before{};
    if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = handle_stop_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (sigaction(signal, &action, nullptr) == 0) installed_.push_back({signal, before});
  }
}

StopSignals::~StopSignals() {
  if (handlers_stay) return;
  for (const Installed& installed : installed_) sigaction(installed.signal, &installed.before, nullptr);
}

void keep_stop_signals() noexcept {
  handlers_stay = true;
}

}  // namespace shoehorn
