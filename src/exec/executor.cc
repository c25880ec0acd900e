#include "exec/executor.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/stop_request.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

// Copies of the host's that may be under way at a time: the columns and scalars of two micro-batches.
constexpr int kCopiesUnderWay = 32;

constexpr std::byte kPoison{0xFF};  // as fp32, bf16, fp16 and fp64: not a number

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

// True if the node is the first to change a storage that it also reads: weights, optimizer states, a loss scale. A
// storage that is only written (the loss), and sums of gradients, begin anew with each step.
bool begins_update(const Program& program, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
    const StorageId storage = program.value(output).storage;
    if (!storage.valid() || program.state().storage(storage).role == Role::kGradient) return false;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return input.valid() && program.value(input).storage == storage && program.value(input).version == 0;
    });
  });
}

// The first node that updates weights or other state; the number of nodes if none does.
size_t first_update_of(const Program& program) {
  const std::vector<Node>& nodes = program.nodes();
  if (!program.traits().updates) return nodes.size();
  const auto first = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& node) { return begins_update(program, node); });
  return static_cast<size_t>(first - nodes.begin());
}

}  // namespace

Executor::Executor(const StateTable& state, const std::vector<Program>& programs, const MemoryPlan& plan,
                   const Backend& backend, ExecutorOptions options)
    : state_(state), plan_(plan), backend_(backend), options_(options), reached_(backend.make_event()) {
  CHECK(plan.storage_offset.size() == state.storages().size() && plan.programs.size() == programs.size(),
        "the plan is of another family");
  for (const AddressSpace space : kEveryAddressSpace) {
    const auto reserve = [&](int64_t bytes) { return bytes == 0 ? nullptr : backend.reserve(space, bytes); };
    spaces_.push_back(
        {reserve(plan.spaces[space].persistent_bytes), reserve(plan.spaces[space].transient_bytes)});
  }
  if (options.host_staging.valid()) {
    std::vector<std::unique_ptr<Event>> copies;
    for (int i = 0; i < kCopiesUnderWay; ++i) copies.push_back(backend.make_event());
    staging_ = HostStaging(host_storage(options.host_staging), std::move(copies));
  }
  make_streams(programs);
  for (size_t i = 0; i < programs.size(); ++i) {
    programs_.push_back(bind(programs[i], plan.programs[i]));
    order_lanes(programs_.back());
  }
}

void Executor::lock_memory() {
  for (const SpaceArenas& arenas : spaces_) {
    for (const auto& arena : {std::cref(arenas.persistent), std::cref(arenas.transient)}) {
      if (arena.get() != nullptr) arena.get()->lock();
    }
  }
}

void Executor::make_streams(const std::vector<Program>& programs) {
  int32_t last_lane = 0;
  for (const Program& program : programs) {
    for (const Node& node : program.nodes()) last_lane = std::max(last_lane, node.lane);
  }
  for (int32_t lane = 0; lane <= last_lane; ++lane) streams_.push_back(backend_.make_stream());
}

Executor::Bound Executor::bind(const Program& program, const ProgramPlan& plan) const {
  Bound bound{&program, &plan, {}, {}, first_update_of(program)};
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    NodeBuffers buffers;
    for (const ValueId input : node.inputs)
      buffers.inputs.push_back(input.valid() ? at(plan.values[input.at()]) : nullptr);
    for (const ValueId output : node.outputs) buffers.outputs.push_back(at(plan.values[output.at()]));
    buffers.workspace_bytes = plan.workspace_bytes[i];
    if (buffers.workspace_bytes > 0) {
      buffers.workspace = at({ArenaKind::kTransient, plan.workspace_offset[i], output_space(program, node)});
    }
    BoundNode made;
    made.lane = node.lane;
    made.issue = backend_.prepare(program, node, buffers, *streams_[static_cast<size_t>(node.lane)]);
    bound.nodes.push_back(std::move(made));
  }
  return bound;
}

