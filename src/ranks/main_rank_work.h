// Work of the first rank that the others wait for, however long it takes: while it goes on, a thread of the first rank lets
// all of them exchange a word now and then. So each message comes in time, and a rank that has ended, was stopped or is cut off
// is noticed as at any other time (ranks/communicator.h).
#pragma once

#include <functional>

#include "ranks/communicator.h"

namespace shoehorn {

// The longest time between two words; a tenth of a timeout that is short.
inline constexpr double kSecondsBetweenWords = 1;

// Calls work() on the first rank, and returns on all of them when it is done. `work` may not use `ranks`. What it throws is
// thrown on the first rank alone, which is to end then. SystemError as of Communicator::exchange; on the first rank when the
// work is done.
void work_on_main_rank(Communicator& ranks, const std::function<void()>& work);

}  // namespace shoehorn
