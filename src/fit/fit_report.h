// What `fit` found, for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fit/plan_search.h"

namespace shoehorn {

// A step that was run.
struct MeasuredStep {
  double seconds = 0;
  size_t index = 0;  // in FitReport::best
};

// One that was to be run.
struct UnmeasuredStep {
  std::string reason;
  size_t index = 0;  // in FitReport::best
};

struct FitReport {
  const FitResult& result;
  MemoryAnatomy binding = {};  // of result.bound
  std::vector<PlannedCandidate> best =
      {};  // of result.fitting the first ones, with the bytes of their own processes
  std::vector<std::string> given = {};  // the flags that the user gave, of train
  // The same for people, with DIR and FILE in place of what a plan does without: weights, a tokenizer, texts.
  std::vector<std::string> given_to_train = {};
  int64_t samples = 0;           // a step
  int64_t samples_in_epoch = 0;  // 0: unknown
  double epochs = 0;             // of the run; 0: unknown
  int64_t budget_bytes = 0;
  std::set<MathsChange> allowed = {MathsChange::kExact, MathsChange::kRounding};  // what may change
  std::optional<size_t> chosen = {};                                              // in `best`
  std::vector<MeasuredStep> measured = {};
  std::vector<UnmeasuredStep> not_measured = {};
  bool may_measure = false;   // --verify runs steps here
  std::string device = {};    // the title of another machine that it is for; empty: this one
  double price_per_hour = 0;  // of the machine, as the user gave it; 0: unknown
};

// Of what is resident when a plan is at its peak, the largest so many are shown.
constexpr size_t kShownResidents = 10;

// The step of a plan of `best` that was run; null if none was.
const MeasuredStep* measured_of(const FitReport& report, size_t index);

// The flags that a plan adds; "as asked for" where it adds none.
std::string added_flags_text(const PlannedCandidate& plan);
// The least that the run takes with the changes that are allowed; CHECKs that something was planned.
int64_t least_allowed_bytes(const FitReport& report);
int64_t least_budget_bytes(const FitReport& report);  // for that
// How much longer a plan's step takes than that of `asked`, as a share.
double added_time(const PlannedCandidate& asked, const PlannedCandidate& plan);

// A step of the chosen plan: as it was run, else as planned.
double chosen_step_seconds(const FitReport& report);
// What an epoch takes with such steps; 0: unknown.
double epoch_seconds(const FitReport& report, double step_seconds);
// What of the run takes how long with the chosen plan, for people: {"epoch", "no less than 1:05"}, {"run of 3 epochs", …}; nothing
// where the samples are unknown.
std::vector<std::pair<std::string, std::string>> times_of_run(const FitReport& report);

bool is_chosen(const FitReport& report, const PlannedCandidate& plan);
// The frontier with the chosen plan in it, which another may beat by so little that they count as alike; the largest first.
std::vector<PlannedCandidate> frontier_with_chosen(const FitReport& report);
// Whose peak `binding` is: "the fastest plan that does not fit", "the chosen plan".
std::string bound_plan_text(const FitReport& report);
// Where in the run that is: "train: node 5 of 60, …".
std::string binding_moment(const FitReport& report);
// What --allow would have to say for FitResult::above; CHECKs that there is one.
std::string tiers_with_above(const FitReport& report);
// What --allow would have to say for the least budget of each tier that is not allowed and that makes the run smaller, as
// "numerics,adapters"; empty where none does.
std::string tiers_to_allow(const FitReport& report);

// The flags that train as chosen.
std::vector<std::string> chosen_flags(const FitReport& report);
// The command that trains with such flags, for people: of several ranks by launch.
std::vector<std::string> train_command(const std::vector<std::string>& flags, int64_t ranks);
// The command that trains as chosen.
std::vector<std::string> train_command(const FitReport& report);
// A command below its heading, the last lines of format_fit().
inline constexpr std::string_view kTrainCommandHeading = "\nTo train:\n";
std::string format_train_command(const std::vector<std::string>& command);

// The chosen plan, what binds, the frontier, and what each technique buys.
std::string format_fit(const FitReport& report);
// Why nothing fits: what is largest, the least budget that each tier reaches, and what makes the run smaller.
std::string format_no_fit(const FitReport& report);

// The curve of budgets: what one has to give for each time.
std::string format_sweep(const std::vector<PlannedCandidate>& curve);
// What binds in a run, and what each technique would change.
std::string format_why(const FitReport& report);

// A list of plans as those of "frontier".
nlohmann::json to_json(const FitReport& report, const std::vector<PlannedCandidate>& plans);

// {"chosen", "not_measured", "frontier", "binding", "least_budget_bytes", "least_budget_flags", "above", "techniques", "plans"};
// "chosen" is null where nothing fits, "above" where a higher tier buys nothing. "binding" says of which plan it is ("of").
nlohmann::json to_json(const FitReport& report);

}  // namespace shoehorn
