// `bench parallel`: one training by one process, by ranks that each update (ddp) and by DataParallel (dp), over this host's memory and
// over slower links. The guides' comparison of two devices with and without NVLink.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/message_time.h"
#include "lab/measured_step.h"
#include "lab/process_progress.h"
#include "lab/spread.h"
#include "plan/machine_profile.h"

namespace shoehorn {

struct ParallelOptions {
  std::vector<std::string> flags;  // of `shoehorn train`, of a rank of every setting
  int64_t ranks = 2;
  int64_t threads = 1;               // of a rank; one process has those of all
  int64_t accumulation = 1;          // gradient_accumulation_steps of a rank
  int64_t repeats = 3;               // runs of a setting
  std::vector<RankLink> links = {};  // slower ones, besides the host's own
  std::filesystem::path directory;   // for the runs' files; removed afterwards
};

// A way to share a step, over a link.
struct ParallelSetting {
  std::string mode;                   // "one process", "ddp", "dp"
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

  bool is_measured() const { return outcome == RunOutcome::kMeasured; }
};

struct ParallelResult {
  ParallelSetting setting;
  std::vector<ParallelRun> runs = {};

  const ParallelRun* unmeasured() const;
  // Whether there are runs, and all were measured.
  bool is_measured() const { return !runs.empty() && unmeasured() == nullptr; }
  // Over the runs, all of which must be measured.
  Spread of(double ParallelRun::* figure) const;
};

struct ParallelResults {
  ParallelOptions options;
  MachineProfile machine;
  std::vector<ParallelResult> settings = {};
};

// One process, then dp and ddp, over the host's memory and over each link.
std::vector<ParallelSetting> parallel_settings(const ParallelOptions& options);
// What a user types: after `shoehorn`, without --output_dir.
std::vector<std::string> command_words(const ParallelOptions& options, const ParallelSetting& setting);

// Runs every setting once, then all again, every second time backwards. Calls `on_result` after each run.
ParallelResults walk_parallel(const ParallelOptions& options, const RunProgress& on_run,
                              const std::function<void(const ParallelResults&)>& on_result = {});

// A line a setting: "2: ddp", the link, samples a second (and ÷ those of ddp over this host's memory), what is sent, memory.
std::string format_parallel(const ParallelResults& results);
// {"machine", "ranks", "flags", "settings": [{"mode", "link", "command", "samples_per_second": {"median", "low", "high"}, …}]}
nlohmann::ordered_json to_json(const ParallelResults& results);

// 0: each setting was measured. 1: one was not.
int exit_code_of(const ParallelResults& results);

}  // namespace shoehorn
