// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace shoehorn {

// Calls `work(i)` once for each i in [0, count), in that order on up to `threads` threads, of which the caller's is one;
// returns when all are done. An exception keeps pieces from being started; of several the one with the least i is thrown again.
// `on_thread`, where given, is called first on each thread that is added.
void run_concurrently(size_t count, size_t threads, const std::function<void(size_t)>& work,
                      const std::function<void()>& on_thread = {});

}  // namespace shoehorn
