// The number of threads that the host's kernels and the tokenizers run on, and what decided it:
//
//   1. --num_threads (num_threads of the arguments, make_backend's `threads`)
//   2. OMP_NUM_THREADS, or omp_set_num_threads() of a program that uses the library
//   3. the processors that this process may use: CPU affinity, cpuset, and the cgroups' quota, rounded up
//      (base/processors.h); of several ranks on a host each has its part
//
// and never more than OMP_THREAD_LIMIT. The number is a part of the plan (kernels have a workspace a thread). Shoehorn's
// own kernels give the same bits for every number; products of the library may round differently.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/processors.h"

namespace shoehorn {

enum class ThreadSource : uint8_t { kArgument, kEnvironment, kProgram, kQuota, kAffinity, kMachine, kRanks };

struct ThreadCount {
  int threads = 1;
  ThreadSource source = ThreadSource::kMachine;
  Processors processors = {};
  int64_t local_ranks = 1;  // that share the processors
};

// Decides by the rule above and sets OpenMP's number of threads for the calling thread, from which all teams must start.
// Without a call the first use of thread_count() decides. `num_threads` is what was given, 1 or more; `local_ranks`:
// the processes of the run on this host.
ThreadCount use_threads(std::optional<int64_t> num_threads = {}, int64_t local_ranks = 1);

// In a thread that the caller of use_threads() started: sets OpenMP's number for this thread alone.
void use_threads_here(int threads);

// What is in force. A later omp_set_num_threads() counts as the program's.
ThreadCount thread_count();

// "2 threads of 16 processors (cgroup quota 2.0)", "1 thread of 2 processors (--num_threads)",
// "2 threads of 2 processors", "1 thread of 2 processors (2 ranks share them)".
std::string describe(const ThreadCount& count);

}  // namespace shoehorn
