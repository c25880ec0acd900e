#include "lab/ladder.h"

#include <algorithm>

#include "base/error.h"
#include "exec/backends.h"

namespace shoehorn {

namespace {

std::vector<std::string> run_flags(const LadderOptions& options, const char* steps_flag) {
  return {"--model",           options.model,
          "--sequence_length", std::to_string(options.sequence_length),
          steps_flag,          std::to_string(options.steps)};
}

void append(std::vector<std::string>& words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
}

std::string line_of(const LadderRung& rung, const char* who, const StepRun& run) {
  if (!run.is_measured()) return fmt::format("{}, {}: {}", rung.setting, who, outcome_text(run.outcome));
  return fmt::format("{}, {}: {:.3f} samples/s, {} MiB", rung.setting, who, run.samples_per_second,
                     run.memory.training_bytes >> 20);
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
    for (const RungResult& rung : result_.rungs)
      of_ += options_.repeats * ((fits(rung) ? 1 : 0) + (options_.has_peer() ? 1 : 0));
    if (on_run_) on_run_(0, of_, "");
    for (size_t i = 0; i < result_.rungs.size(); ++i) {
      measure(result_.rungs[i]);
      if (!on_rung_) continue;
      LadderResult so_far = result_;
      so_far.rungs.resize(i + 1);
      on_rung_(so_far);
    }
    return std::move(result_);
  }

 private:
  static bool fits(const RungResult& rung) { return rung.plan.outcome == RunOutcome::kMeasured; }

  void measure(RungResult& rung) {
    std::vector<StepRun> ours;
    std::vector<StepRun> theirs;
    for (int64_t repeat = 0; repeat < options_.repeats; ++repeat) {
      if (fits(rung)) {
        ours.push_back(measure_step(program_, step_flags(options_, rung.rung), rung.plan));
        tell(line_of(rung.rung, "shoehorn", ours.back()));
      }
      if (options_.has_peer()) {
        theirs.push_back(
            measure_peer_step(options_.python, options_.peer_script, peer_step_flags(options_, rung.rung)));
        tell(line_of(rung.rung, "huggingface", theirs.back()));
      }
    }
    rung.ours = ours.empty() ? forbidden_run(rung.plan) : median_run(ours);
    if (!theirs.empty()) rung.theirs = median_run(theirs);
  }

  void tell(const std::string& line) {
    ++done_;
    if (on_run_) on_run_(done_, of_, line);
  }

  const LadderOptions& options_;
  const RunProgress& on_run_;
  const OnRung& on_rung_;
  std::filesystem::path program_;
  LadderResult result_;
  int64_t done_ = 0;
  int64_t of_ = 0;
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
    append(words, {"--memory_budget", std::to_string(*options.memory_budget_bytes)});
  append(words, rung.flags);
  return words;
}

std::vector<std::string> peer_step_flags(const LadderOptions& options, const LadderRung& rung) {
  std::vector<std::string> words = run_flags(options, "--steps");
  append(words, peer_flags(rung.flags).flags);
  return words;
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
