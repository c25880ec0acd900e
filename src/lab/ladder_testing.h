// A hand-made ladder result for the tests of its table and page.
#pragma once

#include "lab/ladder.h"

namespace shoehorn {

inline constexpr int64_t kOneMiB = 1 << 20;

inline StepRun run_measured(double step_seconds, int64_t memory_mib) {
  StepRun run;
  run.outcome = RunOutcome::kMeasured;
  run.step_seconds = step_seconds;
  run.first_step_seconds = step_seconds + 1;
  run.samples_per_second = static_cast<double>(kLadderEffectiveBatch) / step_seconds;
  run.memory = {50 * kOneMiB, 1300 * kOneMiB, memory_mib * kOneMiB};
  run.predicted_bytes = (memory_mib + 2) * kOneMiB;
  return run;
}

inline StepRun run_not_measured(RunOutcome outcome, const std::string& reason) {
  StepRun run;
  run.outcome = outcome;
  run.reason = reason;
  return run;
}

// batch_4 does not fit, accumulation is the reference, fp16 is not supported, exact is half as fast.
inline LadderResult ladder_by_hand(bool with_peer) {
  LadderResult result;
  result.options.rungs = choose_rungs({"batch_4", "accumulation", "fp16", "exact"});
  if (with_peer) result.options.python = "python";
  for (const LadderRung& rung : result.options.rungs) result.rungs.push_back({rung, {}, {}, {}});
  result.rungs[0].plan.outcome = RunOutcome::kDoesNotFit;
  result.rungs[0].plan.peak_bytes = 6000 * kOneMiB;
  result.rungs[0].ours = run_not_measured(RunOutcome::kDoesNotFit, "planned 6000 MiB, available 4000 MiB");
  result.rungs[1].ours = run_measured(20, 5000);
  result.rungs[2].ours = run_not_measured(RunOutcome::kNotInThisVersion,
                                          "[--fp16] known, but not in this version yet: use bf16");
  result.rungs[3].ours = run_measured(40, 2500);
  if (!with_peer) return result;
  result.rungs[0].theirs = run_not_measured(RunOutcome::kFailed, "ended by signal 9");
  result.rungs[1].theirs = run_measured(50, 10000);
  result.rungs[2].theirs = run_measured(55, 10000);
  result.rungs[2].theirs->ran = "fp32: fp16 is skipped on this device";
  result.rungs[3].theirs = run_measured(80, 5000);
  return result;
}

}  // namespace shoehorn
