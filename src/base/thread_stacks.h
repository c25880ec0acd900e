// The stacks of a team's threads, as libgomp makes them: as large as OMP_STACKSIZE says or, where that is not set or is no size,
// GOMP_STACKSIZE, else the system's standard for threads (`ulimit -s`). Of a stack only what was touched is memory, but all of
// it is address space (`ulimit -v`).
#pragma once

#include <cstdint>

namespace shoehorn {

struct StackSize {
  int64_t bytes = 0;  // of each thread but the first, which has its stack already; 0: the system does not say
  const char* variable = nullptr;  // that says so; null: the system
};

// By the environment as it is now; libgomp read it when it was loaded.
StackSize thread_stack_size();

// Call it before a team of so many threads is started from this thread, which costs something where none was so large: libgomp
// ends the process where a thread gets no stack. UserError where the stacks that are missing have no room.
void check_room_for_stacks(int threads);

}  // namespace shoehorn
