#include "data/window_schedule.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace shoehorn {
namespace {

// The place of each window of a ramp is kept: 8 MiB of them.
constexpr size_t kMaxRampSteps = size_t{1} << 20;

int64_t divide_rounding_up(int64_t a, int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

}  // namespace

WindowSchedule::WindowSchedule(WindowScheduleOptions options) : options_(std::move(options)) {
  const int64_t batch = options_.micro_batch_size;
  if (options_.samples < 1)
    throw user_error("[train_dataset] expected at least one sample, got {}", options_.samples);
  if (batch < 1) throw user_error("[per_device_train_batch_size] expected at least 1, got {}", batch);
  if (options_.gradient_accumulation_steps < 1)
    throw user_error("[gradient_accumulation_steps] expected at least 1, got {}",
                     options_.gradient_accumulation_steps);
  micro_batches_ =
      options_.drop_last ? options_.samples / batch : divide_rounding_up(options_.samples, batch);
  if (micro_batches_ == 0) {
    throw user_error(
        "[dataloader_drop_last] expected at least one whole batch of {}, got {} samples; lower "
        "per_device_train_batch_size or leave dataloader_drop_last off",
        batch, options_.samples);
  }
  samples_per_epoch_ = options_.drop_last ? micro_batches_ * batch : options_.samples;
  if (options_.ramp.empty()) return;
  const std::vector<RampStage>& ramp = options_.ramp;
  CHECK(ramp.front().samples == 0 && ramp.back().micro_batches == options_.gradient_accumulation_steps,
        "a ramp begins at {} samples and ends at {} micro-batches", ramp.front().samples,
        ramp.back().micro_batches);
  for (int64_t epoch = 0; epoch * samples_per_epoch_ < ramp.back().samples; ++epoch) {
    for (int64_t first = 0; first < micro_batches_;) {
      if (ramp_firsts_.size() == kMaxRampSteps) {
        throw user_error(
            "[batch_size_ramp] expected the last batch within {} optimizer steps, got it from {} samples on, of "
            "{} an epoch",
            kMaxRampSteps, ramp.back().samples, samples_per_epoch_);
      }
      ramp_firsts_.push_back(first);
      first += window_size(epoch * samples_per_epoch_ + samples_up_to(first));
    }
    epoch_begins_.push_back(static_cast<int64_t>(ramp_firsts_.size()));
  }
}

// Of an epoch's first micro-batches.
int64_t WindowSchedule::samples_up_to(int64_t micro_batch) const {
  return std::min(micro_batch * options_.micro_batch_size, samples_per_epoch_);
}

// Micro-batches of the window that begins after so many samples, were there no end of the epoch.
int64_t WindowSchedule::window_size(int64_t consumed_samples) const {
  const auto after = std::find_if(options_.ramp.rbegin(), options_.ramp.rend(),
                                  [&](const RampStage& stage) { return stage.samples <= consumed_samples; });
  return after->micro_batches;
}

// First micro-batches of the epoch's windows; empty for an epoch behind the ramp.
std::span<const int64_t> WindowSchedule::ramp_epoch(int64_t epoch) const {
  CHECK(epoch >= 0, "epoch {}", epoch);
  if (epoch >= ramp_epochs()) return {};
  const auto begin = static_cast<size_t>(epoch_begins_[static_cast<size_t>(epoch)]);
  const auto end = static_cast<size_t>(epoch_begins_[static_cast<size_t>(epoch) + 1]);
  return std::span(ramp_firsts_).subspan(begin, end - begin);
}

int64_t WindowSchedule::steps_in(int64_t epoch) const {
  const std::span<const int64_t> firsts = ramp_epoch(epoch);
  if (!firsts.empty()) return static_cast<int64_t>(firsts.size());
  return divide_rounding_up(micro_batches_, options_.gradient_accumulation_steps);
}

WindowPlace WindowSchedule::place(int64_t epoch, int64_t update_step) const {
  if (update_step < 0 || update_step >= steps_in(epoch)) return {};
  const std::span<const int64_t> firsts = ramp_epoch(epoch);
  if (firsts.empty()) {
    const int64_t size = options_.gradient_accumulation_steps;
    return {update_step * size, std::min(size, micro_batches_ - update_step * size)};
  }
  const auto at = static_cast<size_t>(update_step);
  const int64_t end = at + 1 < firsts.size() ? firsts[at + 1] : micro_batches_;
  return {firsts[at], end - firsts[at]};
}

int64_t WindowSchedule::samples_before(int64_t global_step) const {
  const ResumePoint point = resume_point(global_step);
  return point.epoch * samples_per_epoch_ + samples_up_to(place(point.epoch, point.update_step).first);
}

ResumePoint WindowSchedule::resume_point(int64_t global_step) const {
  CHECK(global_step >= 0, "global step {}", global_step);
  const std::vector<int64_t>& begins = epoch_begins_;
  if (global_step < begins.back()) {
    const auto next = std::upper_bound(begins.begin(), begins.end(), global_step);
    return {next - begins.begin() - 1, global_step - *(next - 1)};
  }
  const int64_t behind = global_step - begins.back();
  const int64_t steps = steps_in(ramp_epochs());
  return {ramp_epochs() + behind / steps, behind % steps};
}

}  // namespace shoehorn
