// Finds the fastest plan of a training run that fits a budget. Nothing is run: candidates are planned as `plan` plans
// them, to the byte, but for the code of products, which is not made (PlanSearchOptions::overhead_bytes has it).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/memory_anatomy.h"
#include "analysis/step_time.h"
#include "exec/backend/backend.h"
#include "fit/plan_changes.h"
#include "plan/device_catalog.h"
#include "plan/machine_profile.h"
#include "session/session.h"

namespace shoehorn {

struct PlannedCandidate {
  FitCandidate run;
  int64_t arena_bytes = 0;    // of its plan
  int64_t process_bytes = 0;  // the peak of the whole process
  double step_seconds = 0;    // time.seconds
  StepTime time = {};         // a lower bound, or calibrated (PlanSearchOptions::costs)
  int64_t step_bytes = 0;     // of the process's: what programs make while they run
  // Of the process's: weights, their masters, optimizer states, and what is besides the arenas. Neither the batch nor
  // recomputation changes them, so that no form of the run takes less.
  int64_t least_bytes = 0;
  bool trains = true;             // else it only evaluates, which has no step
  bool evaluation_binds = false;  // its programs need the most
};

// Processes of the same flags have been seen to differ by 0.4 MiB from run to run: a budget is for a plan and so much more.
inline constexpr int64_t kSparedBytes = int64_t{1} << 20;
int64_t budget_for(const PlannedCandidate& plan);

// One form of a run (fit/plan_changes.h): how it is split, ordered and recomputed is open.
struct FormResult {
  std::optional<PlannedCandidate> whole;  // the form as it is; none where its settings do not go together
  std::optional<PlannedCandidate> least;  // the smallest that was planned
  std::vector<PlannedCandidate> fitting;  // best first
};

// What one technique changes about the run as it was asked for.
struct TechniqueEffect {
  std::string name;
  PlannedCandidate plan;
};

struct FitResult {
  std::vector<PlannedCandidate> fitting;  // best first
  // Of all that were planned with the changes that are allowed: less memory takes longer; fastest first. The last row is the
  // least budget.
  std::vector<PlannedCandidate> frontier;
  std::map<MathsChange, PlannedCandidate> least;  // the smallest plan of each tier
  // Others of the tier that are nearly as small, with another micro-batch or order: besides its arenas their process may hold
  // some MiB less, which only a process of its own tells.
  std::map<MathsChange, std::vector<PlannedCandidate>> nearly_least;
  std::vector<TechniqueEffect> techniques;  // the run as asked for comes first
  PlannedCandidate
      bound;  // what binds is this one's: the fastest that does not fit, or the chosen one where all do
  // The fastest that fits with changes of the tier above those that are allowed, where it is faster than all that fit.
  std::optional<PlannedCandidate> above;
  bool above_is_cut_short = false;  // with that tier allowed more may be found
  int64_t plans = 0;                // how many were made
};

struct PlanSearchOptions {
  FitSpace space = {};
  int64_t budget_bytes = 0;    // for the whole process, without what is spared
  int64_t overhead_bytes = 0;  // of the process besides the arenas
  int64_t other_code_bytes =
      0;  // the same of a candidate whose products are not those of the run as asked for, more
  MachineLimits limits = {};
  // Of this machine, if it is calibrated; must outlive the search. Null: times are lower bounds from the limits.
  const OpCosts* costs = nullptr;
  std::optional<SampleLengths> lengths = {};  // of the training data, if they are real ones
  // Another machine, by its data sheet: the lower bounds are by its peaks. Null: by `limits`.
  const Device* device = nullptr;
  std::optional<RankLink> link = {};  // between ranks; none: their messages are not in the times
  std::shared_ptr<const Backend> backend = {};
  bool keeps_code = true;  // of kernels, which candidates share, until the search ends
  // The most threads that plan, of as many as processors and memory allow (fit/plans_at_a_time.h): each holds the programs of a
  // run.
  size_t most_plans_at_a_time = 8;
  // Candidates' arenas may be 1/1024 larger than those of the run that is trained (SessionOptions::is_compared): for a caller
  // that plans what it shows once more.
  bool compares_only = false;
  // From so many seconds after the search was made on nothing is recomputed but what tells whether a form can fit: to choose
  // what is recomputed takes most of the time of a search.
  double most_seconds_of_recompute = std::numeric_limits<double>::infinity();
};

// The session of a run of the arguments. UserError for settings that do not go together.
using SessionOfArguments = std::function<SessionOptions(const TrainingArguments&)>;

class PlanSearch {
 public:
  // The model, and what `options_of` refers to, must outlive the search.
  PlanSearch(const Model& model, SessionOfArguments options_of, PlanSearchOptions options);
  ~PlanSearch();  // frees the code of the kernels of all that was planned
  PlanSearch(const PlanSearch&) = delete;
  PlanSearch& operator=(const PlanSearch&) = delete;

