#include "base/thread_waits.h"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>

namespace shoehorn {

namespace {

constexpr const char* kSpinVariable = "GOMP_SPINCOUNT";
constexpr const char* kPolicyVariable = "OMP_WAIT_POLICY";
// Marks the process that runs anew, and keeps it from doing so again. Its value is the process's name, as ps shows it,
// which would be "exe" otherwise.
constexpr const char* kMarkVariable = "SHOEHORN_RUNS_ANEW";

// The count that bound_thread_waits() put in force; empty if it did not.
std::string& bounded_spins() {
  static std::string spins;
  return spins;
}

// False where /proc/self/exe is not this program: started as an argument of the dynamic loader, which then has no base
// of its own, or with the privileges of another user.
bool can_run_anew() {
  return getauxval(AT_BASE) != 0 && getauxval(AT_SECURE) == 0;
}

}  // namespace

int64_t spins_of_bounded_wait() {
  constexpr int kSpins = 200;
  constexpr int kRounds = 10;
  const std::atomic<int> never = 0;
  double best_seconds = 1;  // of the fastest round: others may have been interrupted
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kSpins && never.load(std::memory_order_relaxed) == 0; ++i) __builtin_ia32_pause();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best_seconds = std::min(best_seconds, std::max(seconds, 1e-9));
  }
  return std::max<int64_t>(1, static_cast<int64_t>(kSpinSeconds / best_seconds * kSpins));
}

void bound_thread_waits(char** argv) {
  if (const char* name = std::getenv(kMarkVariable); name != nullptr) {
    prctl(PR_SET_NAME, name);
    if (const char* spins = std::getenv(kSpinVariable); spins != nullptr) bounded_spins() = spins;
    unsetenv(kMarkVariable);
    unsetenv(kSpinVariable);
    return;
  }
  if (std::getenv(kSpinVariable) != nullptr || std::getenv(kPolicyVariable) != nullptr || !can_run_anew())
    return;
  setenv(kSpinVariable, std::to_string(spins_of_bounded_wait()).c_str(), 1);
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  setenv(kMarkVariable, name, 1);
  execv("/proc/self/exe", argv);
  // It did not work, which harms nothing but the speed on a busy machine.
  unsetenv(kMarkVariable);
  unsetenv(kSpinVariable);
}

ThreadWaits thread_waits() {
  if (!bounded_spins().empty())
    return {ThreadWaits::Source::kProgram, fmt::format("{}={}", kSpinVariable, bounded_spins())};
  for (const char* name : {kSpinVariable, kPolicyVariable}) {
    if (const char* value = std::getenv(name); value != nullptr)
      return {ThreadWaits::Source::kUser, fmt::format("{}={}", name, value)};
  }
  return {};
}

std::string describe(const ThreadWaits& waits) {
  switch (waits.source) {
    case ThreadWaits::Source::kProgram:
      return fmt::format("spin for {:.0f} µs, then sleep ({})", kSpinSeconds * 1e6, waits.setting);
    case ThreadWaits::Source::kUser:
      return fmt::format("{}, as the environment says", waits.setting);
    case ThreadWaits::Source::kLibrary:
      break;
  }
  return "spin for milliseconds, libgomp's default";
}

}  // namespace shoehorn