// Who waits for a node has waited for all before it on that lane; a view reads nothing itself.
void Executor::order_lanes(Bound& bound) const {
  const std::vector<Node>& nodes = bound.program->nodes();
  const auto lanes = streams_.size();
  // The last node of a lane (second) that a lane (first) has waited for; the last node of each lane so far.
  std::vector<int64_t> waited(lanes * lanes, -1);
  std::vector<int64_t> last(lanes, -1);
  const auto wait = [&](std::vector<const Event*>& events, size_t lane, size_t other, int64_t node) {
    if (other == 0 || other == lane || node <= waited[lane * lanes + other]) return;
    waited[lane * lanes + other] = node;
    events.push_back(bound.nodes[static_cast<size_t>(node)].done.get());
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    BoundNode& node = bound.nodes[i];
    const auto lane = static_cast<size_t>(node.lane);
    if (lane != 0) {
      node.lane_0_before = backend_.make_event();
      node.done = backend_.make_event();
      last[lane] = static_cast<int64_t>(i);
    }
    if (nodes[i].kind == OpKind::kView) continue;
    for (const ValueId input : nodes[i].inputs) {
      NodeId producer = input.valid() ? bound.program->value(input).producer : NodeId{};
      while (producer.valid() && nodes[producer.at()].kind == OpKind::kView)
        producer = bound.program->value(nodes[producer.at()].inputs[0]).producer;
      if (!producer.valid()) continue;
      wait(node.waits_for, lane, static_cast<size_t>(nodes[producer.at()].lane),
           static_cast<int64_t>(producer.at()));
    }
  }
  for (size_t other = 1; other < lanes; ++other) {
    if (last[other] >= 0) wait(bound.waits_at_end, 0, other, last[other]);
  }
}

const Arena* Executor::arena_of(const Location& location) const {
  const SpaceArenas& space = spaces_[static_cast<size_t>(location.space)];
  return (location.arena == ArenaKind::kPersistent ? space.persistent : space.transient).get();
}

Executor::Place Executor::place_of(const Location& location) const {
  const Arena* arena = location.offset < 0 ? nullptr : arena_of(location);
  if (arena == nullptr) return {};  // never made, or without bytes
  std::byte* host = arena->host();
  return {arena->address() + location.offset, host == nullptr ? nullptr : host + location.offset};
}

Executor::Place Executor::place_of(StorageId storage, int64_t offset_bytes, int64_t bytes) const {
  const Storage& of = state_.storage(storage);
  CHECK(offset_bytes >= 0 && bytes >= 0 && offset_bytes + bytes <= of.type.bytes(),
        "bytes [{}, {}) of storage '{}', which has {}", offset_bytes, offset_bytes + bytes, of.name,
        of.type.bytes());
  if (host_access_observer_) host_access_observer_(bytes);
  return place_of(
      Location{ArenaKind::kPersistent, plan_.storage_offset[storage.at()] + offset_bytes, of.space});
}

Executor::Place Executor::place_of(ProgramId program, ValueId value, int64_t offset_bytes,
                                   int64_t bytes) const {
  const Bound& bound = programs_[program.at()];
  const Value& of = bound.program->value(value);
  Location location = bound.plan->values[value.at()];
  CHECK(location.offset >= 0, "value '{}' of program {} is never made", of.name, bound.program->name());
  CHECK(offset_bytes >= 0 && bytes >= 0 && offset_bytes + bytes <= of.type.bytes(),
        "bytes [{}, {}) of value '{}', which has {}", offset_bytes, offset_bytes + bytes, of.name,
        of.type.bytes());
  location.offset += offset_bytes;
  return place_of(location);
}

void Executor::wait_for(int32_t lane) const {
  streams_[static_cast<size_t>(lane)]->record(*reached_);
  reached_->wait();
}

void Executor::copy_out(const Place& place, std::span<std::byte> to) const {
  backend_.copy_to_host(place.address, to, computing());
  wait_for_work();
}

void Executor::read(StorageId storage, int64_t offset_bytes, std::span<std::byte> to) const {
  copy_out(place_of(storage, offset_bytes, std::ssize(to)), to);
}

void Executor::read(ProgramId program, ValueId value, int64_t offset_bytes, std::span<std::byte> to) const {
  copy_out(place_of(program, value, offset_bytes, std::ssize(to)), to);
}

void Executor::write(StorageId storage, int64_t offset_bytes, std::span<const std::byte> from) {
  const Place place = place_of(storage, offset_bytes, std::ssize(from));
  std::span<std::byte> staged;
  if (place.host == nullptr) staged = staging_.take_for_copy(std::ssize(from));
  if (staged.empty()) {
    backend_.copy_from_host(from, place.address, computing());
    wait_for_work();  // `from` is the caller's again
    return;
  }
  std::copy(from.begin(), from.end(), staged.begin());
  copy_in(staged, place.address);
}

