#include "cli/step_timer.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "cli/calibrated_costs.h"
#include "cli/link_option.h"
#include "exec/backends.h"

namespace shoehorn {

StepTimer::StepTimer(const PlannedMachine& machine, std::optional<SampleLengths> lengths,
                     std::optional<RankLink> link)
    : machine_(machine), lengths_(lengths), link_(std::move(link)) {}

void StepTimer::set_micro_batch(int64_t samples) {
  if (lengths_) lengths_->samples = samples;
}

const LoadedCalibration& StepTimer::calibration() const {
  if (!calibration_) {
    calibration_ =
        machine_.backend->can_run() ? calibrated_costs(machine_.backend, false) : LoadedCalibration{};
  }
  return *calibration_;
}

bool StepTimer::has_times() const {
  return !machine_.backend->can_run() || calibration().costs;
}

StepTime StepTimer::time_of(const Session& session) const {
  const RankLink* link = link_ ? &*link_ : nullptr;
  if (machine_.device) return rated_step_time(session, *machine_.device, lengths_, link);
  if (!machine_.backend->can_run())
    return least_step_time(session, machine_.backend->measure_limits(), lengths_, link);
  return calibrated_step_time(session, *calibration().costs, lengths_, link);
}

std::string StepTimer::text_of(const Session& session) const {
  if (!has_times()) return calibration().notice;
  return fmt::format("A step takes {}{}\n{}", format_step_time(time_of(session)),
                     machine_.backend->can_run() ? "" : "; not validated", calibration().notice);
}

std::optional<double> StepTimer::seconds_on_ranks(const Session& session) const {
  if (!link_ || !has_times()) return std::nullopt;
  return time_of(session).seconds;
}

std::function<std::optional<double>(const Session& session)> rank_step_seconds(const TrainingArguments& args,
                                                                               const Dataset& samples) {
  const std::optional<RankLink> link = has_open_gathering(args) ? link_of_run(args) : std::nullopt;
  if (!link) return {};
  std::optional<SampleLengths> lengths;
  if (!args.pad_to_max_length && samples.size() > 0)
    lengths = sample_lengths(samples, args.per_device_train_batch_size);
  const auto machine = std::make_shared<const PlannedMachine>(make_backend());
  return [machine, timer = std::make_shared<const StepTimer>(*machine, lengths, link)](
             const Session& session) { return timer->seconds_on_ranks(session); };
}

}  // namespace shoehorn
