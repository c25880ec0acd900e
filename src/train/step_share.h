// How much of a running optimizer step is done, by the arithmetic of its nodes: for the progress of steps that take long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/ids.h"
#include "passes/program_family.h"

namespace shoehorn {

class StepShare {
 public:
  // The family must outlive the object.
  explicit StepShare(const ProgramFamily& family);

  // With so many micro-batches of this rank.
  void begin_step(int64_t micro_batches);

  // Node `node` of a program is about to begin. Returns the share of the step before it, 0 to 1; nullopt for a program
  // that is no part of a step (an evaluation).
  std::optional<double> before(ProgramId program, size_t node);

 private:
  struct Work {
    bool is_of_step = false;
    std::vector<double> before;  // flops of the nodes before each node, and of all
  };

  const ProgramFamily& family_;
  std::vector<Work> programs_;
  double of_step_ = 0;   // flops
  double finished_ = 0;  // by programs that ran before the present one
  std::optional<size_t> running_;
};

}  // namespace shoehorn
