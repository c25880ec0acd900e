#include "analysis/message_overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/message_time.h"
#include "base/format.h"

namespace shoehorn {

namespace {

bool computes_gradients(const Node& node) {
  const bool is_in_backward = node.region.phase == Phase::kBackward || node.region.phase == Phase::kRecompute;
  const bool does_nothing = node.kind == OpKind::kView || node.kind == OpKind::kWait;
  return is_in_backward && node.lane == 0 && !does_nothing && !sends_messages(node);
}

std::optional<size_t> end_of_backward(const Program& program) {
  for (size_t i = program.nodes().size(); i > 0; --i) {
    if (computes_gradients(program.nodes()[i - 1])) return i - 1;
  }
  return std::nullopt;
}

// The share of a node's time that lies in [begin, end].
double share_in(const NodeTimes& times, double begin, double end) {
  const double seconds = times.end - times.begin;
  if (seconds <= 0) return times.begin >= begin && times.end <= end ? 1 : 0;
  return std::max(0.0, std::min(times.end, end) - std::max(times.begin, begin)) / seconds;
}

}  // namespace

bool waits_for_other_lane(const Program& program, const Node& reader) {
  if (reader.kind == OpKind::kView) return false;
  return std::ranges::any_of(reader.inputs, [&](ValueId input) {
    const NodeId maker = maker_of(program, input);
    return maker.valid() && program.node(maker).lane != reader.lane;
  });
}

std::vector<LaneWait> waits_of_lane_0(const Program& program, double begin,
                                      std::span<const NodeTimes> times) {
  std::vector<LaneWait> waits;
  double last_end = begin, end = begin;  // of lane 0; of all lanes
  for (size_t i = 0; i < times.size(); ++i) {
    end = std::max(end, times[i].end);
    const Node& node = program.nodes()[i];
    if (node.lane != 0) continue;
    if (waits_for_other_lane(program, node)) waits.push_back({last_end, times[i].begin});
    last_end = times[i].end;
  }
  if (end > last_end) waits.push_back({last_end, end});
  return waits;
}

void add_overlap(const Program& program, double begin, std::span<const NodeTimes> times,
                 MessageOverlap& overlap) {
  const std::optional<size_t> last = end_of_backward(program);
  const std::vector<LaneWait> waits = waits_of_lane_0(program, begin, times);
  for (size_t i = 0; i < times.size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.lane == 0 || !sends_messages(node)) continue;
    const double bytes = most_sent_bytes({program, node});
    overlap.bytes += bytes;
    if (!last) continue;
    overlap.done_bytes += bytes * share_in(times[i], begin, times[*last].end);
    if (i > *last) continue;
    double waited = 0;
    for (const LaneWait& wait : waits) waited += share_in(times[i], wait.begin, wait.end);
    overlap.early_bytes += bytes;
    overlap.hidden_bytes += bytes * (1 - waited);
  }
}

std::string format_overlap(const MessageOverlap& overlap, int64_t steps) {
  if (overlap.bytes <= 0 || steps == 0) return {};
  std::string text =
      fmt::format("Messages beside the computation: {} a step, {:.1f} % of them sent by the backward's end; ",
                  format_bytes(static_cast<int64_t>(overlap.bytes / static_cast<double>(steps))),
                  100 * overlap.done_share());
  if (overlap.early_bytes <= 0) return text + "none was complete before it\n";
  return text + fmt::format("{:.1f} % were complete before it, and computing hid {:.1f} % of these\n",
                            100 * overlap.early_share(), 100 * overlap.hidden_share());
}

}  // namespace shoehorn