void Executor::copy_in(std::span<const std::byte> staged, std::byte* address) {
  backend_.copy_from_host(staged, address, computing());
  staging_.copy_issued(staged, computing());
}

std::span<std::byte> Executor::host_storage(StorageId storage) const {
  const Storage& of = state_.storage(storage);
  const Place place = place_of(storage, 0, of.type.bytes());
  CHECK(place.host != nullptr, "the host does not reach storage '{}'", of.name);
  return {place.host, static_cast<size_t>(of.type.bytes())};
}

int64_t Executor::largest_view_bytes() const {
  return backend_.machine().device_is_host ? std::numeric_limits<int64_t>::max() : staging_.room();
}

int64_t Executor::arena_bytes() const {
  int64_t bytes = 0;
  for (const SpaceArenas& space : spaces_) {
    for (const Arena* arena : {space.persistent.get(), space.transient.get()})
      bytes += arena == nullptr ? 0 : arena->bytes();
  }
  return bytes;
}

int64_t Executor::resident_arena_bytes() const {
  int64_t bytes = 0;
  for (const SpaceArenas& space : spaces_) {
    for (const Arena* arena : {space.persistent.get(), space.transient.get()})
      bytes += arena == nullptr ? 0 : arena->resident_bytes();
  }
  return bytes;
}

void Executor::issue(const BoundNode& node, const int64_t* counts, NodeTimes* times) {
  Stream& stream = *streams_[static_cast<size_t>(node.lane)];
  if (node.lane_0_before != nullptr) {
    computing().record(*node.lane_0_before);
    stream.wait(*node.lane_0_before);
  }
  for (const Event* event : node.waits_for) stream.wait(*event);
  if (times != nullptr) stream.mark(times->begin);
  node.issue(counts);
  if (times != nullptr) stream.mark(times->end);
  if (node.done != nullptr) stream.record(*node.done);
}

void Executor::run(ProgramId program, std::span<const int64_t> counts, std::span<NodeTimes> times) {
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
  CHECK(times.empty() || times.size() == bound.nodes.size(), "program {} has {} nodes, got room for {} times",
        name, bound.nodes.size(), times.size());
  for (size_t i = 0; i < bound.nodes.size(); ++i) {
    if (options_.heeds_stops && i <= bound.first_update) throw_if_stop_requested();
    if (before_node_) before_node_(program, i);
    if (options_.poison) fill_dead(bound, i);
    issue(bound.nodes[i], counts.data(), times.empty() ? nullptr : &times[i]);
    if (options_.poison) check_dead(bound, i);
    if (!observer_) continue;
    wait_for(bound.nodes[i].lane);
    observer_(program, i, counts);
  }
  for (const Event* event : bound.waits_at_end) computing().wait(*event);
}

void Executor::fill_dead(const Bound& bound, size_t node) const {
  for (const AddressSpace space : kEveryAddressSpace) {
    const Arena* arena = spaces_[static_cast<size_t>(space)].transient.get();
    if (arena == nullptr) continue;
    for_each_dead_stretch(*bound.plan, space, arena->bytes(), static_cast<int64_t>(node),
                          [&](int64_t offset, int64_t bytes) {
                            backend_.fill(arena->address() + offset, bytes, kPoison, computing());
                          });
  }
}

void Executor::check_dead(const Bound& bound, size_t node) const {
  wait_for(bound.nodes[node].lane);
  std::vector<std::byte> copied;
  for (const AddressSpace space : kEveryAddressSpace) {
    const Arena* arena = spaces_[static_cast<size_t>(space)].transient.get();
    if (arena == nullptr) continue;
    for_each_dead_stretch(
        *bound.plan, space, arena->bytes(), static_cast<int64_t>(node), [&](int64_t offset, int64_t bytes) {
          const std::byte* from = arena->host() == nullptr ? nullptr : arena->host() + offset;
          if (from == nullptr) {
            copied.resize(static_cast<size_t>(bytes));
            copy_out({arena->address() + offset, nullptr}, copied);
            from = copied.data();
          }
          const bool clean = std::all_of(from, from + bytes, [](std::byte b) { return b == kPoison; });
          CHECK(clean, "node {} {} of program {} wrote outside its buffers", node,
                op_info(bound.program->nodes()[node].kind).name, bound.program->name());
        });
  }
}

}  // namespace shoehorn
