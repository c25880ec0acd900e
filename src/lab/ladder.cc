#include "lab/ladder.h"

#include <algorithm>
#include <utility>

#include "arguments/flag_words.h"
#include "base/error.h"
#include "exec/backends.h"

namespace shoehorn {

namespace {

std::vector<std::string> run_flags(const LadderOptions& options, const char* steps_flag) {
  return {"--model",           options.model,
          "--sequence_length", std::to_string(options.sequence_length),
          steps_flag,          std::to_string(options.steps)};
}

bool fits(const RungResult& rung) {
  return rung.plan.outcome == RunOutcome::kMeasured;
}

class Walk {
 public:
  using OnRung = std::function<void(const LadderResult&)>;

  Walk(const LadderOptions& options, const RunProgress& on_run, const OnRung& on_rung)
      : options_(options), on_run_(on_run), on_rung_(on_rung), program_(own_program()) {
    result_.options = options;
    result_.machine = this_machine();
  }

  LadderResult run() {
    for (const LadderRung& rung : options_.rungs) {
      RungResult planned;
      planned.rung = rung;
      planned.plan = plan_step(program_, step_flags(options_, rung));
      result_.rungs.push_back(std::move(planned));
    }
    name_same_programs(result_);
    for (size_t i = 0; i < result_.rungs.size(); ++i) add_settings(i);
    measure_in_rounds(settings_, options_.rounds, on_run_, [this] {
      if (!on_rung_) return;
      LadderResult so_far = with_runs();
      std::erase_if(so_far.rungs, [](const RungResult& rung) { return !has_result(rung); });
      on_rung_(so_far);
    });
    LadderResult result = with_runs();
    if (on_rung_) on_rung_(result);
    return result;
  }

 private:
  // Where the runs of a rung and side are in settings_.
  struct Place {
    std::optional<size_t> ours;
    std::optional<size_t> theirs;
  };

  void add_settings(size_t index) {
    const RungResult& rung = result_.rungs[index];
    Place place;
    if (fits(rung) && rung.same_as.empty()) {
      place.ours = settings_.size();
      settings_.push_back({rung.rung.setting + ", shoehorn",
                           [this, words = step_flags(options_, rung.rung), plan = rung.plan] {
                             return measure_step(program_, words, plan);
                           }});
    }
    if (options_.has_peer()) {
      place.theirs = settings_.size();
      settings_.push_back(
          {rung.rung.setting + ", huggingface", [this, words = peer_step_flags(options_, rung.rung)] {
             return measure_peer_step(options_.python, options_.peer_script, words);
           }});
    }
    places_.push_back(place);
  }

  static bool has_result(const RungResult& rung) {
    return !fits(rung) || rung.ours.is_measured() || !rung.ours.reason.empty() || rung.theirs;
  }

  // The result with what the processes have measured so far.
  LadderResult with_runs() const {
    LadderResult result = result_;
    for (size_t i = 0; i < places_.size(); ++i) {
      RungResult& rung = result.rungs[i];
      const Place& place = places_[i];
      if (!fits(rung)) rung.ours = forbidden_run(rung.plan);
      if (place.ours && !settings_[*place.ours].runs.empty())
        rung.ours = pooled_run(settings_[*place.ours].runs);
      if (place.theirs && !settings_[*place.theirs].runs.empty())
        rung.theirs = pooled_run(settings_[*place.theirs].runs);
      for (size_t j = 0; j < i && !rung.same_as.empty(); ++j) {
        if (result.rungs[j].rung.setting == rung.same_as) rung.ours = result.rungs[j].ours;
      }
    }
    return result;
  }

  const LadderOptions& options_;
  const RunProgress& on_run_;
  const OnRung& on_rung_;
  std::filesystem::path program_;
  LadderResult result_;
  std::vector<RoundSetting> settings_;
  std::vector<Place> places_;  // of each rung
};

}  // namespace

std::vector<std::string> LadderOptions::left_out() const {
  std::vector<std::string> names;
  for (const LadderRung& known : ladder_rungs()) {
    const auto is_it = [&known](const LadderRung& rung) { return rung.name == known.name; };
    if (std::none_of(rungs.begin(), rungs.end(), is_it)) names.push_back(known.name);
  }
  return names;
}

int64_t RungResult::predicted_bytes() const {
  return ours.predicted_bytes > 0 ? ours.predicted_bytes : plan.peak_bytes;
}

std::vector<std::string> step_flags(const LadderOptions& options, const LadderRung& rung) {
  std::vector<std::string> words = run_flags(options, "--max_steps");
  if (options.memory_budget_bytes)
    words = joined(std::move(words), {"--memory_budget", std::to_string(*options.memory_budget_bytes)});
  if (options.num_threads)
    words = joined(std::move(words), {"--num_threads", std::to_string(*options.num_threads)});
  return joined(std::move(words), rung.flags);
}

std::vector<std::string> peer_step_flags(const LadderOptions& options, const LadderRung& rung) {
  std::vector<std::string> words = run_flags(options, "--steps");
  if (options.num_threads)
    words = joined(std::move(words), {"--threads", std::to_string(*options.num_threads)});
  return joined(std::move(words), peer_flags(rung.flags).flags);
}

void name_same_programs(LadderResult& result) {
  for (size_t i = 0; i < result.rungs.size(); ++i) {
    RungResult& rung = result.rungs[i];
    for (size_t j = 0; j < i && fits(rung) && rung.same_as.empty(); ++j) {
      const RungResult& earlier = result.rungs[j];
      if (!rung.plan.program.empty() && earlier.plan.program == rung.plan.program && earlier.same_as.empty())
        rung.same_as = earlier.rung.setting;
    }
  }
}

int64_t processes_of(const LadderResult& result) {
  int64_t most = 0;
  for (const RungResult& rung : result.rungs) most = std::max(most, std::ssize(rung.ours.loads));
  return most;
}

LadderResult walk_ladder(const LadderOptions& options, const RunProgress& on_run,
                         const std::function<void(const LadderResult&)>& on_rung) {
  return Walk(options, on_run, on_rung).run();
}

const RungResult* reference_rung(const LadderResult& result) {
  const auto found = std::find_if(result.rungs.begin(), result.rungs.end(),
                                  [](const RungResult& rung) { return rung.ours.is_measured(); });
  return found == result.rungs.end() ? nullptr : &*found;
}

int exit_code_of(const LadderResult& result) {
  for (const RungResult& rung : result.rungs) {
    if (rung.ours.outcome == RunOutcome::kFailed) return 1;
    if (rung.theirs && rung.theirs->outcome == RunOutcome::kFailed) return 1;
  }
  return reference_rung(result) == nullptr ? 2 : 0;
}

}  // namespace shoehorn
