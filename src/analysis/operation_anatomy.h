// The work of a step (of an evaluation run: of a batch) by class of operation, as Ivanov et al., "Data
// movement is all you need" (2020) classify a transformer's; and how far each class is from the machine's
// limits.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/step_profile.h"
#include "ops/op_info.h"
#include "plan/machine_profile.h"
#include "session/session.h"

namespace shoehorn {

// Work of one optimizer step.
struct ClassWork {
  OpClass op_class = OpClass::kContraction;
  double nodes = 0;
  double flops = 0;
  double bytes = 0;  // read and written, without caching
  // Lower bound on the time: a node's flops at the rate of products of its operands' type, or its bytes at
  // the memory's rate, whichever takes longer. 0 if the machine's limits are unknown.
  double floor_seconds = 0;
  double seconds = 0;  // measured; 0: not measured
};

struct OperationAnatomy {
  std::vector<ClassWork> classes;  // those that occur in the step, in the order of OpClass
  // The tensor contractions of forward and backward; recomputation is in neither.
  ClassWork forward, backward;
  bool is_measured = false;  // at least one node was timed
  bool has_floor = false;    // the machine's limits are known
};

// A node's share of a step.
struct NodeWork {
  OpClass op_class;
  Phase phase;
  DType operands;      // of a product; fp32 for other work, which computes in fp32
  double runs;         // per step
  Cost cost;           // per run
  double seconds = 0;  // per run, measured
};

// Of a product its first operand's type; fp32 for other nodes.
DType product_operands(const OpContext& node);

// As planned: with every count at its maximum.
std::vector<NodeWork> planned_work(const Session& session);
// The mean over the recorded steps, with the counts of those runs.
std::vector<NodeWork> measured_work(const StepProfile& profile);

// Without limits there is no floor.
OperationAnatomy operation_anatomy(const std::vector<NodeWork>& nodes,
                                   const std::optional<MachineLimits>& limits);

ClassWork total_of(const OperationAnatomy& anatomy);

// A table of shares of flops, bytes and time, and the time as a multiple of the floor.
std::string format_operation_anatomy(const OperationAnatomy& anatomy);
nlohmann::json to_json(const OperationAnatomy& anatomy);

}  // namespace shoehorn
