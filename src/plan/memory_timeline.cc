#include "plan/memory_timeline.h"

#include <algorithm>

namespace shoehorn {

MemoryTimeline memory_timeline(const StateTable& state, const ProgramPlan& plan, AddressSpace space) {
  const size_t nodes = plan.workspace_bytes.size();
  MemoryTimeline timeline;
  std::map<Role, std::vector<int64_t>> changes;  // at each node, against the one before
  const auto add = [&](Role role, size_t first, size_t last, int64_t bytes) {
    std::vector<int64_t>& of_role = changes[role];
    of_role.resize(nodes + 1);
    of_role[first] += bytes;
    of_role[last + 1] -= bytes;
  };
  if (nodes == 0) return timeline;
  for (const Storage& storage : state.storages()) {
    if (storage.space == space && storage.type.bytes() > 0)
      add(storage.role, 0, nodes - 1, storage.type.bytes());
  }
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.space == space)
      add(buffer.role, static_cast<size_t>(buffer.first), static_cast<size_t>(buffer.last), buffer.bytes);
  }
  if (changes.empty()) return timeline;

  std::vector<int64_t> sums(nodes);
  for (auto& [role, change] : changes) {
    std::vector<int64_t>& bytes = timeline.bytes[role];
    int64_t live = 0;
    for (size_t at = 0; at < nodes; ++at) {
      live += change[at];
      bytes.push_back(live);
      sums[at] += live;
    }
  }
  const auto peak = std::max_element(sums.begin(), sums.end());
  timeline.peak_position = peak - sums.begin();
  timeline.peak_bytes = *peak;
  return timeline;
}

}  // namespace shoehorn
