// One task trained to its end under each technique: time, memory and accuracy side by side, and which
// settings lose accuracy by more than other seeds do.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
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
  std::vector<std::string> flags;  // of `shoehorn train`, which all rungs share
  QualityBase base;
  int64_t first_seed = 42;
  int64_t seeds = 3;       // runs of the reference, with first_seed, first_seed + 1, …
  int64_t rung_seeds = 3;  // runs of each other rung, with the first ones of these
  std::vector<QualityRung> rungs;
  std::filesystem::path directory;  // for what runs write, which is removed
};

struct QualityResult {
  QualityRung rung;
  std::vector<TrainingRun> runs;  // in the order of the seeds

  // Every run was; else reason() says what became of the first that was not.
  bool is_measured() const { return unmeasured() == nullptr; }
  const TrainingRun* unmeasured() const;

  // Of the runs, which are measured.
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

// How near a rung's losses are to those of the rung that it is promised to equal, seed by seed.
struct Agreement {
  bool is_every_bit = false;  // losses of all steps, evaluation loss and accuracy
  double first_steps = 0;     // the largest relative difference of the losses of the first kFirstSteps steps
  bool is_kept = false;  // every bit; or for a promise up to rounding, first_steps below kRoundingOfLosses
};
inline constexpr size_t kFirstSteps = 3;
inline constexpr double kRoundingOfLosses = 1e-4;

// Nothing where nothing is promised, or one of the two was not measured.
std::optional<Agreement> agreement_of(const QualityResults& results, const QualityResult& rung);

// Whether a rung's evaluation accuracy loses() against the reference's. Both are measured; with too few runs
// for a spread none does.
bool loses_accuracy(const QualityResults& results, const QualityResult& rung);

// "" for as good as the reference, else "loses accuracy", "breaks its promise", "does not fit", …
std::string verdict_of(const QualityResults& results, const QualityResult& rung);

// Every flag of a rung's run but --output_dir: what a user types after `shoehorn train`.
std::vector<std::string> train_flags(const QualityOptions& options, const QualityRung& rung, int64_t seed);

// Trains every rung with the first seed, then every rung with the next. on_result is called after each run
// with the rungs that have runs so far.
QualityResults walk_quality(const QualityOptions& options, const RunProgress& on_run,
                            const std::function<void(const QualityResults&)>& on_result = {});

// The parts of the table, for whichever way it is shown.
TextTable quality_table(const QualityResults& results);
TextTable quality_flags(const QualityResults& results);
std::string quality_title(const QualityResults& results);
// The rule of "loses accuracy", the reference's spread, what rungs are promised to equal, why some were not
// measured.
std::vector<std::string> quality_remarks(const QualityResults& results);

std::string format_quality(const QualityResults& results);
nlohmann::ordered_json to_json(const QualityResults& results);

// One file: accuracy against memory and against time as plots, the table, the flags.
std::string quality_page(const QualityResults& results);

// 0: each rung was measured, or shown as what cannot run here, whether it loses or not. 1: one broke down or
// broke its promise. 2: the reference could not run.
int exit_code_of(const QualityResults& results);

}  // namespace shoehorn
