#include "fit/plan_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/concurrently.h"
#include "base/error.h"
#include "base/stop_request.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "fit/plans_at_a_time.h"
#include "session/batching.h"

namespace shoehorn {

namespace {

// Times that differ by less are taken for equal: a change of the maths, or one more flag, must buy more.
constexpr double kSameTime = 0.01;

// Segments of layers that are recomputed together: where one layer at a time does not fit, longer ones keep fewer
// inputs.
constexpr int64_t kLongestSegment = 4;

constexpr int64_t kMiB = int64_t{1} << 20;

// Besides its arenas a process may hold so much more or less than that of the run as asked for: of micro-batches of one sample
// and of many, processes have been seen to differ by 11 MiB.
constexpr int64_t kProcessesDifferBy = 16 * kMiB;

// Of the look at the tier above those that are allowed.
constexpr double kMostSecondsAbove = 5;

// Weights, their masters and what the optimizer keeps.
int64_t state_bytes_of(const StateTable& state) {
  int64_t bytes = 0;
  for (const Storage& storage : state.storages()) {
    const bool is_state = storage.role == Role::kWeight || storage.role == Role::kMasterWeight ||
                          storage.role == Role::kOptimizerState;
    if (is_state && !storage.merged_into.valid()) bytes += storage.type.bytes();
  }
  return bytes;
}

// Whether other matrix products are made: of another type, or of adapters.
bool has_other_products(const TrainingArguments& a, const TrainingArguments& b) {
  return a.bf16 != b.bf16 || a.bf16_full_eval != b.bf16_full_eval || a.lora_rank != b.lora_rank;
}

// The class of times of a plan where those that differ by less than kSameTime from the fastest are in class 0.
double time_class(double seconds, double fastest) {
  return fastest > 0 ? std::floor(std::log(seconds / fastest) / std::log1p(kSameTime)) : 0;
}

}  // namespace

int64_t budget_for(const PlannedCandidate& plan) {
  return plan.process_bytes + kSparedBytes;
}

void sort_by_preference(std::vector<PlannedCandidate>& plans) {
  if (plans.empty()) return;
  const auto fastest = std::min_element(plans.begin(), plans.end(), [](const auto& a, const auto& b) {
    return a.step_seconds < b.step_seconds;
  });
  const double least_seconds = fastest->step_seconds;
  const auto rank = [least_seconds](const PlannedCandidate& plan) {
    // What shares less sends no more, which times without a link do not tell. Larger micro-batches are no slower.
    const TrainingArguments& args = plan.run.arguments;
    return std::tuple(time_class(plan.step_seconds, least_seconds), plan.run.tier, plan.run.flags.size(),
                      args.zero_stage, -args.per_device_train_batch_size, plan.process_bytes);
  };
  std::stable_sort(plans.begin(), plans.end(),
                   [&](const PlannedCandidate& a, const PlannedCandidate& b) { return rank(a) < rank(b); });
}

std::vector<PlannedCandidate> frontier_of(std::vector<PlannedCandidate> planned) {
  std::stable_sort(planned.begin(), planned.end(), [](const PlannedCandidate& a, const PlannedCandidate& b) {
    if (a.step_seconds != b.step_seconds) return a.step_seconds < b.step_seconds;
    if (a.process_bytes != b.process_bytes) return a.process_bytes < b.process_bytes;
    return a.run.flags.size() < b.run.flags.size();
  });
  std::vector<PlannedCandidate> frontier;
  for (PlannedCandidate& candidate : planned) {
    if (frontier.empty() || candidate.process_bytes < frontier.back().process_bytes)
      frontier.push_back(std::move(candidate));
  }
  return frontier;
}

PlanSearch::PlanSearch(const Model& model, SessionOfArguments options_of, PlanSearchOptions options)
    : model_(model), options_of_(std::move(options_of)), options_(std::move(options)) {
  if (!options_.backend) options_.backend = make_backend(kDefaultBackend, 0);
}

PlanSearch::~PlanSearch() {
  options_.backend->release_unused_code();
}

std::unique_ptr<Session> PlanSearch::session_of(const FitCandidate& run, bool is_compared) const {
  SessionOptions session = options_of_(run.arguments);
  if (session.executor.heeds_stops) throw_if_stop_requested();
  session.backend = options_.backend;
  session.keeps_code = options_.keeps_code;
  session.is_compared = is_compared;
  session.step.dump_directory.clear();  // it has the programs of the run that is trained
  return std::make_unique<Session>(model_, std::move(session));
}

// Nothing where the settings do not go together.
std::optional<PlannedCandidate> PlanSearch::plan_as_it_is(const FitCandidate& run) {
  const auto known = index_of_.find(run.flags);
  if (known != index_of_.end()) return known->second ? std::optional(planned_[*known->second]) : std::nullopt;
  auto ahead = ahead_.extract(run.flags);
  std::optional<PlannedCandidate> planned =
      ahead.empty() ? planned_if_possible(run) : std::move(ahead.mapped());
  if (planned) return added(std::move(*planned));
  index_of_[run.flags] = std::nullopt;
  return std::nullopt;
}

// An evaluation that needs the most gets smaller batches until the run fits or training needs the most; of the least plan in any
// case.
std::optional<PlannedCandidate> PlanSearch::plan(const FitCandidate& run, bool is_least) {
  std::optional<PlannedCandidate> planned = plan_as_it_is(run);
  while (planned && planned->evaluation_binds && (is_least || !fits(*planned))) {
    const auto smaller = with_half_evaluation_batch(planned->run, options_.space);
    std::optional<PlannedCandidate> next = smaller ? plan_as_it_is(*smaller) : std::nullopt;
    if (!next) break;
    planned = std::move(next);
  }
  return planned;
}

StepTime PlanSearch::step_time_of(const FitCandidate& run, const Session& session) const {
  if (session.options().kind == RunKind::kEvaluate) return {};
  const RankLink* link = options_.link ? &*options_.link : nullptr;
  std::optional<SampleLengths> lengths;
  if (padding_of(run.arguments) == 0) lengths = options_.lengths;
  if (lengths) lengths->samples = run.arguments.per_device_train_batch_size;
  if (options_.device != nullptr) return rated_step_time(session, *options_.device, lengths, link);
  if (options_.costs == nullptr) return least_step_time(session, options_.limits, lengths, link);
  return calibrated_step_time(session, *options_.costs, lengths, link);
}

// Threads that plan, and runs that are planned by them at a time.
size_t PlanSearch::most_plans_ahead() const {
  return std::min(plans_at_a_time(), options_.most_plans_at_a_time);
}

// Runs that will be asked for in any case, or nearly: planned by as many threads as processors and memory allow.
void PlanSearch::plan_ahead(const std::vector<FitCandidate>& runs) {
  std::vector<const FitCandidate*> open;
  std::set<std::vector<std::string>> seen;
  for (const FitCandidate& run : runs) {
    if (!index_of_.contains(run.flags) && !ahead_.contains(run.flags) && seen.insert(run.flags).second)
      open.push_back(&run);
  }
  std::vector<std::optional<PlannedCandidate>> planned(open.size());
  const size_t threads = most_plans_ahead();
  const int of_kernels = thread_count().threads;
  run_concurrently(
      open.size(), threads, [&](size_t i) { planned[i] = planned_if_possible(*open[i]); },
      [of_kernels] { use_threads_here(of_kernels); });
  for (size_t i = 0; i < open.size(); ++i) ahead_.emplace(open[i]->flags, std::move(planned[i]));
}

PlannedCandidate PlanSearch::planned_of(const FitCandidate& run) const {
  validate(run.arguments);
  const std::unique_ptr<Session> session = session_of(run, options_.compares_only);
  const StepTime time = step_time_of(run, *session);
  const int64_t arena_bytes = session->plan().arena_bytes();
  PlannedCandidate planned{run, arena_bytes, arena_bytes + options_.overhead_bytes, time.seconds, time};
  planned.step_bytes = session->plan().device().transient_bytes;
  planned.least_bytes = planned.process_bytes - arena_bytes + state_bytes_of(session->state());
  planned.trains = session->options().kind != RunKind::kEvaluate;
  planned.evaluation_binds =
      session->family().program(session->plan().largest()).kind() == ProgramKind::kEvaluate;
  return planned;
}

std::optional<PlannedCandidate> PlanSearch::planned_if_possible(const FitCandidate& run) const {
  try {
    return planned_of(run);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

PlannedCandidate PlanSearch::added(PlannedCandidate planned) {
  const FitCandidate& run = planned.run;
  if (!planned_.empty() && has_other_products(run.arguments, planned_.front().run.arguments)) {
    planned.process_bytes += options_.other_code_bytes;
    planned.least_bytes += options_.other_code_bytes;
  }
  index_of_[run.flags] = planned_.size();
  planned_.push_back(planned);
  return planned;
}

PlannedCandidate PlanSearch::plan_or_throw(const FitCandidate& run) {
  return added(planned_of(run));
}

// With the updates where they are and, where that is open, in the backward.
std::vector<FitCandidate> PlanSearch::with_each_update(const FitCandidate& run) const {
  std::vector<FitCandidate> runs = {run};
  if (auto soon = with_update_in_backward(run, options_.space)) runs.push_back(std::move(*soon));
  return runs;
}

// The orders that are open, and the update of one micro-batch size, each as it is. What fits closes an order: smaller micro-batches
// are no faster. Layer-major ones may be where ranks gather weights and send gradients for each micro-batch of the other order.
void PlanSearch::plan_micro_batch(const FitCandidate& run, OpenOrders& orders,
                                  std::vector<WholeForm>& too_large) {
  const bool sends = run.arguments.world_size > 1 && run.arguments.gradient_accumulation_steps > 1;
  std::vector<FitCandidate> as_asked, layer_major;
  if (orders.as_asked) as_asked = with_each_update(run);
  if (const auto ordered = orders.layer_major ? with_layer_order(run, options_.space) : std::nullopt)
    layer_major = with_each_update(*ordered);
  std::vector<FitCandidate> all = as_asked;
  all.insert(all.end(), layer_major.begin(), layer_major.end());
  plan_ahead(all);
  const auto plan_order = [&](const std::vector<FitCandidate>& forms, bool closes_layer_major) {
    for (const FitCandidate& one : forms) {
      const std::optional<PlannedCandidate> whole = plan(one);
      if (whole && fits(*whole)) {
        orders.as_asked = false;
        orders.fastest_that_fits = std::min(orders.fastest_that_fits, whole->step_seconds);
        orders.layer_major = orders.layer_major && !closes_layer_major;
      } else if (whole) {
        too_large.push_back({one, *whole});
      }
    }
  };
  const double fastest_before = orders.fastest_that_fits;
  plan_order(as_asked, !sends);
  // By nominal times larger micro-batches are no slower. By a machine's, what its caches hold may be faster.
  orders.as_asked |= options_.costs != nullptr && orders.fastest_that_fits < fastest_before / (1 + kSameTime);
  plan_order(layer_major, true);
}

// Whether a plan differs from a form only by how it is split, ordered and recomputed, and by when it updates.
bool PlanSearch::is_of_form(const PlannedCandidate& planned, const FitCandidate& form) const {
  const auto settings = [](const TrainingArguments& args) {
    return std::tie(args.bf16, args.bf16_full_eval, args.master_weights, args.optim, args.lora_rank,
                    args.zero_stage);
  };
  return settings(planned.run.arguments) == settings(form.arguments);
}

// Whether something that was planned leaves nothing to find for forms of `whole` that take `seconds` or more: it fits with no
// larger a change and is as fast; or nothing of the form can fit, and the other is as fast in less than its state.
bool PlanSearch::is_beaten(const PlannedCandidate& whole, double seconds) const {
  return std::any_of(planned_.begin(), planned_.end(), [&](const PlannedCandidate& other) {
    return is_allowed(other) && (!only_form_ || is_of_form(other, *only_form_)) &&
           other.run.flags != whole.run.flags && other.run.tier <= whole.run.tier &&
           other.step_seconds <= seconds &&
           other.process_bytes <= std::max(options_.budget_bytes, whole.least_bytes);
  });
}

// The same with any change that is allowed, where nothing of the form can be chosen or be on the frontier. It may still be the
// least of its tier.
bool PlanSearch::is_beaten_by_larger_change(const PlannedCandidate& whole) const {
  const double clearly_faster = whole.step_seconds / ((1 + kSameTime) * (1 + kSameTime));
  return std::any_of(planned_.begin(), planned_.end(), [&](const PlannedCandidate& other) {
    return is_allowed(other) && other.step_seconds < clearly_faster &&
           other.process_bytes <= std::max(options_.budget_bytes - kProcessesDifferBy, whole.least_bytes);
  });
}

bool PlanSearch::is_out_of_time() {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
  const bool is_over = since.count() > options_.most_seconds_of_recompute;
  was_cut_short_ = was_cut_short_ || is_over;
  return is_over;
}

// What does not fit, recomputed value by value in the bytes that the budget leaves; nothing where it leaves none.
std::optional<FitCandidate> PlanSearch::recomputed_in_what_is_left(const WholeForm& each) const {
  const int64_t left_bytes = options_.budget_bytes - (each.whole.process_bytes - each.whole.step_bytes);
  if (left_bytes < kMiB) return std::nullopt;
  return with_activation_budget(each.form, fmt::format("{}MiB", left_bytes / kMiB), options_.space);
}

// Whether something else beats the form even when it recomputes nothing.
bool PlanSearch::is_beaten_whole(const PlannedCandidate& whole) const {
  return is_beaten(whole, whole.step_seconds * (1 + kSameTime));
}

// Chooses what the first of these forms recomputes, and by other threads what the next ones do, which will be asked for unless the
// first beats them.
void PlanSearch::plan_recompute_ahead(std::span<const WholeForm> forms) {
  const auto is_given_up = [this](const WholeForm& each) { return is_beaten_whole(each.whole); };
  if (is_given_up(forms.front()) || is_out_of_time()) return;
  const size_t most = most_plans_ahead();
  std::vector<FitCandidate> runs;
  for (const WholeForm& each : forms) {
    if (runs.size() == most || is_given_up(each)) continue;
    std::optional<FitCandidate> run = recomputed_in_what_is_left(each);
    const bool is_planned = run && (index_of_.contains(run->flags) || ahead_.contains(run->flags));
    if (is_planned && runs.empty()) return;
    if (run && !is_planned) runs.push_back(std::move(*run));
  }
  plan_ahead(runs);
}

// Plans segments of more and more layers that are recomputed together, which keep fewer inputs and make more at once, until they
// no longer take less or `ends` says so.
void PlanSearch::grow_segments(
    const FitCandidate& run, bool is_least,
    const std::function<bool(int64_t layers, const PlannedCandidate& planned)>& ends) {
  int64_t bytes_before = std::numeric_limits<int64_t>::max();
  std::vector<FitCandidate> segments;
  for (int64_t layers = 1; layers <= kLongestSegment; ++layers) {
    if (auto recomputed = with_recompute(run, layers, options_.space))
      segments.push_back(std::move(*recomputed));
  }
  for (size_t at = 0; at < segments.size(); ++at) {
    if (at % 2 == 0)
      plan_ahead({segments.begin() + static_cast<ptrdiff_t>(at),
                  segments.begin() + static_cast<ptrdiff_t>(std::min(at + 2, segments.size()))});
    const std::optional<PlannedCandidate> planned = plan(segments[at], is_least);
    if (!planned || planned->process_bytes >= bytes_before) return;
    if (ends(static_cast<int64_t>(at) + 1, *planned)) return;
    bytes_before = planned->process_bytes;
  }
}

// Recomputes as little of what does not fit as the budget asks for, value by value; where that does not suffice, groups of
// layers.
void PlanSearch::search_recompute(const WholeForm& each) {
  if (is_beaten_whole(each.whole) || is_out_of_time()) return;
  if (const std::optional<FitCandidate> chosen = recomputed_in_what_is_left(each)) {
    const std::optional<PlannedCandidate> planned = plan(*chosen);
    if (planned && fits(*planned)) {
      plan_every_layer(each.form);
      return;
    }
  }
  grow_segments(each.form, false, [this](int64_t, const PlannedCandidate& planned) { return fits(planned); });
}

// Values are chosen by nominal costs. Those of a machine may say that whole layers are recomputed sooner.
void PlanSearch::plan_every_layer(const FitCandidate& form) {
  const auto every = options_.costs != nullptr ? with_recompute(form, 1, options_.space) : std::nullopt;
  if (every) plan(*every);
}

// Points of the frontier between the run as asked for and the same with every layer recomputed.
std::vector<FitCandidate> PlanSearch::runs_between(const FitCandidate& asked) const {
  std::vector<FitCandidate> runs;
  for (const char* fraction : {"0.75", "0.5", "0.25"}) {
    if (auto between = with_activation_budget(asked, fraction, options_.space))
      runs.push_back(std::move(*between));
  }
  return runs;
}

// The form that is fastest when nothing is recomputed comes first: what it fits with may beat all others. Of equally fast ones
// the smallest change comes first.
void PlanSearch::search_forms(const FitCandidate& asked) {
  const std::vector<FitCandidate> forms = shared_forms(asked, options_.space);
  plan_ahead(forms);
  std::vector<PlannedCandidate> wholes;
  for (const FitCandidate& form : forms) {
    if (const std::optional<PlannedCandidate> whole = plan(form)) wholes.push_back(*whole);
  }
  double fastest = std::numeric_limits<double>::infinity();
  for (const PlannedCandidate& whole : wholes) fastest = std::min(fastest, whole.step_seconds);
  std::stable_sort(wholes.begin(), wholes.end(), [&](const auto& a, const auto& b) {
    const auto rank = [&](const PlannedCandidate& whole) {
      return std::pair(time_class(whole.step_seconds, fastest), whole.run.tier);
    };
    return rank(a) < rank(b);
  });
  for (const PlannedCandidate& whole : wholes) search_form(whole);
}

// Gives up where nothing of the form can be faster than what fits already.
void PlanSearch::search_form(const PlannedCandidate& whole) {
  if (is_beaten_whole(whole)) return;
  const FitCandidate& form = whole.run;
  if (is_beaten_by_larger_change(whole)) {
    search_least(whole);
    return;
  }
  search_micro_batches(form);
}

// What fits without recomputing anything is known before anything is recomputed: it beats most of it.
void PlanSearch::search_micro_batches(const FitCandidate& form) {
  const TrainingArguments& args = form.arguments;
  OpenOrders orders{.layer_major = may_fit_layer_major(form)};
  std::vector<WholeForm> too_large;
  for (const int64_t size : micro_batch_sizes(args)) {
    const bool is_own = size == args.per_device_train_batch_size;
    const auto split = is_own ? std::optional(form) : with_micro_batch(form, size, options_.space);
    const OpenOrders open = orders;
    if (split) plan_micro_batch(*split, orders, too_large);
    // Smaller ones that are dealt out unevenly may leave less to the rank that has most.
    if (!has_even_shares(args)) orders = open;
  }
  for (size_t i = 0; i < too_large.size(); ++i) {
    plan_recompute_ahead(std::span(too_large).subspan(i));
    search_recompute(too_large[i]);
  }
}

// The form with all that makes it smaller but recomputation, in both orders: of many micro-batches either may hold less.
std::vector<FitCandidate> PlanSearch::smallest_of(FitCandidate form) const {
  const FitSpace& space = options_.space;
  if (auto split = with_micro_batch(form, 1, space)) form = std::move(*split);
  if (auto gathered = with_gathering(form, kLeastGathering, space)) form = std::move(*gathered);
  std::vector<FitCandidate> orders = {form};
  if (auto ordered = with_layer_order(form, space)) orders.push_back(std::move(*ordered));
  for (FitCandidate& order : orders) {
    if (auto soon = with_update_in_backward(order, space)) order = std::move(*soon);
  }
  return orders;
}

// Each layer recomputed, or as it is where that is not open.
FitCandidate PlanSearch::with_every_layer(const FitCandidate& run) const {
  return with_recompute(run, 1, options_.space).value_or(run);
}

// Whether a run whose every layer is recomputed in `every`, which does not fit, fits with longer segments. Of n layers they keep an
// nth of the inputs, so that none saves twice what those of two layers save.
bool PlanSearch::may_fit_in_segments(const FitCandidate& run, const PlannedCandidate& every) {
  bool found = false;
  grow_segments(run, false, [&](int64_t layers, const PlannedCandidate& planned) {
    found = fits(planned);
    const int64_t saved = every.process_bytes - planned.process_bytes;
    return found || (layers == 2 && every.process_bytes - 2 * saved > options_.budget_bytes);
  });
  return found;
}

// Segments grow in the order that holds less with each layer recomputed.
bool PlanSearch::may_fit(const FitCandidate& form) {
  std::optional<PlannedCandidate> smallest;
  FitCandidate run_of_smallest;
  for (const FitCandidate& run : smallest_of(form)) {
    const std::optional<PlannedCandidate> every = plan(with_every_layer(run));
    if (!every) continue;
    if (fits(*every)) return true;
    if (smallest && smallest->process_bytes <= every->process_bytes) continue;
    smallest = every;
    run_of_smallest = run;
  }
  return smallest && may_fit_in_segments(run_of_smallest, *smallest);
}

// Whether it is worth looking for layer-major plans of a form: not where their smallest does not fit.
bool PlanSearch::may_fit_layer_major(const FitCandidate& form) {
  const std::vector<FitCandidate> orders = smallest_of(form);
  if (orders.size() == 1) return true;
  const std::optional<PlannedCandidate> layer_major = plan(with_every_layer(orders.back()));
  if (!layer_major) return false;
  if (fits(*layer_major)) return true;
  const std::optional<PlannedCandidate> other = plan(with_every_layer(orders.front()));
  const bool is_smaller = !other || layer_major->process_bytes < other->process_bytes;
  return is_smaller && may_fit_in_segments(orders.back(), *layer_major);
}

FormResult PlanSearch::find_in_form(const FitCandidate& form, const std::set<MathsChange>& allowed) {
  options_.space.allowed = allowed;
  FormResult result;
  result.whole = plan(form);
  if (!result.whole) return result;
  const bool can_fit = result.whole->least_bytes <= options_.budget_bytes;
  if (result.whole->trains && can_fit && (fits(*result.whole) || may_fit(result.whole->run))) {
    only_form_ = form;
    search_micro_batches(result.whole->run);
    only_form_.reset();
  }
  for (const PlannedCandidate& candidate : planned_) {
    if (!is_allowed(candidate) || !is_of_form(candidate, form)) continue;
    if (!result.least || candidate.process_bytes < result.least->process_bytes) result.least = candidate;
    if (fits(candidate)) result.fitting.push_back(candidate);
  }
  sort_by_preference(result.fitting);
  return result;
}

PlannedCandidate PlanSearch::find_least(const FitCandidate& asked) {
  plan_smallest(asked);
  return *std::ranges::min_element(planned_, {}, &PlannedCandidate::process_bytes);
}

// The smallest of a form, unless what is known of its tier takes less than its state: the whole batch, and single samples in both
// orders.
void PlanSearch::search_least(const PlannedCandidate& whole) {
  const auto is_larger = [&](const FitCandidate& run) {
    return std::any_of(planned_.begin(), planned_.end(), [&](const PlannedCandidate& other) {
      return other.run.tier <= run.tier && other.process_bytes + kProcessesDifferBy <= whole.least_bytes;
    });
  };
  std::vector<FitCandidate> runs = {whole.run};
  if (auto split = with_micro_batch(whole.run, 1, options_.space)) {
    if (auto ordered = with_layer_order(*split, options_.space)) runs.push_back(std::move(*ordered));
    runs.push_back(std::move(*split));
  }
  for (size_t i = 0, count = runs.size(); i < count; ++i) {
    if (auto soon = with_update_in_backward(runs[i], options_.space)) runs.push_back(std::move(*soon));
  }
  std::erase_if(runs, is_larger);
  std::vector<FitCandidate> first;
  for (const FitCandidate& run : runs) {
    for (const int64_t layers : {1, 2}) {
      if (auto recomputed = with_recompute(run, layers, options_.space))
        first.push_back(std::move(*recomputed));
    }
  }
  plan_ahead(first);
  for (const FitCandidate& run : runs) {
    if (!with_recompute(run, 1, options_.space)) plan(run, true);
    grow_segments(run, true, [](int64_t, const PlannedCandidate&) { return false; });
  }
}

// What changes most about the run of what is allowed, shared by as many stages or more. Other products may take more code than
// they save, so that what changes most and keeps the products is one of them.
std::vector<FitCandidate> PlanSearch::smallest_forms(const FitCandidate& asked) const {
  std::vector<FitCandidate> forms = numeric_forms(asked, options_.space);
  const auto counts_apart = [&](const FitCandidate& form) {
    return options_.other_code_bytes > 0 && !has_other_products(form.arguments, asked.arguments);
  };
  size_t most = 0, most_apart = 0;
  for (const FitCandidate& form : forms) {
    size_t& largest = counts_apart(form) ? most_apart : most;
    largest = std::max(largest, form.flags.size());
  }
  std::erase_if(forms, [&](const FitCandidate& form) {
    return form.flags.size() < (counts_apart(form) ? most_apart : most);
  });
  for (size_t i = 0, count = forms.size(); i < count; ++i) {
    for (int64_t stage = forms[i].arguments.zero_stage + 1; stage <= 3; ++stage) {
      if (auto shared = with_zero_stage(forms[i], stage, options_.space)) forms.push_back(std::move(*shared));
    }
  }
  return forms;
}

// Plans the run with everything that makes it smaller, tier by tier, and with all that is allowed, which may be adapters
// without another precision.
void PlanSearch::plan_smallest(const FitCandidate& asked) {
  FitSpace& space = options_.space;
  const std::set<MathsChange> allowed = space.allowed;
  std::set<std::set<MathsChange>> scopes = {allowed};
  for (size_t tiers = 1; tiers <= kTiers.size(); ++tiers)
    scopes.insert({kTiers.begin(), kTiers.begin() + static_cast<ptrdiff_t>(tiers)});
  std::vector<FitCandidate> smallest;
  for (const std::set<MathsChange>& scope : scopes) {
    space.allowed = scope;
    for (const FitCandidate& form : smallest_forms(asked)) {
      for (const FitCandidate& order : smallest_of(form)) smallest.push_back(with_every_layer(order));
    }
  }
  space.allowed = allowed;
  plan_ahead(smallest);
  for (const FitCandidate& run : smallest) plan(run, true);
}

bool PlanSearch::may_fit_with(const FitCandidate& asked, const std::set<MathsChange>& allowed) {
  options_.space.allowed = allowed;
  return std::ranges::any_of(smallest_forms(asked),
                             [this](const FitCandidate& form) { return may_fit(form); });
}

std::optional<PlannedCandidate> PlanSearch::first_that_fits(std::span<const FitCandidate> runs) {
  for (const FitCandidate& run : runs) {
    std::optional<PlannedCandidate> planned = plan_as_it_is(run);
    if (planned && fits(*planned)) return planned;
  }
  return std::nullopt;
}

// Each alone, by name; the run as asked for comes first.
std::vector<std::pair<std::string, FitCandidate>> PlanSearch::techniques_of(const FitCandidate& asked) const {
  const FitSpace open{{kTiers.begin(), kTiers.end()}, options_.space.held};
  std::vector<std::pair<std::string, FitCandidate>> techniques;
  const auto add = [&](std::string name, const std::optional<FitCandidate>& run) {
    if (run) techniques.emplace_back(std::move(name), *run);
  };
  add("as asked for", asked);
  add("recompute every layer", with_recompute(asked, 1, open));
  add("recompute values, half as much", with_activation_budget(asked, "0.5", open));
  const auto split = with_micro_batch(asked, 1, open);
  add("micro-batches of 1, accumulated", split);
  if (split) add("micro-batches of 1, layer-major order", with_layer_order(*split, open));
  add("update in the backward, no clipping", with_update_in_backward(asked, open));
  const auto half = with_bf16(asked, open);
  add("bf16", half);
  add("bf16 without fp32 masters", without_masters(half ? *half : asked, open));
  add("8-bit AdamW", with_optimizer(asked, "adamw_8bit", open));
  add("Adafactor", with_optimizer(asked, "adafactor", open));
  add("LoRA of rank 8", with_adapters(asked, kOfferedLoraRank, open));
  add("states shared (ZeRO 1)", with_zero_stage(asked, 1, open));
  add("gradients and states shared (ZeRO 2)", with_zero_stage(asked, 2, open));
  add("all shared (ZeRO 3)", with_zero_stage(asked, 3, open));
  return techniques;
}

std::vector<TechniqueEffect> PlanSearch::effects_of_techniques(const FitCandidate& asked) {
  const std::vector<std::pair<std::string, FitCandidate>> techniques = techniques_of(asked);
  std::vector<FitCandidate> runs;
  for (const auto& [name, run] : techniques) runs.push_back(run);
  plan_ahead(runs);
  std::vector<TechniqueEffect> effects;
  for (const auto& [name, run] : techniques) {
    if (const std::optional<PlannedCandidate> planned = plan(run)) effects.push_back({name, *planned});
  }
  return effects;
}

const PlannedCandidate& PlanSearch::bound_plan(const std::vector<PlannedCandidate>& fitting) const {
  const PlannedCandidate* binds = nullptr;
  for (const PlannedCandidate& candidate : planned_) {
    if (fits(candidate) || !is_allowed(candidate)) continue;
    if (binds == nullptr || candidate.step_seconds < binds->step_seconds) binds = &candidate;
  }
  if (binds != nullptr) return *binds;
  return fitting.empty() ? planned_.front() : fitting.front();
}

// Searches with the next tier of changes open as well, which is not what was asked for: of a large model it is cut short.
std::optional<PlannedCandidate> PlanSearch::find_above(const FitCandidate& asked) {
  const MathsChange most = *options_.space.allowed.rbegin();
  const auto above = std::upper_bound(kTiers.begin(), kTiers.end(), most);
  if (above == kTiers.end()) return std::nullopt;
  const std::set<MathsChange> allowed = options_.space.allowed;
  options_.space.allowed.insert(*above);
  start_ = std::chrono::steady_clock::now();
  const double most_seconds = std::exchange(options_.most_seconds_of_recompute, kMostSecondsAbove);
  search_forms(asked);
  options_.most_seconds_of_recompute = most_seconds;
  options_.space.allowed = allowed;
  std::vector<PlannedCandidate> fitting;
  std::copy_if(planned_.begin(), planned_.end(), std::back_inserter(fitting),
               [&](const PlannedCandidate& one) { return one.run.tier <= *above && fits(one); });
  sort_by_preference(fitting);
  if (fitting.empty() || fitting.front().run.tier != *above) return std::nullopt;
  return fitting.front();
}

MemoryAnatomy PlanSearch::anatomy_of(const PlannedCandidate& planned) const {
  const std::unique_ptr<Session> session = session_of(planned.run, false);
  MemoryForecast forecast = forecast_least_memory(*session, options_.budget_bytes);
  forecast.process_overhead_bytes = planned.process_bytes - session->plan().arena_bytes();
  return memory_anatomy(*session, forecast);
}

std::vector<PlannedCandidate> PlanSearch::sweep(const FitCandidate& asked) {
  constexpr int64_t kMostBudgets = 40;
  plan_or_throw(asked);
  plan_smallest(asked);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const PlannedCandidate& planned : planned_) {
    if (is_allowed(planned)) least = std::min(least, planned.process_bytes);
  }
  int64_t step = 0;  // from one budget to the next: so many reach from the fastest plan to the least
  options_.budget_bytes = std::numeric_limits<int64_t>::max();
  for (int64_t i = 0; i <= kMostBudgets; ++i) {
    search_forms(asked);
    std::vector<PlannedCandidate> fitting;
    std::copy_if(planned_.begin(), planned_.end(), std::back_inserter(fitting),
                 [&](const PlannedCandidate& planned) { return is_allowed(planned) && fits(planned); });
    if (fitting.empty()) break;
    sort_by_preference(fitting);
    const int64_t chosen = fitting.front().process_bytes;
    if (i == 0) step = std::max<int64_t>(1, (chosen - least) / kMostBudgets);
    options_.budget_bytes = chosen - step;
  }
  std::vector<PlannedCandidate> allowed;
  for (const PlannedCandidate& candidate : planned_) {
    if (is_allowed(candidate)) allowed.push_back(candidate);
  }
  return frontier_of(std::move(allowed));
}

FitResult PlanSearch::explain(const FitCandidate& asked) {
  FitResult result;
  const PlannedCandidate planned = plan_or_throw(asked);
  result.fitting = result.frontier = {planned};
  result.bound = planned;
  result.techniques = effects_of_techniques(asked);
  result.plans = std::ssize(planned_);
  return result;
}

std::vector<PlannedCandidate> PlanSearch::nearly_as_small(MathsChange tier,
                                                          const PlannedCandidate& least) const {
  using Shape = std::pair<int64_t, std::string>;
  const auto shape_of = [](const PlannedCandidate& plan) {
    return Shape(plan.run.arguments.per_device_train_batch_size, plan.run.arguments.accumulation_order);
  };
  std::map<Shape, const PlannedCandidate*> smallest;
  for (const PlannedCandidate& candidate : planned_) {
    if (candidate.run.tier > tier || candidate.arena_bytes > least.arena_bytes + kProcessesDifferBy) continue;
    const PlannedCandidate*& known = smallest[shape_of(candidate)];
    if (known == nullptr || candidate.arena_bytes < known->arena_bytes) known = &candidate;
  }
  std::vector<PlannedCandidate> others;
  for (const auto& [shape, plan] : smallest) {
    if (shape != shape_of(least)) others.push_back(*plan);
  }
  return others;
}

FitResult PlanSearch::find(const FitCandidate& run) {
  plan_or_throw(run);
  plan_smallest(run);
  search_forms(run);
  const std::vector<FitCandidate> between = runs_between(run);
  plan_ahead(between);
  for (const FitCandidate& one : between) plan(one);
  FitResult result;
  std::vector<PlannedCandidate> searched;
  for (const PlannedCandidate& candidate : planned_) {
    if (!is_allowed(candidate)) continue;
    searched.push_back(candidate);
    if (fits(candidate)) result.fitting.push_back(candidate);
  }
  sort_by_preference(result.fitting);
  result.frontier = frontier_of(std::move(searched));
  result.bound = bound_plan(result.fitting);
  result.techniques = effects_of_techniques(run);
  result.above = find_above(run);
  result.above_is_cut_short = was_cut_short_;
  for (const MathsChange tier : kTiers) {
    for (const PlannedCandidate& candidate : planned_) {
      if (candidate.run.tier > tier) continue;
      const auto least = result.least.find(tier);
      if (least == result.least.end() || candidate.process_bytes < least->second.process_bytes)
        result.least.insert_or_assign(tier, candidate);
    }
    if (result.least.contains(tier)) result.nearly_least[tier] = nearly_as_small(tier, result.least.at(tier));
  }
  result.plans = std::ssize(planned_);
  return result;
}

}  // namespace shoehorn
