// What a step does (of an evaluation run: a batch): its work by class of operation, as "Data movement is all
// you need" (2020) splits a transformer's, and how far each class is from what the machine can do at most.
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
  double bytes = 0;  // read and written where nothing is cached
  // A node takes at least its flops at the rate of products of its operands' type, and its bytes at the
  // memory's. 0 where the machine's limits are not known.
  double floor_seconds = 0;
  double seconds = 0;  // measured; 0: not measured
};

struct OperationAnatomy {
  std::vector<ClassWork> classes;  // those that the step has, in the order of OpClass
  // Of the tensor contractions; what is computed again is in neither.
  ClassWork forward, backward;
  bool is_measured = false;  // some node took time
  bool has_floor = false;    // the machine's limits are known
};

// A node's part of a step.
struct NodeWork {
  OpClass op_class;
  Phase phase;
  DType operands;      // of a product; fp32 of other work, which is done in it
  double runs;         // in a step
  Cost cost;           // of one of them
  double seconds = 0;  // of one of them, measured
};

// As planned: every count at its maximum.
std::vector<NodeWork> planned_work(const Session& session);
// The mean of the recorded steps, with the counts that ran.
std::vector<NodeWork> measured_work(const StepProfile& profile);

// Without limits nothing is said of the floor.
OperationAnatomy operation_anatomy(const std::vector<NodeWork>& nodes,
                                   const std::optional<MachineLimits>& limits);

ClassWork total_of(const OperationAnatomy& anatomy);

// A table: share of flops, of bytes and of time, and time as a multiple of the floor.
std::string format_operation_anatomy(const OperationAnatomy& anatomy);
nlohmann::json to_json(const OperationAnatomy& anatomy);

}  // namespace shoehorn
