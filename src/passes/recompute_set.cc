#include "passes/recompute_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "ops/weight_cast.h"

namespace shoehorn {

std::vector<std::string> forward_names(const Program& program) {
  std::vector<std::string> names;
  std::map<std::string, int64_t> seen;
  for (const Node& node : program.nodes()) {
    names.emplace_back();
    if (node.region.phase != Phase::kForward || node.region.micro_batch != 0) continue;
    std::string name = node.region.layer < 0 ? "" : fmt::format("layer.{}.", node.region.layer);
    name += fmt::format("{}.{}", component_name(node.region.component), program.value(node.outputs[0]).name);
    const int64_t number = seen[name]++;
    if (number > 0) name += fmt::format(".{}", number);
    names.back() = std::move(name);
  }
  return names;
}

std::vector<bool> nodes_of_set(const Program& program, const std::set<std::string>& names) {
  std::vector<bool> members(program.nodes().size(), false);
  if (names.empty()) return members;
  const std::vector<std::string> of_nodes = forward_names(program);
  for (size_t i = 0; i < members.size(); ++i)
    members[i] = names.contains(of_nodes[i]) && !is_weight_cast(program, program.nodes()[i]);
  return members;
}

void check_recompute_set(const Program& program, const std::set<std::string>& names) {
  const std::vector<std::string> known = forward_names(program);
  for (const std::string& name : names) {
    if (name.empty() || std::find(known.begin(), known.end(), name) == known.end()) {
      throw user_error(
          "[--recompute_set] expected names of what the forward of this model makes, got '{}'; `plan --activation_budget "
          "0.5 --json` prints such names",
          name);
    }
  }
}

std::vector<NodeId> nodes_read_later(const Program& program) {
  const auto readers = program.readers();
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.region.phase != Phase::kForward || is_weight_cast(program, node)) continue;
    const bool is_read = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      return std::any_of(readers[output.at()].begin(), readers[output.at()].end(),
                         [&](NodeId reader) { return program.node(reader).region.phase != Phase::kForward; });
    });
    if (is_read) nodes.push_back(NodeId{static_cast<int32_t>(i)});
  }
  return nodes;
}

std::set<std::string> load_recompute_set(const std::filesystem::path& file) {
  const nlohmann::json whole = read_json(file);
  const bool is_plan = whole.is_object() && whole.contains("recompute_set");
  const nlohmann::json& names = is_plan ? whole["recompute_set"] : whole;
  const bool is_list = names.is_array() && std::all_of(names.begin(), names.end(),
                                                       [](const auto& name) { return name.is_string(); });
  if (!is_list)
    throw user_error("[{}] expected a JSON array of names, or an object that has one as \"recompute_set\"",
                     file.string());
  return names.get<std::set<std::string>>();
}

}  // namespace shoehorn
