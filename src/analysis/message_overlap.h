// What of the messages beside the computation the computation hides, as it was measured: from the times in which the nodes of a
// program ran. message_time.h says it of a plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "graph/program.h"

namespace shoehorn {

// A time in which lane 0 waited for another lane, in seconds as those of nodes are.
struct LaneWait {
  double begin = 0;
  double end = 0;
};

// Whether a node waits for what another lane makes. A view reads nothing itself: who reads it waits.
bool waits_for_other_lane(const Program& program, const Node& reader);
// Of a run of the program that began at `begin`, in order; the last may be at its end. `times`: of each node.
std::vector<LaneWait> waits_of_lane_0(const Program& program, double begin, std::span<const NodeTimes> times);

// Bytes that lanes other than lane 0 send, as the first rank sends them. The bytes of a collective are taken to go evenly over its
// time. The backward ends with the last node that computes gradients; what a collective sends is complete before that
// where it stands in front of this node.
struct MessageOverlap {
  double bytes = 0;
  double done_bytes = 0;  // of all, those that were sent when the backward ended
  double early_bytes =
      0;  // of all, those that were complete before the backward's end, and could go around beside it
  double hidden_bytes = 0;  // of the early ones, those that were sent while lane 0 did not wait

  double done_share() const { return bytes > 0 ? done_bytes / bytes : 0; }
  double early_share() const { return bytes > 0 ? early_bytes / bytes : 0; }
  double hidden_share() const { return early_bytes > 0 ? hidden_bytes / early_bytes : 0; }
};

// Adds a run of the program that began at `begin`.
void add_overlap(const Program& program, double begin, std::span<const NodeTimes> times,
                 MessageOverlap& overlap);

// A line of so many steps; nothing where no other lane sends.
std::string format_overlap(const MessageOverlap& overlap, int64_t steps);

}  // namespace shoehorn
