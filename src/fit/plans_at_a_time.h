// How many plans may be made at the same time, by threads or by processes, without running out of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoehorn {

// As many as there are `processors`, but of those each may take twice `peak_bytes`, the most that a process has held that made
// one; together they take no more than `available_bytes`. At least 1.
size_t plans_at_a_time(int64_t available_bytes, int64_t peak_bytes, int64_t processors);

// The same by what this process has held so far, what it can take besides now, and the processors that it can use.
size_t plans_at_a_time();

}  // namespace shoehorn
