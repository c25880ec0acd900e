#include "analysis/memory_chart.h"

#include <algorithm>

#include "base/format.h"
#include "ops/op_info.h"
#include "plan/memory_timeline.h"

namespace shoehorn {

AreaChart memory_chart(const Session& session) {
  const ProgramPlan& plan = session.plan().program(session.plan().largest());
  const Program& program = session.family().program(session.plan().largest());
  AreaChart chart{.title = fmt::format("Memory of {}, by role", program.name()),
                  .x_axis = {"operation", Unit::kCount},
                  .y_axis = {"", Unit::kBytes}};
  const MemoryTimeline timeline = memory_timeline(session.state(), plan);
  if (timeline.bytes.empty()) return chart;
  for (size_t i = 0; i < program.nodes().size(); ++i) chart.x.push_back(static_cast<double>(i));
  // Inputs and scalars are too little to be seen: one layer.
  AreaLayer small{"input, scalar", std::vector<double>(chart.x.size())};
  for (const auto& [role, bytes] : timeline.bytes) {
    if (role == Role::kInput || role == Role::kScalar) {
      for (size_t i = 0; i < bytes.size(); ++i) small.values[i] += static_cast<double>(bytes[i]);
    } else {
      std::string name(role_name(role));
      std::replace(name.begin(), name.end(), '_', ' ');
      chart.layers.push_back({std::move(name), {bytes.begin(), bytes.end()}});
    }
  }
  chart.layers.push_back(std::move(small));
  const Node& peak = program.nodes()[static_cast<size_t>(timeline.peak_position)];
  chart.marks.push_back(
      {static_cast<double>(timeline.peak_position) + 0.5,
       fmt::format("peak {}: {} of {}, {}", format_bytes(timeline.peak_bytes), op_info(peak.kind).name,
                   region_name(peak.region), phase_name(peak.region.phase))});
  return chart;
}

}  // namespace shoehorn
