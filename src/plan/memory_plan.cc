#include "plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "ops/op_info.h"
#include "ops/verify.h"
#include "plan/pack.h"

namespace shoehorn {

namespace {

// Which buffer each value lies in, and how long buffers live.
class BufferAssignment {
 public:
  explicit BufferAssignment(const Program& program)
      : program_(program),
        last_running_(program.last_running()),
        places_(program.values().size()),
        last_read_(program.values().size(), -1) {
    const auto positions = static_cast<int64_t>(program.nodes().size());
    for (size_t at = 0; at < program.nodes().size(); ++at) {
      for (const ValueId input : program.nodes()[at].inputs) {
        if (input.valid()) last_read_[input.at()] = std::max(last_read_[input.at()], last_running_[at]);
      }
    }
    for (const Program::Result& result : program.results()) last_read_[result.value.at()] = positions;
    extend_through_views();
    for (int64_t at = 0; at < positions; ++at) assign(at);
    for (Buffer& buffer : buffers_) buffer.last = std::min(buffer.last, positions - 1);
  }

  struct Place {
    int64_t buffer = -1;  // index in buffers(); -1 for state
    StorageId storage;
    int64_t offset = 0;  // bytes from the start of the buffer or storage
  };

  const std::vector<Place>& places() const { return places_; }
  std::vector<Buffer>& buffers() { return buffers_; }
  int64_t last_running(size_t node) const { return last_running_[node]; }

 private:
  // A view reads its source for as long as it is read itself.
  void extend_through_views() {
    for (size_t at = program_.nodes().size(); at-- > 0;) {
      const Node& node = program_.nodes()[at];
      if (node.kind != OpKind::kView) continue;
      int64_t& source = last_read_[node.inputs[0].at()];
      source = std::max(source, last_read_[node.outputs[0].at()]);
    }
  }

  void assign(int64_t at) {
    const Node& node = program_.nodes()[static_cast<size_t>(at)];
    const std::vector<AliasRule> rules = alias_rules(program_, node);
    std::vector<int64_t> taken;
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      const ValueId id = node.outputs[output];
      Place& place = places_[id.at()];
      const Value& value = program_.value(id);
      if (value.storage.valid()) {
        place.storage = value.storage;
        continue;
      }
      for (const AliasRule& rule : rules) {
        if (rule.output != static_cast<int64_t>(output)) continue;
        const Place source = place_of(node.inputs[static_cast<size_t>(rule.input)]);
        if (!rule.required &&
            (!dies_here(source, node.inputs[static_cast<size_t>(rule.input)], at, value.type.bytes()) ||
             std::find(taken.begin(), taken.end(), source.buffer) != taken.end())) {
          continue;
        }
        place = source;
        place.offset += rule.offset_elements * dtype_bytes(value.type.dtype);
        break;
      }
      if (place.buffer < 0 && !place.storage.valid()) place.buffer = new_buffer(at, value, node);
      if (place.buffer >= 0) {
        taken.push_back(place.buffer);
        Buffer& buffer = buffers_[static_cast<size_t>(place.buffer)];
        buffer.last = std::max({buffer.last, last_running_[static_cast<size_t>(at)], last_read_[id.at()]});
        if (value.role == Role::kGradient) buffer.role = Role::kGradient;
      }
    }
  }

  Place place_of(ValueId id) const {
    const Value& value = program_.value(id);
    if (value.storage.valid()) return {-1, value.storage, 0};
    return places_[id.at()];
  }

  // True if an output may reuse the buffer: it is transient, of the same size, used as a whole, and no later
  // node reads it.
  bool dies_here(const Place& source, ValueId input, int64_t at, int64_t bytes) const {
    if (source.buffer < 0 || source.offset != 0) return false;
    const Buffer& buffer = buffers_[static_cast<size_t>(source.buffer)];
    return buffer.bytes == bytes && buffer.last <= at && program_.type(input).bytes() == bytes;
  }

