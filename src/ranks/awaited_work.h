// Work of some ranks that the others wait for, however long it takes: while it goes on, a thread of each rank that works lets
// all of them exchange a word now and then. So each message comes in time, and a rank that has ended, was stopped or is cut off
// is noticed as at any other time (ranks/communicator.h).
#pragma once

#include <functional>

#include "ranks/communicator.h"

namespace shoehorn {

// The longest time between two words; a tenth of a timeout that is short.
inline constexpr double kSecondsBetweenWords = 1;

// Calls work() on each rank that `works`, and returns on all of them when all have done it. `work` may not use `ranks`. What it
// throws is thrown on that rank alone, which is to end then. SystemError as of Communicator::exchange; on a rank that works when
// its work is done.
void await_work(Communicator& ranks, bool works, const std::function<void()>& work);

}  // namespace shoehorn
