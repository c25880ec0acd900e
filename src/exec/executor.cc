#include "exec/executor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

constexpr int kPoison = 0xFF;  // as fp32, bf16, fp16 and fp64: not a number

// Calls function(offset, bytes) for each stretch of a transient arena in which no buffer lives at position
// `node`.
template <typename Function>
void for_each_dead_stretch(const ProgramPlan& plan, AddressSpace space, int64_t arena_bytes, int64_t node,
                           const Function& function) {
  std::vector<std::pair<int64_t, int64_t>> live;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.space == space && buffer.first <= node && node <= buffer.last)
      live.emplace_back(buffer.offset, buffer.offset + buffer.bytes);
  }
  std::sort(live.begin(), live.end());
  int64_t from = 0;
  for (const auto& [begin, end] : live) {
    if (begin > from) function(from, begin - from);
    from = std::max(from, end);
  }
  if (from < arena_bytes) function(from, arena_bytes - from);
}

}  // namespace

Executor::Executor(const StateTable& state, const std::vector<Program>& programs, const MemoryPlan& plan,
                   const Backend& backend, ExecutorOptions options)
    : state_(state), plan_(plan), options_(options) {
  CHECK(plan.storage_offset.size() == state.storages().size() && plan.programs.size() == programs.size(),
        "the plan is of another family");
  CHECK(plan.spaces[AddressSpace::kDisk].bytes() == 0, "the plan has {} on disk, which no executor reaches",
        plan.spaces[AddressSpace::kDisk].bytes());
  for (const SpacePlan& space : plan.spaces)
    spaces_.push_back({Arena(space.persistent_bytes), Arena(space.transient_bytes)});
  for (size_t i = 0; i < programs.size(); ++i)
    programs_.push_back(bind(programs[i], plan.programs[i], backend));
}

std::byte* Executor::at(const Location& location) const {
  if (location.offset < 0) return nullptr;
  const SpaceArenas& space = spaces_[static_cast<size_t>(location.space)];
  return (location.arena == ArenaKind::kPersistent ? space.persistent : space.transient).data() +
         location.offset;
}

int64_t Executor::arena_bytes() const {
  int64_t bytes = 0;
  for (const SpaceArenas& space : spaces_) bytes += space.persistent.bytes() + space.transient.bytes();
  return bytes;
}

int64_t Executor::resident_arena_bytes() const {
  int64_t bytes = 0;
  for (const SpaceArenas& space : spaces_)
    bytes += space.persistent.resident_bytes() + space.transient.resident_bytes();
  return bytes;
}

Executor::Bound Executor::bind(const Program& program, const ProgramPlan& plan,
                               const Backend& backend) const {
  Bound bound{&program, &plan, {}};
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    NodeBuffers buffers;
    for (const ValueId input : node.inputs)
      buffers.inputs.push_back(input.valid() ? at(plan.values[input.at()]) : nullptr);
    for (const ValueId output : node.outputs) buffers.outputs.push_back(at(plan.values[output.at()]));
    buffers.workspace_bytes = plan.workspace_bytes[i];
    if (buffers.workspace_bytes > 0)
      buffers.workspace = transient(output_space(program, node)).data() + plan.workspace_offset[i];
    bound.nodes.push_back(backend.prepare(program, node, buffers));
  }
  return bound;
}

std::byte* Executor::value(ProgramId program, ValueId id) const {
  return at(programs_[program.at()].plan->values[id.at()]);
}

void Executor::run(ProgramId program, std::span<const int64_t> counts) {
  CHECK(program.valid(), "there is no such program");
  const Bound& bound = programs_[program.at()];
  const std::string_view name = bound.program->name();
  const auto& declared = bound.program->counts();
  CHECK(counts.size() == declared.size(), "program {} has {} counts, got {}", name, declared.size(),
        counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    CHECK(counts[i] >= 0 && counts[i] <= declared[i].maximum && counts[i] % declared[i].multiple == 0,
          "program {}: {} is {}, planned for at most {} in steps of {}", name, declared[i].name, counts[i],
          declared[i].maximum, declared[i].multiple);
  }
  for (size_t i = 0; i < bound.nodes.size(); ++i) {
    if (options_.poison) fill_dead(bound, i);
    bound.nodes[i](counts.data());
    if (options_.poison) check_dead(bound, i);
    if (observer_) observer_(program, i, counts);
  }
}

void Executor::fill_dead(const Bound& bound, size_t node) const {
  for (const AddressSpace space : kEveryAddressSpace) {
    const Arena& arena = transient(space);
    for_each_dead_stretch(*bound.plan, space, arena.bytes(), static_cast<int64_t>(node),
                          [&](int64_t offset, int64_t bytes) {
                            std::memset(arena.data() + offset, kPoison, static_cast<size_t>(bytes));
                          });
  }
}

void Executor::check_dead(const Bound& bound, size_t node) const {
  for (const AddressSpace space : kEveryAddressSpace) {
    const Arena& arena = transient(space);
    for_each_dead_stretch(
        *bound.plan, space, arena.bytes(), static_cast<int64_t>(node), [&](int64_t offset, int64_t bytes) {
          const std::byte* from = arena.data() + offset;
          const bool clean =
              std::all_of(from, from + bytes, [](std::byte b) { return b == std::byte{kPoison}; });
          CHECK(clean, "node {} {} of program {} wrote outside its buffers", node,
                op_info(bound.program->nodes()[node].kind).name, bound.program->name());
        });
  }
}

}  // namespace shoehorn
