// How long ranks waited for each other's messages: which of them is the slowest. A slow rank waits least, and all others wait for
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/message_overlap.h"
#include "ranks/communicator.h"

namespace shoehorn {

struct Straggler {
  int32_t rank = 0;
  double seconds = 0;  // that another rank waited longer than this one
};

// The rank that waited least, of the seconds that each rank waited; not empty.
Straggler straggler_of(const std::vector<double>& waited_seconds);

// Of what each rank measured, not empty: that of the rank which hid the most. It is the slowest; what it waits for is the link.
MessageOverlap overlap_of_slowest(const std::vector<MessageOverlap>& ranks);

// A line that names the straggler of a run, of which ranks waited so long; empty where it cost less than a twentieth of the
// run.
std::string format_straggler(const Communicator& ranks, const Straggler& straggler, double run_seconds);

}  // namespace shoehorn
