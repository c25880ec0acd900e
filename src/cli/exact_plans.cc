#include "cli/exact_plans.h"

#include <nlohmann/json.hpp>
#include <set>

#include "arguments/flag_words.h"
#include "arguments/shell_word.h"
#include "base/child_process.h"
#include "base/concurrently.h"
#include "base/error.h"
#include "fit/plans_at_a_time.h"
#include "io/json_file.h"
#include "lab/measured_step.h"

namespace shoehorn {

namespace {

// More than any machine has: such a plan is made and not judged.
constexpr const char* kNoBudget = "1000000GiB";

}  // namespace

nlohmann::json plan_in_process(const std::vector<std::string>& given, const std::vector<std::string>& added) {
  std::vector<std::string> words = joined(joined({own_program().string(), "plan"}, given), added);
  words.insert(words.end(), {"--json", "--memory_budget", kNoBudget});
  const FinishedProcess finished = run_shoehorn(words);
  if (finished.exit_code != 0) {
    const RunFailure failure = failure_of(finished);
    if (failure.outcome != RunOutcome::kFailed) throw UserError(failure.reason);
    throw system_error("[fit] expected a plan of {}, got: {}", shell_words(words), failure.reason);
  }
  return parse_json(finished.output, "shoehorn plan");
}

ExactPlan exact_plan_of(const nlohmann::json& plan) {
  return {plan["arena_bytes"].get<int64_t>(), plan["process_peak_bytes"].get<int64_t>(),
          plan["program"].get<std::string>()};
}

void ExactPlans::plan(const std::vector<PlannedCandidate*>& candidates) {
  std::set<std::vector<std::string>> open;
  for (const PlannedCandidate* candidate : candidates) {
    if (!plans_.contains(candidate->run.flags)) open.insert(candidate->run.flags);
  }
  const std::vector<std::vector<std::string>> flags(open.begin(), open.end());
  std::vector<ExactPlan> plans(flags.size());
  run_concurrently(flags.size(), plans_at_a_time(),
                   [&](size_t i) { plans[i] = exact_plan_of(plan_in_process(planned_, flags[i])); });
  for (size_t i = 0; i < flags.size(); ++i) plans_[flags[i]] = std::move(plans[i]);
  for (PlannedCandidate* candidate : candidates) {
    const ExactPlan& plan = plans_.at(candidate->run.flags);
    candidate->arena_bytes = plan.arena_bytes;
    candidate->process_bytes = plan.process_bytes;
  }
}

void ExactPlans::plan_frontier(std::vector<PlannedCandidate>& frontier) {
  std::vector<PlannedCandidate*> rows;
  rows.reserve(frontier.size());
  for (PlannedCandidate& row : frontier) rows.push_back(&row);
  plan(rows);
  frontier = frontier_of(std::move(frontier));
}

void ExactPlans::plan_rows(FitResult& result) {
  std::vector<PlannedCandidate*> rows = {&result.bound};
  for (auto& [tier, least] : result.least) {
    rows.push_back(&least);
    for (PlannedCandidate& other : result.nearly_least[tier]) rows.push_back(&other);
  }
  for (TechniqueEffect& effect : result.techniques) rows.push_back(&effect.plan);
  if (result.above) rows.push_back(&*result.above);
  plan(rows);
  const PlannedCandidate* below = nullptr;  // of the tier before, whose changes a tier has, too
  for (auto& [tier, least] : result.least) {
    for (const PlannedCandidate& other : result.nearly_least[tier]) {
      if (other.process_bytes < least.process_bytes) least = other;
    }
    if (below != nullptr && below->process_bytes < least.process_bytes) least = *below;
    below = &least;
  }
  plan_frontier(result.frontier);
}

}  // namespace shoehorn
