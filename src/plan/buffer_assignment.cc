#include "plan/buffer_assignment.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/op_info.h"

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

  const std::vector<BufferPlace>& places() const { return places_; }
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
      BufferPlace& place = places_[id.at()];
      const Value& value = program_.value(id);
      if (value.storage.valid()) {
        place.storage = value.storage;
        continue;
      }
      for (const AliasRule& rule : rules) {
        if (rule.output != static_cast<int64_t>(output)) continue;
        const BufferPlace source = place_of(node.inputs[static_cast<size_t>(rule.input)]);
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
        if (buffer.role == Role::kTemporary) buffer.role = role_of(value, node);
      }
    }
  }

  BufferPlace place_of(ValueId id) const {
    const Value& value = program_.value(id);
    if (value.storage.valid()) return {-1, value.storage, 0};
    return places_[id.at()];
  }

  // True if an output may reuse the buffer: it is transient, of the same size, used as a whole, and no later
  // node reads it.
  bool dies_here(const BufferPlace& source, ValueId input, int64_t at, int64_t bytes) const {
    if (source.buffer < 0 || source.offset != 0) return false;
    const Buffer& buffer = buffers_[static_cast<size_t>(source.buffer)];
    return buffer.bytes == bytes && buffer.last <= at && program_.type(input).bytes() == bytes;
  }

  // What the backward reads is an activation.
  Role role_of(const Value& value, const Node& node) const {
    const bool is_kept = node.region.phase == Phase::kForward && reads_in_backward(value);
    return value.role == Role::kTemporary && is_kept ? Role::kActivation : value.role;
  }

  int64_t new_buffer(int64_t at, const Value& value, const Node& node) {
    buffers_.push_back({at, at, value.type.bytes(), 0, value.role, node.region, value.name, value.space});
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
  std::vector<BufferPlace> places_;
  std::vector<int64_t> last_read_;
  std::vector<Buffer> buffers_;
};

}  // namespace

AssignedBuffers assign_buffers(const Program& program, const PlanTarget& target) {
  BufferAssignment assignment(program);
  AssignedBuffers assigned;
  assigned.places = assignment.places();
  assigned.buffers = std::move(assignment.buffers());
  for (size_t at = 0; at < program.nodes().size(); ++at) {
    const Node& node = program.nodes()[at];
    const int64_t bytes = target.workspace_bytes(program, node);
    assigned.workspace_bytes.push_back(bytes);
    assigned.workspace_buffer.push_back(bytes == 0 ? -1 : std::ssize(assigned.buffers));
    if (bytes == 0) continue;
    assigned.buffers.push_back(
        {static_cast<int64_t>(at), assignment.last_running(at), bytes, 0, Role::kWorkspace, node.region,
         fmt::format("{} workspace", op_info(node.kind).name), output_space(program, node)});
  }
  return assigned;
}

}  // namespace shoehorn
