// How long the steps of a plan take: on this machine if it is calibrated, on another one at least, by its profile.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "analysis/step_time.h"
#include "cli/planned_machine.h"
#include "lab/calibration_file.h"

namespace shoehorn {

class StepTimer {
 public:
  // `lengths` are those of the samples, if they are known; `link` that between ranks. The calibration is read when it is first
  // asked for, since a plan counts what the process holds by then. `machine` must outlive the timer.
  StepTimer(const PlannedMachine& machine, std::optional<SampleLengths> lengths,
            std::optional<RankLink> link);

  // Of --auto_find_batch_size, which finds how many samples a micro-batch has while it plans.
  void set_micro_batch(int64_t samples);

  bool has_times() const;
  // Where has_times().
  StepTime time_of(const Session& session) const;
  // "A step takes …", or why nobody knows.
  std::string text_of(const Session& session) const;
  // The seconds with the messages of ranks (TrainerOptions::step_seconds); nothing where the machine or the link is not known.
  std::optional<double> seconds_on_ranks(const Session& session) const;

 private:
  const LoadedCalibration& calibration() const;

  const PlannedMachine& machine_;
  std::optional<SampleLengths> lengths_;
  std::optional<RankLink> link_;
  mutable std::optional<LoadedCalibration> calibration_;
};

// Of ranks that run, for what nobody gave (TrainerOptions::step_seconds): predicts steps of `samples` on this machine and over their
// link. Empty where nothing is open, or the link is not known.
std::function<std::optional<double>(const Session& session)> rank_step_seconds(const TrainingArguments& args,
                                                                               const Dataset& samples);

}  // namespace shoehorn
