#include "session/recompute_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/rounding.h"
#include "ops/op_info.h"
#include "ops/weight_cast.h"
#include "passes/recompute.h"
#include "passes/recompute_set.h"
#include "plan/plan_target.h"

namespace shoehorn {

namespace {

// Of a layer with more values the largest are chosen from.
constexpr size_t kMostValues = 12;

// A node whose outputs are kept for the backward.
struct KeptNode {
  NodeId id;
  int64_t bytes = 0;  // of the outputs that are kept
};

class OptionBuilder {
 public:
  OptionBuilder(const StepTrial& trial, const TrialOutcome& kept)
      : trial_(trial), step_(trial.step()), kept_(kept), names_(forward_names(step_)) {
    find_kept_nodes();
    find_read_nodes();
    for (const auto& [layer, nodes] : by_layer_) {
      for (const KeptNode& node : nodes) look_behind(node.id);
    }
  }

  RecomputeOptions build() const {
    RecomputeOptions found;
    std::vector<Signature> known;
    std::vector<size_t> first_of_kind;
    for (const auto& [layer, nodes] : by_layer_) {
      for (const KeptNode& node : nodes) {
        found.kept_bytes[names_[node.id.at()]] = node.bytes;
        if (bases_.contains(node.id)) found.bases.insert(names_[node.id.at()]);
      }
      const std::vector<KeptNode> free = chosen_from(nodes);
      Signature signature = signature_of(free, layer);
      const auto same = std::find(known.begin(), known.end(), signature);
      const auto kind = static_cast<size_t>(same - known.begin());
      LayerOptions of_layer{layer, kind, {}};
      if (same == known.end()) {
        known.push_back(std::move(signature));
        first_of_kind.push_back(found.layers.size());
        of_layer.options = options_of(free);
      } else {
        of_layer.options = renamed(found.layers[first_of_kind[kind]], layer);
      }
      found.layers.push_back(std::move(of_layer));
    }
    return found;
  }

 private:
  // Of each node: its name in the layer, its bytes, those at the peak, and the seconds of what runs again for it alone.
  using Signature = std::vector<std::tuple<std::string, int64_t, int64_t, double>>;

  static std::string prefix_of(int32_t layer) { return layer < 0 ? "" : fmt::format("layer.{}.", layer); }

  std::vector<KeptNode> chosen_from(const std::vector<KeptNode>& nodes) const {
    std::vector<KeptNode> free;
    for (const KeptNode& node : nodes) {
      if (!bases_.contains(node.id)) free.push_back(node);
    }
    std::stable_sort(free.begin(), free.end(),
                     [](const KeptNode& a, const KeptNode& b) { return a.bytes > b.bytes; });
    if (free.size() > kMostValues) free.resize(kMostValues);
    return free;
  }

  int64_t bytes_at_peak(const KeptNode& node) const {
    if (!kept_.across_peak.contains(names_[node.id.at()])) return 0;
    return trial_.options().micro_batches_together() * node.bytes;
  }

  double seconds_to_run(const std::set<NodeId>& run) const {
    double seconds = 0;
    walk(run, [&](NodeId id) { seconds += trial_.seconds_of(step_.node(id)); }, [](NodeId) {});
    return seconds;
  }

  Signature signature_of(const std::vector<KeptNode>& nodes, int32_t layer) const {
    Signature signature;
    for (const KeptNode& node : nodes) {
      signature.emplace_back(names_[node.id.at()].substr(prefix_of(layer).size()), node.bytes,
                             bytes_at_peak(node), seconds_to_run({node.id}));
    }
    return signature;
  }

  static std::vector<RecomputeOption> renamed(const LayerOptions& other, int32_t layer) {
    std::vector<RecomputeOption> options = other.options;
    for (RecomputeOption& option : options) {
      for (std::string& name : option.names)
        name = prefix_of(layer) + name.substr(prefix_of(other.layer).size());
    }
    return options;
  }