  int64_t new_buffer(int64_t at, const Value& value, const Node& node) {
    Role role = value.role;
    if (role == Role::kTemporary && node.region.phase == Phase::kForward && reads_in_backward(value))
      role = Role::kActivation;
    buffers_.push_back({at, at, value.type.bytes(), 0, role, node.region, value.name, value.space});
    return static_cast<int64_t>(buffers_.size()) - 1;
  }

  bool reads_in_backward(const Value& value) const {
    const ValueId id = program_.node(value.producer).outputs[static_cast<size_t>(value.output)];
    const int64_t last = last_read_[id.at()];
    return last >= 0 && last < static_cast<int64_t>(program_.nodes().size()) &&
           program_.nodes()[static_cast<size_t>(last)].region.phase != Phase::kForward;
  }

  const Program& program_;
  std::vector<int64_t> last_running_;
  std::vector<Place> places_;
  std::vector<int64_t> last_read_;
  std::vector<Buffer> buffers_;
};

// Gives the plan's buffers of one space their offsets.
void pack_space(const Program& program, AddressSpace space, ProgramPlan& plan) {
  std::vector<Interval> intervals;
  std::vector<size_t> packed;
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (buffer.space != space) continue;
    intervals.push_back({buffer.first, buffer.last, buffer.bytes});
    packed.push_back(i);
  }
  const Packing packing = pack(intervals, kArenaAlignment);
  validate_no_overlap(intervals, packing.offsets, kArenaAlignment, packing.bytes);
  for (size_t i = 0; i < packed.size(); ++i) plan.buffers[packed[i]].offset = packing.offsets[i];
  const auto live =
      live_bytes_by_position(intervals, static_cast<int64_t>(program.nodes().size()), kArenaAlignment);
  plan.spaces[space] = {.bytes = packing.bytes,
                        .lower_bound_bytes = packing.lower_bound_bytes,
                        .peak_position = std::max_element(live.begin(), live.end()) - live.begin()};
}

ProgramPlan plan_program(const Program& program, const std::vector<int64_t>& storage_offset,
                         const PlanTarget& target) {
  BufferAssignment assignment(program);
  ProgramPlan plan;
  plan.buffers = std::move(assignment.buffers());
  const auto value_buffers = static_cast<int64_t>(plan.buffers.size());
  std::vector<int64_t> workspace_buffer(program.nodes().size(), -1);
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    const Node& node = program.nodes()[at];
    const int64_t bytes = target.workspace_bytes(program, node);
    plan.workspace_bytes.push_back(bytes);
    if (bytes == 0) continue;
    workspace_buffer[at] = static_cast<int64_t>(plan.buffers.size());
    plan.buffers.push_back({static_cast<int64_t>(at), assignment.last_running(at), bytes, 0, Role::kWorkspace,
                            node.region, fmt::format("{} workspace", op_info(node.kind).name),
                            output_space(program, node)});
  }
  for (const AddressSpace space : kEveryAddressSpace) pack_space(program, space, plan);

  for (size_t i = 0; i < program.values().size(); ++i) {
    const Value& value = program.values()[i];
    const BufferAssignment::Place& place = assignment.places()[i];
    Location location;
    location.space = value.space;
    if (value.storage.valid() || place.storage.valid()) {
      const StorageId storage = value.storage.valid() ? value.storage : place.storage;
      location.arena = ArenaKind::kPersistent;
      location.offset = storage_offset[storage.at()] + place.offset;
    } else if (place.buffer >= 0) {
      CHECK(place.buffer < value_buffers, "a value lies in a workspace");
      location.offset = plan.buffers[static_cast<size_t>(place.buffer)].offset + place.offset;
    }
    plan.values.push_back(location);
  }
  for (const int64_t buffer : workspace_buffer) {
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
                       const PlanTarget& target) {
  MemoryPlan plan;
  for (const Storage& storage : state.storages()) {
    int64_t& bytes = plan.spaces[storage.space].persistent_bytes;
    plan.storage_offset.push_back(bytes);
    bytes += round_up(storage.type.bytes(), kArenaAlignment);
  }
  for (const Program& program : programs) {
    plan.programs.push_back(plan_program(program, plan.storage_offset, target));
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

}  // namespace shoehorn
