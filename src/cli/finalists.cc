#include "cli/finalists.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments/flag_words.h"
#include "base/child_process.h"
#include "lab/measured_step.h"
#include "session/batching.h"

namespace shoehorn {

namespace {

// One of the best plans as it is run.
struct Finalist {
  std::vector<std::string> flags = {};  // of bench step
  std::string program = {};             // the hash of what is to run; empty: any
  // Of a mean step of the run. Tokens are 0 where they do not say how long a step takes, for sequences are padded.
  double samples = 0;
  double tokens = 0;
  std::optional<double> seconds = {};  // of such a step
  std::string reason = {};             // why there are none
};

std::string first_line_of(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

void run_finalist(const std::vector<std::string>& launch, Finalist& finalist) {
  const StepRun run = measure_step(own_program(), joined(finalist.flags, {"--max_steps", "2"}), {}, launch);
  if (!run.is_measured()) {
    finalist.reason = first_line_of(run.reason);
  } else if (!finalist.program.empty() && run.program != finalist.program) {
    finalist.reason = "what ran is not the program of the plan";
  } else {
    const double seconds = finalist.tokens > 0 ? finalist.tokens / run.tokens_per_second
                                               : finalist.samples / run.samples_per_second;
    finalist.seconds = std::min(finalist.seconds.value_or(seconds), seconds);
  }
}

// Runs them in processes of their own, in two rounds, there and back: the lesser time is the one that other programs and a
// processor that becomes slower have disturbed less.
void run_finalists(const std::vector<std::string>& launch, std::vector<Finalist>& finalists) {
  for (Finalist& finalist : finalists) run_finalist(launch, finalist);
  for (size_t i = finalists.size(); i-- > 0;) run_finalist(launch, finalists[i]);
}

// The flags of a step of random tokens that is as long as one of the run.
std::vector<std::string> random_step_flags(const std::vector<std::string>& flags, const PlannedTask& task) {
  const std::optional<int64_t> block = task.arguments.block_size;
  if (!block) return flags;
  return joined(without_row(flags, "block_size"), {"--block_size", std::to_string(*block)});
}

// Of a run that has texts on these: other batches would be larger, and of another program.
Finalist finalist_of(const std::vector<std::string>& flags, const std::string& program,
                     const PlannedTask& task) {
  const auto samples = static_cast<double>(effective_batch_size(task.arguments));
  if (!task.has_samples) return {.flags = random_step_flags(flags, task), .samples = samples};
  const double mean_tokens =
      static_cast<double>(task.train.token_count()) / static_cast<double>(task.train.size());
  return {.flags = joined(flags, {"--on_texts"}),
          .program = program,
          .samples = samples,
          .tokens = padding_of(task.arguments) > 0 ? 0 : samples * mean_tokens};
}

// Medians of a few steps differ by as much from one run to the next.
constexpr double kMeasuredAlike = 0.03;

}  // namespace

void choose_plan(const FitResult& result, ExactPlans& exact_plans, size_t verified, const PlannedTask& task,
                 const std::vector<std::string>& launch, FitReport& report) {
  for (const PlannedCandidate& candidate : result.fitting) {
    if (report.best.size() == std::max<size_t>(1, verified)) break;
    PlannedCandidate exact = candidate;
    exact_plans.plan({&exact});
    if (budget_for(exact) <= report.budget_bytes) report.best.push_back(std::move(exact));
  }
  if (report.best.empty()) return;
  report.chosen = 0;
  std::vector<Finalist> finalists;
  for (size_t i = 0; i < std::min(verified, report.best.size()); ++i) {
    finalists.push_back(finalist_of(joined(report.given, report.best[i].run.flags),
                                    exact_plans.program_of(report.best[i]), task));
  }
  run_finalists(launch, finalists);
  for (size_t i = 0; i < finalists.size(); ++i) {
    if (finalists[i].seconds) {
      report.measured.push_back({*finalists[i].seconds, i});
    } else {
      report.not_measured.push_back({finalists[i].reason, i});
    }
  }
  if (report.measured.empty()) return;
  const auto fastest =
      std::min_element(report.measured.begin(), report.measured.end(),
                       [](const MeasuredStep& a, const MeasuredStep& b) { return a.seconds < b.seconds; });
  // Of those that are as fast the first, which changes least.
  const double as_fast = fastest->seconds * (1 + kMeasuredAlike);
  report.chosen = std::ranges::find_if(report.measured, [&](const MeasuredStep& step) {
                    return step.seconds <= as_fast;
                  })->index;
}

}  // namespace shoehorn
