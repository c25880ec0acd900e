// How the threads of a team wait for each other: how long they spin before they sleep.
//
// All kernels, and oneDNN's products, run on one team of GNU OpenMP (libgomp). A thread that has done its share of a
// parallel region waits at the region's end, and then for the next region. It spins first, and calls futex(2) when the
// spinning has found nothing. libgomp spins 300,000 times by default, several milliseconds. On an idle machine that
// costs nothing. Where other programs want the processors too, threads that spin take the time from the threads that
// they wait for, and a step takes twice as long or more. A spin of kSpinSeconds is long enough to bridge the gap
// between two regions, and short beside a thread's time slice.
//
// libgomp reads its settings from the environment when it is loaded, before main(). So a program has two ways:
//
//   int main(int argc, char** argv) {
//     shoehorn::bound_thread_waits(argv);   // runs the program anew, with the setting
//
// or whoever starts it sets GOMP_SPINCOUNT (a number of spins) or OMP_WAIT_POLICY=passive (no spin).
#pragma once

#include <cstdint>
#include <string>

namespace shoehorn {

// From `bench/loaded.py --spins`: shorter spins cost an idle machine more, longer ones a busy machine.
inline constexpr double kSpinSeconds = 150e-6;

// Call it first in main(). Unless the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY, replaces the process by the same
// program (execve of /proc/self/exe) with GOMP_SPINCOUNT as kSpinSeconds takes on this processor, once. Process id and
// name, signals that are ignored, priority, limits and open files stay; it takes some milliseconds. In the new process it
// removes the setting from the environment, so that programs started from here find the user's. Where the program cannot
// be run anew (no /proc, started through the dynamic loader), it goes on as it is.
void bound_thread_waits(char** argv);

struct ThreadWaits {
  enum class Source : uint8_t {
    kLibrary,  // libgomp's own: 300,000 spins, 100 where its threads outnumber the processors
    kUser,     // from the environment
    kProgram,  // from bound_thread_waits()
  };
  Source source = Source::kLibrary;
  std::string setting = {};  // "GOMP_SPINCOUNT=4700", "OMP_WAIT_POLICY=passive"; empty for kLibrary
};

// What is in force in this process.
ThreadWaits thread_waits();

// "spin for 150 µs, then sleep (GOMP_SPINCOUNT=4700)", "OMP_WAIT_POLICY=passive, as the environment says", …
std::string describe(const ThreadWaits& waits);

// How many spins of libgomp's kind this processor does in kSpinSeconds. Takes a tenth of a millisecond.
int64_t spins_of_bounded_wait();

}  // namespace shoehorn