  // `asked`: the run without changes, whose flags are those that stand for what the user said otherwise. UserError if it
  // cannot be planned.
  FitResult find(const FitCandidate& asked);
  // The whole curve of budgets, from the fastest plan to the least budget: the search is repeated below each plan that it
  // chose, by a fortieth of the way between these two, until nothing fits. Of all that were planned, those of the tiers that
  // are allowed that no other beats.
  std::vector<PlannedCandidate> sweep(const FitCandidate& asked);
  // Whether anything may fit with such changes, by the plans of the run with all of them that make it smaller.
  bool may_fit_with(const FitCandidate& asked, const std::set<MathsChange>& allowed);
  // What fits of one form with such changes, whatever other forms reach.
  FormResult find_in_form(const FitCandidate& form, const std::set<MathsChange>& allowed);
  // Of the runs, as they are, the first that fits.
  std::optional<PlannedCandidate> first_that_fits(std::span<const FitCandidate> runs);
  // The smallest of all that was planned, and of the run with everything that makes it smaller.
  PlannedCandidate find_least(const FitCandidate& asked);
  // The run as it is, without a search: what binds in it, and what each technique would change alone. It is all of
  // `fitting` and of `frontier`, whether it fits or not; `least` is empty.
  FitResult explain(const FitCandidate& asked);
  // Whether something was not recomputed because the time for it had gone by.
  bool was_cut_short() const { return was_cut_short_; }
  // What is where in a plan. The process besides the arenas is what its process_bytes leave for it.
  MemoryAnatomy anatomy_of(const PlannedCandidate& planned) const;

 private:
  // A form, and its plan with nothing recomputed, whose evaluation may have smaller batches.
  struct WholeForm {
    FitCandidate form;
    PlannedCandidate whole;
  };

  // In which orders smaller micro-batches may be faster than what fits.
  struct OpenOrders {
    bool as_asked = true;
    bool layer_major = true;
    double fastest_that_fits = std::numeric_limits<double>::infinity();  // seconds of a step
  };

  std::unique_ptr<Session> session_of(const FitCandidate& run, bool is_compared) const;
  StepTime step_time_of(const FitCandidate& run, const Session& session) const;
  std::optional<PlannedCandidate> plan_as_it_is(const FitCandidate& run);
  std::optional<PlannedCandidate> plan(const FitCandidate& run, bool is_least = false);
  PlannedCandidate plan_or_throw(const FitCandidate& run);
  PlannedCandidate planned_of(const FitCandidate& run) const;
  std::optional<PlannedCandidate> planned_if_possible(const FitCandidate& run) const;
  PlannedCandidate added(PlannedCandidate planned);  // to those that the search knows
  size_t most_plans_ahead() const;
  void plan_ahead(const std::vector<FitCandidate>& runs);
  bool fits(const PlannedCandidate& planned) const { return planned.process_bytes <= options_.budget_bytes; }
  bool is_allowed(const PlannedCandidate& planned) const {
    return std::ranges::includes(options_.space.allowed, planned.run.changes);
  }
  bool is_out_of_time();
  bool is_of_form(const PlannedCandidate& planned, const FitCandidate& form) const;
  bool is_beaten(const PlannedCandidate& whole, double seconds) const;
  bool is_beaten_by_larger_change(const PlannedCandidate& whole) const;
  void search_forms(const FitCandidate& asked);
  void search_form(const PlannedCandidate& whole);
  void search_micro_batches(const FitCandidate& form);
  bool may_fit(const FitCandidate& form);
  bool may_fit_in_segments(const FitCandidate& run, const PlannedCandidate& every);
  bool may_fit_layer_major(const FitCandidate& form);
  std::vector<FitCandidate> smallest_of(FitCandidate form) const;
  FitCandidate with_every_layer(const FitCandidate& run) const;
  std::vector<FitCandidate> smallest_forms(const FitCandidate& asked) const;
  std::vector<FitCandidate> with_each_update(const FitCandidate& run) const;
  void plan_micro_batch(const FitCandidate& run, OpenOrders& orders, std::vector<WholeForm>& too_large);
  bool is_beaten_whole(const PlannedCandidate& whole) const;
  std::optional<FitCandidate> recomputed_in_what_is_left(const WholeForm& each) const;
  void plan_recompute_ahead(std::span<const WholeForm> forms);
  void grow_segments(const FitCandidate& run, bool is_least,
                     const std::function<bool(int64_t layers, const PlannedCandidate& planned)>& ends);
  void search_recompute(const WholeForm& each);
  void plan_every_layer(const FitCandidate& form);
  void search_least(const PlannedCandidate& whole);
  std::vector<FitCandidate> runs_between(const FitCandidate& asked) const;
  void plan_smallest(const FitCandidate& asked);
  std::vector<std::pair<std::string, FitCandidate>> techniques_of(const FitCandidate& asked) const;
  std::vector<TechniqueEffect> effects_of_techniques(const FitCandidate& asked);
  const PlannedCandidate& bound_plan(const std::vector<PlannedCandidate>& fitting) const;
  std::optional<PlannedCandidate> find_above(const FitCandidate& asked);
  std::vector<PlannedCandidate> nearly_as_small(MathsChange tier, const PlannedCandidate& least) const;

  const Model& model_;
  SessionOfArguments options_of_;
  PlanSearchOptions options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool was_cut_short_ = false;
  std::optional<FitCandidate> only_form_;  // while one form is searched: the others do not count
  std::vector<PlannedCandidate> planned_;
  // By flags: in planned_; none where the settings do not go together.
  std::map<std::vector<std::string>, std::optional<size_t>> index_of_;
  // By flags: what plan_ahead() planned and nobody has asked for yet; none where the settings do not go together.
  std::map<std::vector<std::string>, std::optional<PlannedCandidate>> ahead_;
};

// Sorts plans that fit: fastest first, in classes of equal times, of each class the one that changes least.
void sort_by_preference(std::vector<PlannedCandidate>& plans);

// The plans that no other beats in both time and memory, fastest first.
std::vector<PlannedCandidate> frontier_of(std::vector<PlannedCandidate> planned);

}  // namespace shoehorn
