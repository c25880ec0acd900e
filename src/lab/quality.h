// `bench quality`: trains one task to its end with each technique. Shows time, memory and accuracy side by
// side, and which settings lose more accuracy than another seed does.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/measured_training.h"
#include "lab/process_progress.h"
#include "lab/quality_rungs.h"
#include "lab/spread.h"
#include "plan/machine_profile.h"

namespace shoehorn {

struct QualityOptions {
  std::string title;               // of the task
  std::vector<std::string> flags;  // of `shoehorn train`, common to all rungs
  QualityBase base;
  int64_t first_seed = 42;
  int64_t seeds = 3;       // runs of the reference: first_seed, first_seed + 1, …
  int64_t rung_seeds = 3;  // runs of every other rung, with the first of these seeds
  std::vector<QualityRung> rungs;
  std::filesystem::path directory;  // for the runs' files; removed afterwards
};

struct QualityResult {
  QualityRung rung;
  std::vector<TrainingRun> runs;  // in the order of the seeds

  // True if every run was measured; otherwise unmeasured() is the first that was not.
  bool is_measured() const { return unmeasured() == nullptr; }
  const TrainingRun* unmeasured() const;

  // Statistics over the runs. All must be measured.
  Spread of(double TrainingRun::* figure) const;
  double median_bytes(int64_t TrainingRun::* figure) const;
};

struct QualityResults {
  QualityOptions options;
  MachineProfile machine;
  std::vector<QualityResult> rungs = {};  // the reference first

  const QualityResult& reference() const { return rungs[0]; }
  const QualityResult& named(const std::string& name) const;
};

// How closely a rung's losses match those of the rung that it is promised to equal, seed by seed.
struct Agreement {
  bool is_every_bit = false;  // losses of all steps, evaluation loss and accuracy are equal
  double first_steps = 0;     // largest relative difference in the losses of the first kFirstSteps steps
  bool is_kept = false;       // is_every_bit; if rounding is promised, first_steps < kRoundingOfLosses
};
inline constexpr size_t kFirstSteps = 3;
inline constexpr double kRoundingOfLosses = 1e-4;

// nullopt if nothing is promised, or if one of the two rungs was not measured.
std::optional<Agreement> agreement_of(const QualityResults& results, const QualityResult& rung);

// True if a rung's evaluation accuracy is significantly lower than the reference's (see loses()). Both must
// be measured. False if there are too few runs for a spread.
bool loses_accuracy(const QualityResults& results, const QualityResult& rung);

// "" if as good as the reference; else "loses accuracy", "breaks its promise", "does not fit", …
std::string verdict_of(const QualityResults& results, const QualityResult& rung);

// All flags of a rung's run except --output_dir: what a user types after `shoehorn train`.
std::vector<std::string> train_flags(const QualityOptions& options, const QualityRung& rung, int64_t seed);

// Trains every rung with the first seed, then every rung with the next, and so on. Calls on_result after each
// run with the rungs that have runs so far.
QualityResults walk_quality(const QualityOptions& options, const RunProgress& on_run,
                            const std::function<void(const QualityResults&)>& on_result = {});

// 0: each rung was measured (even if it loses), or cannot run here. 1: one failed or broke its promise. 2:
// the reference could not run.
int exit_code_of(const QualityResults& results);

}  // namespace shoehorn
