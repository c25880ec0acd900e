// `bench parallel`: one training by one process and by ranks that share its steps in several ways, over this host's memory and over
// slower links. With dp and ddp the guides' comparison of two devices with and without NVLink.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/message_time.h"
#include "lab/measured_step.h"
#include "lab/process_progress.h"
#include "lab/spread.h"
#include "plan/machine_profile.h"

namespace shoehorn {

// Ways in which ranks share a step: --parallel_mode dp and ddp, and --zero_stage 1 to 3.
inline constexpr std::array<std::string_view, 5> kParallelModes = {"dp", "ddp", "zero_1", "zero_2", "zero_3"};

struct ParallelOptions {
  std::vector<std::string> flags;  // of `shoehorn train`, of a rank of every setting
  std::vector<std::string> modes = {kParallelModes.begin(), kParallelModes.end()};
  int64_t ranks = 2;
  int64_t threads = 1;                   // of a rank; one process has those of all
  int64_t accumulation = 1;              // gradient_accumulation_steps of a rank
  int64_t repeats = 3;                   // runs of a setting
  std::vector<RankLink> links = {};      // slower ones, besides the host's own
  std::filesystem::path directory = {};  // for the runs' files; removed afterwards
};

// A way to share a step, over a link.
struct ParallelSetting {
  std::string mode;                   // "one process", or of kParallelModes
  std::optional<RankLink> link = {};  // slower than this host's memory
};

struct ParallelRun {
  RunOutcome outcome = RunOutcome::kFailed;
  std::string reason;
  double samples_per_second = 0;
  double train_seconds = 0;
  double train_loss = 0;
  int64_t sent_bytes = 0;     // by the first rank in a step
  int64_t process_bytes = 0;  // the first rank's peak
  // Of the steps after the first; none where there is no other.
  std::optional<double> step_seconds = {};
  // Of the slowest rank's messages beside its computation (train/rank_waits.h); none where there are none.
  std::optional<double> done_share = {}, early_share = {}, hidden_share = {};

  bool is_measured() const { return outcome == RunOutcome::kMeasured; }
};

// As `shoehorn plan` says it.
struct PredictedStep {
  double seconds = 0;
  // Of all messages' seconds what the computation hides; none of one process.
  std::optional<double> hidden_share = {};
};

struct ParallelResult {
  ParallelSetting setting;
  std::vector<ParallelRun> runs = {};
  // None where operations are not calibrated for the threads of a rank, or the link is not known.
  std::optional<PredictedStep> predicted = {};

  const ParallelRun* unmeasured() const;
  // Whether there are runs, and all were measured.
  bool is_measured() const { return !runs.empty() && unmeasured() == nullptr; }
  // Over the runs, all of which must be measured.
  Spread of(double ParallelRun::* figure) const;
  // The median over the runs that have the figure.
  std::optional<double> of(std::optional<double> ParallelRun::* figure) const;
};

struct ParallelResults {
  ParallelOptions options;
  MachineProfile machine;
  std::vector<ParallelResult> settings = {};
};

// Which mode cannot run with these options, and why: "dp is left out: …"; "" where all can.
std::string left_out_text(const ParallelOptions& options);
// One process, then every other mode that can run, over the host's memory and over each link.
std::vector<ParallelSetting> parallel_settings(const ParallelOptions& options);
// `launch` and its flags for ranks of this host, over a link that is slower than its memory, if one is given.
std::vector<std::string> launch_words(int64_t ranks, const std::optional<RankLink>& link);
// What a user types: after `shoehorn`, without --output_dir.
std::vector<std::string> command_words(const ParallelOptions& options, const ParallelSetting& setting);
// The same of `shoehorn plan`, which predicts the step.
std::vector<std::string> plan_words(const ParallelOptions& options, const ParallelSetting& setting);

// Plans every setting; then runs each once, and all again, every second time backwards. Calls `on_result` after each run.
ParallelResults walk_parallel(const ParallelOptions& options, const RunProgress& on_run,
                              const std::function<void(const ParallelResults&)>& on_result = {});

// A line a setting: "2: ddp", the link, samples a second (also ÷ those of the one process and ÷ those of ddp over this host's
// memory), the step and its prediction, what is sent and which share of it is hidden, memory.
std::string format_parallel(const ParallelResults& results);
// {"machine", "ranks", "threads", "gradient_accumulation_steps", "left_out": text or "", "settings": [{"mode", "link", "command",
// "predicted_step_seconds", "predicted_hidden_share", "runs", "samples_per_second": {"median", "low", "high"}, "times_one_process", …}]}
nlohmann::ordered_json to_json(const ParallelResults& results);

// 0: each setting was measured. 1: one was not.
int exit_code_of(const ParallelResults& results);

}  // namespace shoehorn
