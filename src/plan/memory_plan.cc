#include "plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "plan/buffer_assignment.h"
#include "plan/pack.h"
#include "plan/pack_check.h"

namespace shoehorn {

namespace {

constexpr int64_t kNearlyParts = 1024;

// Gives the plan's buffers of one space their offsets.
void pack_space(const Program& program, AddressSpace space, PackGoal goal, ProgramPlan& plan) {
  std::vector<Interval> intervals;
  std::vector<size_t> packed;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (buffer.space != space) continue;
    intervals.push_back({buffer.first, buffer.last, buffer.bytes});
    packed.push_back(i);
  }
  const auto live =
      live_bytes_by_position(intervals, static_cast<int64_t>(program.nodes().size()), kArenaAlignment);
  const auto peak = std::max_element(live.begin(), live.end());
  const int64_t peak_bytes = peak == live.end() ? 0 : *peak;
  const int64_t target_bytes = goal == PackGoal::kNearly ? peak_bytes + peak_bytes / kNearlyParts : 0;
  const Packing packing = pack(intervals, kArenaAlignment, target_bytes);
  validate_no_overlap(intervals, packing.offsets, kArenaAlignment, packing.bytes);
  for (size_t i = 0; i < packed.size(); ++i) plan.buffers[packed[i]].offset = packing.offsets[i];
  plan.spaces[space] = {.bytes = packing.bytes,
                        .lower_bound_bytes = packing.lower_bound_bytes,
                        .peak_position = peak - live.begin()};
}

ProgramPlan plan_program(const Program& program, const std::vector<int64_t>& storage_offset,
                         const PlanTarget& target, PackGoal goal) {
  AssignedBuffers assigned = assign_buffers(program, target);
  ProgramPlan plan;
  plan.buffers = std::move(assigned.buffers);
  plan.workspace_bytes = std::move(assigned.workspace_bytes);
  for (const AddressSpace space : kEveryAddressSpace) pack_space(program, space, goal, plan);

  for (size_t i = 0; i < program.values().size(); ++i) {
    const Value& value = program.values()[i];
    const BufferPlace& place = assigned.places[i];
    Location location;
    location.space = value.space;
    if (value.storage.valid() || place.storage.valid()) {
      const StorageId storage = value.storage.valid() ? value.storage : place.storage;
      location.arena = ArenaKind::kPersistent;
      location.offset = storage_offset[storage.at()] + place.offset;
    } else if (place.buffer >= 0) {
      location.offset = plan.buffers[static_cast<size_t>(place.buffer)].offset + place.offset;
    }
    plan.values.push_back(location);
  }
  for (const int64_t buffer : assigned.workspace_buffer) {
    plan.workspace_offset.push_back(buffer < 0 ? -1 : plan.buffers[static_cast<size_t>(buffer)].offset);
  }
  return plan;
}

// Adds every byte of the arenas to the entry that `name` gives for its role and region.
template <typename Name>
std::map<std::string, int64_t> account(const StateTable& state, const MemoryPlan& plan, const Name& name) {
  std::map<std::string, int64_t> bytes;
  int64_t total = 0;
  const auto add = [&](const std::string& key, int64_t amount) {
    if (amount == 0) return;
    bytes[key] += amount;
    total += amount;
  };
  for (const Storage& storage : state.storages())
    add(name(storage.role, storage.region), storage.type.bytes());
  for (const AddressSpace space : kEveryAddressSpace) {
    if (plan.spaces[space].transient_bytes == 0) continue;
    const ProgramPlan& largest = plan.program(plan.largest(space));
    const int64_t peak = largest.spaces[space].peak_position;
    for (const Buffer& buffer : largest.buffers) {
      if (buffer.space == space && buffer.first <= peak && peak <= buffer.last)
        add(name(buffer.role, buffer.region), buffer.bytes);
    }
  }
  const int64_t slack = plan.arena_bytes() - total;
  if (slack != 0) bytes["slack"] = slack;
  return bytes;
}

}  // namespace

int64_t MemoryPlan::arena_bytes() const {
  int64_t bytes = 0;
  for (const SpacePlan& space : spaces) bytes += space.bytes();
  return bytes;
}

ProgramId MemoryPlan::largest(AddressSpace space) const {
  CHECK(!programs.empty(), "the plan has no program");
  const auto largest =
      std::max_element(programs.begin(), programs.end(), [space](const ProgramPlan& a, const ProgramPlan& b) {
        return a.spaces[space].bytes < b.spaces[space].bytes;
      });
  return {static_cast<int32_t>(largest - programs.begin())};
}

MemoryPlan plan_memory(const StateTable& state, const std::vector<Program>& programs,
                       const PlanTarget& target, PackGoal goal) {
  MemoryPlan plan;
  for (const Storage& storage : state.storages()) {
    int64_t& bytes = plan.spaces[storage.space].persistent_bytes;
    plan.storage_offset.push_back(bytes);
    bytes += round_up(storage.type.bytes(), kArenaAlignment);
  }
  for (const Program& program : programs) {
    plan.programs.push_back(plan_program(program, plan.storage_offset, target, goal));
    for (const AddressSpace space : kEveryAddressSpace) {
      const TransientPlan& needed = plan.programs.back().spaces[space];
      SpacePlan& total = plan.spaces[space];
      total.transient_bytes = std::max(total.transient_bytes, needed.bytes);
      total.transient_lower_bound_bytes =
          std::max(total.transient_lower_bound_bytes, needed.lower_bound_bytes);
    }
  }
  return plan;
}

std::map<std::string, int64_t> bytes_by_role(const StateTable& state, const MemoryPlan& plan) {
  return account(state, plan, [](Role role, const Region&) { return std::string(role_name(role)); });
}

std::map<std::string, int64_t> bytes_by_component(const StateTable& state, const MemoryPlan& plan) {
  return account(state, plan, [](Role role, const Region& region) {
    if (role == Role::kOptimizerState) return std::string("optimizer");
    return region_name(region);
  });
}

std::map<std::string, int64_t> bytes_by_component_kind(const StateTable& state, const MemoryPlan& plan) {
  return account(state, plan, [](Role role, const Region& region) {
    if (role == Role::kOptimizerState) return std::string("optimizer");
    const std::string component(component_name(region.component));
    return region.layer < 0 ? component : component + " (all layers)";
  });
}

std::map<std::string, int64_t> bytes_by_role_and_component(const StateTable& state, const MemoryPlan& plan) {
  return account(state, plan, [](Role role, const Region& region) {
    return fmt::format("{} of {}", role_name(role), component_name(region.component));
  });
}

}  // namespace shoehorn
