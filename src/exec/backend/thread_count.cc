#include "exec/backend/thread_count.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>

namespace shoehorn {

namespace {

// The last decision. A decision that the program has overruled since is none.
std::optional<ThreadCount>& decided() {
  static std::optional<ThreadCount> count;
  return count;
}

// What nobody asked for otherwise.
ThreadCount count_of_processors(Processors processors, int64_t local_ranks) {
  ThreadCount count;
  count.threads = static_cast<int>(processors.usable() / local_ranks);
  count.local_ranks = local_ranks;
  count.source = local_ranks > 1                            ? ThreadSource::kRanks
                 : processors.usable() < processors.allowed ? ThreadSource::kQuota
                 : processors.allowed < processors.machine  ? ThreadSource::kAffinity
                                                            : ThreadSource::kMachine;
  count.processors = std::move(processors);
  return count;
}

ThreadCount decide(std::optional<int64_t> num_threads, int64_t local_ranks) {
  Processors found = processors();
  const int set = omp_get_max_threads();
  if (num_threads)
    return {static_cast<int>(*num_threads), ThreadSource::kArgument, std::move(found), local_ranks};
  // libgomp ignores a variable that is no number, and then has a thread a processor.
  const char* variable = std::getenv("OMP_NUM_THREADS");
  if (!decided() && variable != nullptr && std::atoi(variable) == set)
    return {set, ThreadSource::kEnvironment, std::move(found), local_ranks};
  if (set != (decided() ? decided()->threads : omp_get_num_procs()))
    return {set, ThreadSource::kProgram, std::move(found), local_ranks};
  if (decided()) return *decided();
  return count_of_processors(std::move(found), local_ranks);
}

std::string reason_of(const ThreadCount& count) {
  switch (count.source) {
    case ThreadSource::kArgument:
      return " (--num_threads)";
    case ThreadSource::kEnvironment:
      return " (OMP_NUM_THREADS)";
    case ThreadSource::kProgram:
      return " (omp_set_num_threads)";
    case ThreadSource::kQuota:
      return fmt::format(" (cgroup quota {:.1f})", count.processors.quota->processors);
    case ThreadSource::kAffinity:
      return " (CPU affinity)";
    case ThreadSource::kRanks:
      return fmt::format(" ({} ranks share them)", count.local_ranks);
    case ThreadSource::kMachine:
      break;
  }
  return "";
}

}  // namespace

ThreadCount use_threads(std::optional<int64_t> num_threads, int64_t local_ranks) {
  ThreadCount count = decide(num_threads, local_ranks);
  count.threads = std::clamp(count.threads, 1, omp_get_thread_limit());
  omp_set_num_threads(count.threads);
  decided() = count;
  return count;
}

void use_threads_here(int threads) {
  omp_set_num_threads(threads);
}

ThreadCount thread_count() {
  return decided() && omp_get_max_threads() == decided()->threads ? *decided() : use_threads();
}

std::string describe(const ThreadCount& count) {
  const auto counted = [](int64_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  const bool is_crowded = count.threads > count.processors.usable();
  return fmt::format("{} of {}{}{}", counted(count.threads, "thread"),
                     counted(count.processors.machine, "processor"), reason_of(count),
                     is_crowded ? "; more threads than processors make steps slower" : "");
}

}  // namespace shoehorn
