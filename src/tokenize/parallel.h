// Loops on several threads whose bodies may throw.
#pragma once

#include <omp.h>

#include <cstdint>
#include <exception>
#include <mutex>

#include "base/thread_stacks.h"

namespace shoehorn {

// Calls run(thread, i) for each i in 0..count-1. A thread takes `per_turn` of them at a time. With one thread OpenMP is
// not used. After all have ended, throws what one of them threw. UserError of check_room_for_stacks.
template <typename Run>
void run_in_parallel(int threads, int64_t count, int64_t per_turn, Run&& run) {
  if (threads == 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) run(0, i);
    return;
  }
  check_room_for_stacks(threads);
  std::exception_ptr error;
  std::mutex error_mutex;
#pragma omp parallel for num_threads(threads) schedule(dynamic, per_turn)
  for (int64_t i = 0; i < count; ++i) {
    // An exception may not leave a parallel region.
    try {
      run(omp_get_thread_num(), i);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace shoehorn
