#include "train/load_notice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/step_profile.h"
#include "base/median.h"
#include "base/plural.h"

namespace shoehorn {

namespace {

constexpr size_t kStepsCompared = 8;
constexpr double kSlowerBy = 2;

}  // namespace

int64_t others_in(const MachineLoad& load) {
  const auto average = static_cast<int64_t>(std::llround(load.average));
  return std::max<int64_t>(0, std::min(average, load.running - 1));  // one is this thread
}

LoadNotice::LoadNotice(LoadNoticeOptions options) : options_(std::move(options)) {
  if (!options_.load) options_.load = [] { return machine_load(); };
  if (!options_.clock_seconds) options_.clock_seconds = now_seconds;
  recent_seconds_.reserve(kStepsCompared);
}

int64_t LoadNotice::others_running() const {
  constexpr int kLooks = 3;
  int64_t others = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kLooks && others > 0; ++i) {
    const std::optional<MachineLoad> load = options_.load();
    others = std::min(others, load ? others_in(*load) : 0);
  }
  // The other ranks' threads may run or wait just now: they are none of other programs in either case.
  return std::max<int64_t>(0, others - (own_threads() - options_.threads));
}

bool LoadNotice::is_overloaded(int64_t others) const {
  return others > 0 && others + own_threads() > options_.processors;
}

void LoadNotice::say(const std::string& what, int64_t others) {
  is_said_ = true;
  const int64_t left = std::max<int64_t>(1, (options_.processors - others) / options_.local_ranks);
  const std::string fewer = left < options_.threads ? fmt::format(", or give --num_threads {}", left) : "";
  if (options_.on_line) {
    options_.on_line(fmt::format(
        "{}: {} of other programs and {} of this run want {}; wait until the others have ended{}", what,
        plural(others, "thread"), own_threads(), plural(options_.processors, "processor"), fewer));
  }
}

void LoadNotice::on_train_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) {
  const int64_t others = others_running();
  if (is_overloaded(others)) say("the machine is busy, and steps take longer", others);
}

void LoadNotice::on_step_begin(const TrainingArguments&, const TrainerState&, TrainerControl&) {
  step_began_ = options_.clock_seconds();
}

void LoadNotice::on_step_end(const TrainingArguments&, const TrainerState& state, TrainerControl&) {
  if (is_said_ || !options_.steps_are_alike) return;
  const double seconds = options_.clock_seconds() - step_began_;
  if (!is_first_step_done_) {  // it meets cold caches
    is_first_step_done_ = true;
    return;
  }
  recent_seconds_.push_back(seconds);
  if (recent_seconds_.size() < kStepsCompared) return;
  const double now = median(recent_seconds_);
  recent_seconds_.clear();
  if (usual_seconds_ == 0) {
    usual_seconds_ = now;
    return;
  }
  if (now <= kSlowerBy * usual_seconds_) return;
  const int64_t others = others_running();
  if (is_overloaded(others)) {
    say(fmt::format("steps take {:.3g} s since step {}, and took {:.3g} s at first", now,
                    state.global_step - static_cast<int64_t>(kStepsCompared) + 1, usual_seconds_),
        others);
  }
}

}  // namespace shoehorn
