// `bench ladder`: measures the rungs of the ladder.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/ladder_rungs.h"
#include "lab/measured_step.h"
#include "lab/process_progress.h"
#include "lab/rounds.h"
#include "lab/text_table.h"
#include "models/registry.h"
#include "plan/machine_profile.h"

namespace shoehorn {

struct LadderOptions {
  std::string model = std::string(kLadderShape);
  int64_t sequence_length = 512;
  int64_t steps = 3;                        // per process; the first is not in the median
  RoundLimits rounds = {};                  // how often a rung and side is measured
  std::optional<int64_t> num_threads = {};  // of both sides
  std::optional<int64_t> memory_budget_bytes = {};
  std::vector<LadderRung> rungs;
  // For the Hugging Face Trainer's side; it is not run if both are empty.
  std::filesystem::path python = {};
  std::filesystem::path peer_script = {};

  bool has_peer() const { return !python.empty(); }
  // Names of rungs that are not in `rungs`.
  std::vector<std::string> left_out() const;
};

struct RungResult {
  LadderRung rung;
  StepPlan plan;
  StepRun ours;
  std::optional<StepRun> theirs = {};
  // The setting of an earlier rung that is the same program, whose measurement this is; empty if it has its own.
  std::string same_as = {};

  // The forecast of the measured run, or else of the plan; 0 if there is neither.
  int64_t predicted_bytes() const;
};

struct LadderResult {
  LadderOptions options;
  MachineProfile machine;
  std::vector<RungResult> rungs;
};

// All flags of a rung's step except --json: what a user types after `shoehorn bench step`.
std::vector<std::string> step_flags(const LadderOptions& options, const LadderRung& rung);
// The same for bench/peers/train_step.py.
std::vector<std::string> peer_step_flags(const LadderOptions& options, const LadderRung& rung);

// Sets same_as of each rung whose plan has the program of an earlier one.
void name_same_programs(LadderResult& result);

// The most processes that one of our rungs was measured with.
int64_t processes_of(const LadderResult& result);

// Plans every rung, then measures those that fit, ours and theirs, all in turns (lab/rounds.h). Of rungs whose plans are
// one program the first is measured for all. Calls `on_run` before the first of these processes and after each, with the
// number done, the number in all and the last one's outcome. Calls `on_rung` after each process with the rungs that have
// results so far, in case the command does not reach its end.
LadderResult walk_ladder(const LadderOptions& options, const RunProgress& on_run,
                         const std::function<void(const LadderResult&)>& on_rung = {});

// The first rung that was measured; null if none was.
const RungResult* reference_rung(const LadderResult& result);

// 0: each rung was measured, or cannot run here. 1: one failed. 2: none could run.
int exit_code_of(const LadderResult& result);

}  // namespace shoehorn