  void find_kept_nodes() {
    Program probe = step_;
    make_values_again(probe, {}, trial_.options());
    const auto readers = probe.readers();
    const std::vector<std::string> names = forward_names(probe);
    std::map<std::string, int64_t> bytes;
    for (const NodeId id : nodes_read_later(probe)) {
      int64_t& sum = bytes[names[id.at()]];
      for (const ValueId output : probe.node(id).outputs) {
        const bool is_kept =
            std::any_of(readers[output.at()].begin(), readers[output.at()].end(),
                        [&](NodeId reader) { return probe.node(reader).region.phase != Phase::kForward; });
        if (is_kept) sum += round_up(probe.type(output).bytes(), kArenaAlignment);
      }
    }
    for (size_t i = 0; i < names_.size(); ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      const auto found = bytes.find(names_[i]);
      const Node& node = step_.node(id);
      if (found == bytes.end() || names_[i].empty() || node.kind == OpKind::kView) continue;
      by_layer_[node.region.layer].push_back({id, found->second});
      kept_nodes_.insert(id);
    }
  }

  void find_read_nodes() {
    for (const NodeId id : nodes_read_later(step_)) read_nodes_.insert(id);
  }

  // Whether the backward has the outputs of a node without running it: they are made again from less.
  bool is_cheap(const Node& node, NodeId id) const {
    return node.kind == OpKind::kView || !op_info(node.kind).recompute.empty() || read_nodes_.contains(id);
  }

  // Calls `visit` for each node that runs again when the nodes of `run` do, and `base` for those kept ones that they start from.
  template <typename Visit, typename Base>
  void walk(const std::set<NodeId>& run, const Visit& visit, const Base& base) const {
    std::vector<NodeId> stack(run.begin(), run.end());
    std::set<NodeId> seen(run.begin(), run.end());
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      const Node& node = step_.node(id);
      if (kept_nodes_.contains(id) && !run.contains(id)) {
        base(id);
        continue;
      }
      if (run.contains(id) || !is_cheap(node, id)) visit(id);
      for (const ValueId input : node.inputs) {
        if (!input.valid()) continue;
        const NodeId producer = step_.value(input).producer;
        if (!producer.valid() || is_weight_cast(step_, step_.node(producer))) continue;
        if (seen.insert(producer).second) stack.push_back(producer);
      }
    }
  }

  // Kept nodes of other layers that this one starts from stay kept.
  void look_behind(NodeId id) {
    walk(
        {id}, [](NodeId) {},
        [&](NodeId base) {
          if (step_.node(base).region.layer != step_.node(id).region.layer) bases_.insert(base);
        });
  }

  std::vector<RecomputeOption> options_of(const std::vector<KeptNode>& nodes) const {
    std::vector<RecomputeOption> all;
    for (size_t mask = 0; mask < size_t{1} << nodes.size(); ++mask) {
      RecomputeOption option;
      std::set<NodeId> run;
      for (size_t i = 0; i < nodes.size(); ++i) {
        if ((mask >> i & 1) == 0) continue;
        run.insert(nodes[i].id);
        option.names.push_back(names_[nodes[i].id.at()]);
        option.freed_bytes += bytes_at_peak(nodes[i]);
      }
      option.seconds = seconds_to_run(run);
      all.push_back(std::move(option));
    }
    std::stable_sort(all.begin(), all.end(), [](const RecomputeOption& a, const RecomputeOption& b) {
      return std::tuple(a.seconds, -a.freed_bytes, a.names.size()) <
             std::tuple(b.seconds, -b.freed_bytes, b.names.size());
    });
    std::vector<RecomputeOption> best;
    for (RecomputeOption& option : all) {
      if (best.empty() || option.freed_bytes > best.back().freed_bytes) best.push_back(std::move(option));
    }
    return best;
  }

  const StepTrial& trial_;
  const Program& step_;
  const TrialOutcome& kept_;
  std::vector<std::string> names_;
  std::map<int32_t, std::vector<KeptNode>> by_layer_;
  std::set<NodeId> kept_nodes_, read_nodes_;
  std::set<NodeId> bases_;  // kept nodes that other layers start from
};

}  // namespace

RecomputeOptions recompute_options(const StepTrial& trial, const TrialOutcome& kept) {
  return OptionBuilder(trial, kept).build();
}

}  // namespace shoehorn
