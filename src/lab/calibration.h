// Measures what operations cost on this machine, for predicted times: steps of small models of one or two layers, whose
// nodes have the widths, lengths, element types, optimizers and passes of real ones, are run and timed node by node.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analysis/op_costs.h"
#include "arguments/training_arguments.h"
#include "exec/backend/backend.h"
#include "model/model.h"

namespace shoehorn {

// A training step that is timed.
struct CalibrationStep {
  std::string name = {};  // "encoder 768, 4 x 512, bfloat16"
  std::shared_ptr<const Model> model = {};
  TrainingArguments arguments = {};  // batch, length, precision, …
};

// What is timed, what matters most first, since time may end. `is_quick`: a few small steps, for tests.
std::vector<CalibrationStep> calibration_steps(bool is_quick);

struct TimedStep {
  std::vector<OpSample> nodes;  // the medians of its nodes over the recorded steps, where they ran
  double step_seconds = 0;      // the median
};

// Runs one step to warm up and `steps` that are recorded, on random tokens. UserError where it does not fit the memory; Stopped
// (base/stop_request.h).
TimedStep time_step(const CalibrationStep& step, int64_t steps,
                    const std::shared_ptr<const Backend>& backend);

struct CalibrationOptions {
  bool is_quick = false;
  double most_seconds =
      50;  // behind the first no step is begun after these; the machine's rates are measured before
  std::function<void(const std::string& line)> on_line = {};
};

// Times all steps, and as long as time lasts all of them again and again: of the times of a node the least counts. Steps that do not fit
// this machine's memory are left out with a line each, those that come too late with one for all; UserError if none is left. The clock is
// the machine's usual one.
OpCosts calibrate(const CalibrationOptions& options, const std::shared_ptr<const Backend>& backend);

// Seconds of a step's nodes.
struct StepSums {
  double products = 0;
  double memory = 0;  // all others
  double all() const { return products + memory; }
  void add(const OpWork& work, double seconds) {
    (work.op_class == OpClass::kContraction ? products : memory) += seconds;
  }
};

// A step that was timed several times, and what it takes if each node takes its least time.
struct RepeatedStep {
  std::vector<StepSums> timed = {};  // two at least
  StepSums least = {};
};

// By how much longer than their least times steps take on the mean, and how much they spread. Of three times over all of them or more the
// one that took the most does not count, of eight or more a quarter of them. A clock of 1 of none, and of steps that spread so much that
// something else ran beside them: the least times are nearer to the usual ones then.
MachineClock usual_clock(const std::vector<RepeatedStep>& steps);

// Times one small step and compares it with what `costs` predict, to see whether the machine has another clock now than usually. What
// differs by no more than such steps do from one second to the next is the usual clock; else the step is timed twice more, and the median
// counts. At most a second on an idle machine. Where that does not fit the memory the clock is the usual one, with an error of 10 %.
MachineClock anchored_clock(const OpCosts& costs, const std::shared_ptr<const Backend>& backend);

}  // namespace shoehorn
