// Chooses what to recompute so that a step stays within a budget of bytes and takes little more time.
//
//   1. Options. Of each distinct layer, every set of the values that its backward reads (norms, attention, products; cheap
//      values are made again in any case) has its bytes and the seconds of what runs again, back to what is kept. Those that
//      another one beats in both are dropped. Values that other layers start from are kept.
//   2. Layers. Dynamic programming takes one option for each layer: the least seconds that free what is above the budget at the
//      peak. Of layers that are alike the lower ones recompute more, whose values wait longer.
//   3. Trial. The step is made with this set, and its live bytes are looked at, at every position: gradients, states and
//      workspaces included. Where they are above the budget, more is freed (2.). Whole groups of layers are tried too.
//   4. What is not needed is kept: values whose bytes fit beside the others, by the seconds that a byte saves, most first; of
//      alike ones in several layers from the highest down, to the first that does not fit.
//   5. Values of single layers are exchanged for others of the same layer where that is faster, and 4. follows again.
//
// This is no exact optimum: the step of a larger budget may take a little longer than that of a smaller one, up to a percent in
// models of a few layers.
//
// After Jain et al., "Checkmate" (2020), whose exact solutions take an integer program, and the activation memory budget of
// PyTorch's partitioner. Deterministic; the same on every machine with the same workspaces.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "session/step_trial.h"

namespace shoehorn {

struct RecomputeChoice {
  std::set<std::string> names;  // a recompute set
  int64_t live_bytes = 0;       // the largest sum of live bytes
  int64_t budget_bytes = 0;     // that it was held to
  double seconds = 0;           // of the step, by the costs of the trial
};

// The budget's bytes of the transient arena for the trial's step.
int64_t bytes_of_budget(StepTrial& trial, const ActivationBudget& budget);

// The chosen step is packed within the budget, and no value of the set could be kept as well: with it a short search finds no
// packing, or found none with the same value of a higher layer. UserError that names the least bytes where no set is small
// enough.
RecomputeChoice choose_recompute_set(StepTrial& trial, const ActivationBudget& budget);

}  // namespace shoehorn
