// The walk over the ladder's rungs, and what it found as a table and as JSON.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lab/ladder_rungs.h"
#include "lab/measured_step.h"
#include "lab/process_progress.h"
#include "lab/text_table.h"
#include "models/registry.h"
#include "plan/machine_profile.h"

namespace shoehorn {

struct LadderOptions {
  std::string model = std::string(kLadderShape);
  int64_t sequence_length = 512;
  int64_t steps = 3;    // of a process; the first is not in its median
  int64_t repeats = 1;  // processes a rung and side
  std::optional<int64_t> memory_budget_bytes = {};
  std::vector<LadderRung> rungs;
  // The Hugging Face Trainer's side; both empty: it is not run.
  std::filesystem::path python = {};
  std::filesystem::path peer_script = {};

  bool has_peer() const { return !python.empty(); }
  // Names of rungs that are not among `rungs`.
  std::vector<std::string> left_out() const;
};

struct RungResult {
  LadderRung rung;
  StepPlan plan;
  StepRun ours;
  std::optional<StepRun> theirs = {};

  // The measured run's forecast, or the plan's; 0 where there is none.
  int64_t predicted_bytes() const;
};

struct LadderResult {
  LadderOptions options;
  MachineProfile machine;
  std::vector<RungResult> rungs;
};

// Every flag of a rung's step but --json: what a user types after `shoehorn bench step`.
std::vector<std::string> step_flags(const LadderOptions& options, const LadderRung& rung);
// The same for bench/peers/train_step.py.
std::vector<std::string> peer_step_flags(const LadderOptions& options, const LadderRung& rung);

// Plans every rung, then measures those that fit, ours and theirs in turns. `on_run` is told before the first
// of these processes and after each: how many of how many have ended, and what became of the last one.
// `on_rung` is given the rungs so far after each of them, for who may not see the end of it.
LadderResult walk_ladder(const LadderOptions& options, const RunProgress& on_run,
                         const std::function<void(const LadderResult&)>& on_rung = {});

// The parts of the table, for whichever way it is shown. Columns are as the guides print them: setting,
// samples a second, memory in MiB; besides it the forecast, time and memory relative to the first rung that
// was measured, the time to the end of the first step, the Trainer's columns and the ratio where it ran.
TextTable ladder_table(const LadderResult& result);

// Memory of each rung as the guides stage it: the process, with the weights, at the peak of training.
TextTable ladder_stages(const LadderResult& result);

// The flags of each rung.
TextTable ladder_flags(const LadderResult& result);

// What was run, on which machine.
std::string ladder_title(const LadderResult& result);

// What the columns mean, what multiplied fp16 and bf16, the rungs that were not asked for.
std::vector<std::string> ladder_remarks(const LadderResult& result);

// Why a rung was not measured, and what the Trainer ran where that is not the rung.
struct LadderNote {
  std::string setting;
  std::string who;  // "shoehorn", "huggingface"
  std::string text;
};
std::vector<LadderNote> ladder_notes(const LadderResult& result);

// All of that as text, and the flags of each rung.
std::string format_ladder(const LadderResult& result);
nlohmann::ordered_json to_json(const LadderResult& result);

// The first rung that was measured; null if none was.
const RungResult* reference_rung(const LadderResult& result);

// 0: each rung was measured, or shown as what cannot run here. 1: one broke down. 2: none could run.
int exit_code_of(const LadderResult& result);

}  // namespace shoehorn
