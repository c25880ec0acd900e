// What becomes of a training step with other recompute settings: its bytes at each position, and what its operations cost.
//
// Programs are made by the passes of the run and their buffers assigned as in its plan; only packing is left out, which
// rarely adds to the largest sum of live bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "passes/family_snapshot.h"
#include "plan/pack.h"
#include "plan/plan_target.h"

namespace shoehorn {

// The seconds of a node with every count at its maximum.
using NodeCost = std::function<double(const Program& program, const Node& node)>;

// By rates of an ordinary machine: arithmetic at the rate of products, of which attention reaches a share, or bytes at the
// memory's rate, whichever takes longer. What is chosen by it is the same on every machine.
double nominal_node_seconds(const Program& program, const Node& node);

struct TrialOutcome {
  int64_t live_bytes =
      0;  // the largest sum of live bytes in a program that trains, in the device's transient arena
  double seconds = 0;  // of a step
  // Of nodes of a layer's forward in that program, by name: the most live bytes between the last reader in the forward and the
  // layer's own backward.
  std::map<std::string, int64_t> gap_bytes;
  // Those that are alive at the position of the largest sum, or would be if they were kept.
  std::set<std::string> across_peak;
};

class StepTrial {
 public:
  // `family` as begin_programs leaves it. It, options and target must outlive the trial.
  StepTrial(ProgramFamily& family, const StepOptions& options, const PlanTarget& target,
            NodeCost cost = nominal_node_seconds);
  // The family is what it was.
  ~StepTrial();
  StepTrial(const StepTrial&) = delete;
  StepTrial& operator=(const StepTrial&) = delete;

  TrialOutcome with_set(const std::set<std::string>& names);
  TrialOutcome with_groups(int64_t every_n_layers);
  // The bytes of the arena of the step that was tried last; the search for a packing ends at `target_bytes`, or when
  // `effort` is spent (plan/pack.h).
  int64_t packed_bytes(int64_t target_bytes, int64_t effort = kDefaultPackEffort) const;

  // The seconds of what the backward makes again with the set, cheap values included. Makes no programs.
  double recompute_seconds(const std::set<std::string>& names) const;

  // The step before anything is recomputed, of the largest batches.
  const Program& step() const { return step_; }
  const StepOptions& options() const { return options_; }
  double seconds_of(const Node& node) const { return cost_(step_, node); }
  int64_t trials() const { return trials_; }

 private:
  void make(const std::set<std::string>& names, int64_t every_n_layers);
  TrialOutcome outcome() const;

  ProgramFamily& family_;
  const StepOptions& options_;
  const PlanTarget& target_;
  NodeCost cost_;
  FamilySnapshot start_;
  Program step_;
  int64_t trials_ = 0;
};

}  // namespace shoehorn
