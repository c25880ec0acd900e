#include "cli/find_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "arguments/flag_words.h"
#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "cli/calibrated_costs.h"
#include "cli/disliked_sizes.h"
#include "cli/exact_plans.h"
#include "cli/finalists.h"
#include "cli/link_option.h"
#include "cli/planned_machine.h"
#include "cli/planned_task.h"
#include "cli/stage_line.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "lab/parallel_runs.h"
#include "session/batching.h"
#include "session/memory_forecast.h"
#include "train/planned_run.h"

namespace shoehorn {

namespace {

using enum ArgumentKind;

std::set<MathsChange> allowed_changes(const CommandOptions& options) {
  std::set<MathsChange> allowed = {MathsChange::kExact};
  for (const std::string& name : options.list("allow")) {
    const MathsChange tier = tier_of(name, "--allow");
    allowed.insert(tier);
    if (tier > MathsChange::kRounding) allowed.insert(MathsChange::kRounding);
  }
  return allowed;
}

std::set<Degree> degrees_of(const CommandOptions& options, const std::string& name) {
  std::set<Degree> degrees;
  for (const std::string& degree : options.list(name)) degrees.insert(degree_of(degree, "--" + name));
  return degrees;
}

// The flag that makes micro-batches of an effective batch, whose division is open, as large as a rank's share of it permits.
std::vector<std::string> batch_flags(const ParsedArguments& parsed) {
  const TrainingArguments& args = parsed.arguments;
  if (!args.effective_batch_size) return {};
  if (*args.effective_batch_size < args.world_size) {
    throw user_error(
        "[--effective_batch_size] expected a sample for each of {0} ranks, got {1}; give {0} or more, or a smaller "
        "--world_size",
        args.world_size, *args.effective_batch_size);
  }
  if (parsed.sets("per_device_train_batch_size") || parsed.sets("gradient_accumulation_steps")) return {};
  TrainingArguments open = args;
  open.per_device_train_batch_size = 1;
  return {"--per_device_train_batch_size", std::to_string(micro_batch_sizes(open).front())};
}

// The flags that say how ranks gather weights, which train chooses by its memory where nobody does.
std::vector<std::string> gathering_flags(const TrainingArguments& args) {
  if (!has_open_gathering(args)) return {};
  const Gathering gathering = gathering_of(args);
  return {"--zero_prefetch_layers", std::to_string(gathering.prefetch_layers), "--zero_persistence_threshold",
          std::to_string(gathering.persistence_threshold)};
}

// What `train` needs besides what `plan` was given: placeholders for people.
std::vector<std::string> completed_to_train(const std::vector<std::string>& given, const PlannedTask& task) {
  const TrainingArguments& args = task.arguments;
  const bool is_shape = task.source.directory.empty() && !names_new_model(args);
  std::vector<std::string> words = is_shape ? without_row(given, "model_name_or_path") : given;
  if (is_shape) words.insert(words.begin(), {"--model_name_or_path", "DIR"});
  if (!is_shape && task.source.tokenizer().empty()) words.insert(words.end(), {"--tokenizer_name", "DIR"});
  if (args.train_file.empty()) words.insert(words.end(), {"--train_file", "FILE"});
  return words;
}

// What fits is found with the process besides the arenas of the run as asked for. Near the boundary another may fit: the
// smallest plans and those of the frontier are known to the byte.
void add_exact(const std::set<MathsChange>& allowed, int64_t budget_bytes, FitResult& result) {
  const auto add = [&](const PlannedCandidate& plan) {
    const bool is_known =
        std::any_of(result.fitting.begin(), result.fitting.end(),
                    [&](const PlannedCandidate& other) { return other.run.flags == plan.run.flags; });
    if (budget_for(plan) <= budget_bytes && !is_known) result.fitting.push_back(plan);
  };
  for (const auto& [tier, plan] : result.least) {
    if (!allowed.contains(tier)) break;  // those above it use it, too
    add(plan);
  }
  for (const PlannedCandidate& row : result.frontier) add(row);
  sort_by_preference(result.fitting);
}

// The run that is asked for, its data and its machine, and the search; the search refers to the rest.
struct OpenedFit {
  std::vector<std::string> standing = {};  // flags that say of what is open how the run as asked for has it
  std::vector<std::string> machine = {};   // the flags of `plan` that name another machine
  std::set<MathsChange> allowed = {};
  PlannedTask task = {};
  PlannedMachine planned = {};
  LoadedCalibration calibration = {};
  std::optional<PlanSearch> search = {};

  FitCandidate asked() const { return {task.arguments, standing}; }
};

// Epochs of the run; 0: the samples are unknown.
double epochs_of(const PlannedTask& task) {
  const TrainingArguments& args = task.arguments;
  if (!task.has_samples) return 0;
  if (args.max_steps <= 0) return args.num_train_epochs;
  return static_cast<double>(args.max_steps * effective_batch_size(args)) /
         static_cast<double>(task.train.epoch_size());
}

// Of `all_bytes` what --reserve leaves.
int64_t budget_beside_reserve(const CommandOptions& options, int64_t all_bytes) {
  const int64_t reserved = options.integer("reserve");
  if (reserved > 0 && reserved >= all_bytes) {
    throw user_error("[--reserve] expected less than the memory budget of {}, got {}, which leaves nothing",
                     format_bytes(all_bytes), format_bytes(reserved));
  }
  return all_bytes - reserved;
}

// `machine`: another one's name or file, or empty.
void open_fit(const CommandOptions& options, const std::string& machine, OpenedFit& opened, FoundFit& found) {
  std::vector<std::string> given = options.rest;
  std::erase(given, "--json");
  const ParsedArguments asked = parse_arguments(Command::kPlan, options.rest);
  for (const char* config : {"deepspeed", "fsdp"}) {
    if (!asked.sets(config)) continue;
    throw user_error(
        "[--{}] expected flags for fit, which changes them, got a configuration, whose values stay; give what it says as "
        "flags",
        config);
  }
  opened.standing = joined(batch_flags(asked), gathering_flags(asked.arguments));
  const ParsedArguments parsed = parse_arguments(Command::kPlan, joined(given, opened.standing));

  const std::set<Degree> forbidden = degrees_of(options, "forbid");
  check_unused(parsed.arguments, forbidden);
  opened.allowed = allowed_changes(options);
  FitSpace space{opened.allowed,
                 given_degrees(asked.arguments, [&](std::string_view row) { return asked.sets(row); })};
  space.held.merge(degrees_of(options, "fix"));
  space.held.insert(forbidden.begin(), forbidden.end());

  use_threads(parsed.arguments.num_threads);
  if (!machine.empty()) opened.machine = {"--machine_profile", machine};
  opened.planned = open_planned_machine(machine, parsed.arguments);
  const std::shared_ptr<const Backend>& backend = opened.planned.backend;
  opened.task = open_planned_task(parsed);
  const PlannedTask& task = opened.task;
  if (!task.arguments.resume_from_checkpoint.empty()) space.held.merge(degrees_of_checkpoint());
  // Adapters are of weights that were saved.
  if (names_new_model(task.arguments)) space.held.insert(Degree::kAdapters);
  if (backend->can_run()) {
    const StageLine line("timing a short step", task.arguments);
    opened.calibration = calibrated_costs(backend, true);
  }
  const std::optional<OpCosts>& costs = opened.calibration.costs;

  const PlannedLink link = planned_link(options, task.arguments, opened.planned);
  space.knows_link = link.link.has_value();
  FitReport& report = found.report;
  report.allowed = opened.allowed;
  report.given_to_train = completed_to_train(given, task);
  report.given = std::move(given);
  report.samples = effective_batch_size(task.arguments);
  report.samples_in_epoch = task.has_samples ? task.train.epoch_size() : 0;
  report.epochs = epochs_of(task);
  if (!backend->can_run()) report.device = backend->machine().cpu;
  const int64_t all =
      whole_process_budget(*backend, backend->memory_limit(), ranks_sharing_memory(task.arguments, *backend));
  report.budget_bytes = budget_beside_reserve(options, task.arguments.memory_budget.value_or(all));
  const ExactPlan plan =
      exact_plan_of(plan_in_process(joined(report.given, opened.machine), opened.standing));
  const auto options_of = [&task](const TrainingArguments& args) {
    return session_options_of(*task.source.model, args, {&task.train, &task.validation});
  };
  opened.search.emplace(
      *task.source.model, options_of,
      PlanSearchOptions{
          .space = std::move(space),
          .budget_bytes = report.budget_bytes - kSparedBytes,
          .overhead_bytes = plan.process_bytes - plan.arena_bytes,
          .limits = costs ? costs->limits() : measured_limits(*backend, task.arguments),
          .costs = costs ? &*costs : nullptr,
          .lengths = task.has_samples ? std::optional(sample_lengths(task.train, 1)) : std::nullopt,
          .device = opened.planned.device ? &*opened.planned.device : nullptr,
          .link = link.link,
          .backend = backend,
          .compares_only = true});
  found.text = task.text + opened.calibration.notice + link.text;
  if (!backend->can_run())
    found.text +=
        fmt::format("Planned for {}; its times are lower bounds and not validated\n", report.device);
  found.is_json = asked.arguments.json;
}

// Why --verify runs no steps here; nullopt where it does.
std::optional<std::string> obstacle_of_steps(const Backend& backend, const TrainingArguments& args) {
  if (!backend.can_run()) return "expected none with --machine_profile, got it; no step can be run there";
  if (args.world_size == 1) return std::nullopt;
  if (ranks_of_host(args) < args.world_size) {
    return fmt::format(
        "expected ranks of this host, got {} of {} a host (--ranks_per_host); leave it out: their times are as predicted",
        args.world_size, ranks_of_host(args));
  }
  const ThreadCount count = thread_count();
  if (args.world_size * count.threads > count.processors.usable()) {
    return fmt::format(
        "expected ranks for which this host has processors, got {} with {} each on {}; give fewer --num_threads, or leave it out: "
        "their times are as predicted",
        plural(args.world_size, "rank"), plural(count.threads, "thread"),
        plural(count.processors.usable(), "processor"));
  }
  return std::nullopt;
}

// What starts the ranks whose steps are run, over the link that was given; nothing for one process.
std::vector<std::string> launch_of(const CommandOptions& options, const TrainingArguments& args) {
  if (args.world_size == 1) return {};
  return launch_words(args.world_size, given_link(options));
}

}  // namespace

const std::vector<ArgumentSpec>& fit_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "allow",
       .kind = kList,
       .standard = std::vector<std::string>{"rounding"},
       .help = "the most that may change: exact, rounding, numerics (bf16, 8-bit states, no clipping with an "
               "update in the backward), adapters (LoRA)"},
      {.name = "fix",
       .kind = kList,
       .standard = std::vector<std::string>{},
       .help =
           "stay as they are: batch, order, recompute, update_in_backward, precision, masters, optimizer, adapters, "
           "sharing, gathering, evaluation"},
      {.name = "forbid",
       .kind = kList,
       .standard = std::vector<std::string>{},
       .help = "the same, of what the run may not use at all"},
      {.name = "reserve",
       .kind = kBytes,
       .standard = int64_t{0},
       .help = "left free of the budget, as 256MiB"},
      {.name = "verify",
       .kind = kInteger,
       .standard = int64_t{0},
       .help = "run two steps of each of the best N plans, twice, and take the fastest"},
      link_rows()[0],
      link_rows()[1],
      {.name = "explain",
       .kind = kFlag,
       .standard = false,
       .status = ArgumentStatus::kRefused,
       .why =
           "`shoehorn plan --explain` tells what each pass saves, and `shoehorn fit --why` what each technique would "
           "change"},
  };
  return rows;
}

const std::vector<ArgumentSpec>& fit_look_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "budget_sweep",
       .kind = kFlag,
       .standard = false,
       .help = "the whole curve, from the fastest plan to the least budget, instead of one budget's"},
      {.name = "why",
       .kind = kFlag,
       .standard = false,
       .help = "no search: what binds in the run as it is, and what each technique would change"},
      {.name = "fit_print",
       .kind = kFlag,
       .standard = false,
       .help = "no search: the bytes of the run as it is"},
      {.name = "report",
       .kind = kText,
       .standard = std::string(),
       .value = "FILE",
       .help = "write what was found as a page of HTML"},
      {.name = "price_per_hour",
       .kind = kNumber,
       .standard = 0.0,
       .help = "of the machine: an epoch's price is then told"},
      machine_profile_row(),
  };
  return rows;
}

void find_fit(const CommandOptions& options, int64_t verified, FoundFit& found, const std::string& machine) {
  if (options.is_given("verify")) verified = options.integer_at_least("verify", 0);
  OpenedFit opened;
  open_fit(options, machine, opened, found);
  const std::optional<std::string> obstacle =
      obstacle_of_steps(*opened.planned.backend, opened.task.arguments);
  if (verified > 0 && obstacle) throw user_error("[--verify] {}", *obstacle);
  const std::vector<std::string> launch =
      verified > 0 ? launch_of(options, opened.task.arguments) : std::vector<std::string>();
  FitReport& report = found.report;
  report.may_measure = !obstacle;
  {
    const StageLine line("planning what may fit", opened.task.arguments);
    found.result = opened.search->find(opened.asked());
  }
  ExactPlans exact_plans(joined(report.given, opened.machine));
  {
    const StageLine line("planning what is printed once more", opened.task.arguments);
    exact_plans.plan_rows(found.result);
    if (found.result.above && budget_for(*found.result.above) > report.budget_bytes)
      found.result.above.reset();
    report.binding = opened.search->anatomy_of(found.result.bound);
  }
  add_exact(opened.allowed, report.budget_bytes, found.result);
  {
    const StageLine line(verified > 0 ? "running the best plans" : "planning the best once more",
                         opened.task.arguments);
    choose_plan(found.result, exact_plans, static_cast<size_t>(verified), opened.task, launch, report);
  }
  if (report.chosen) tell_disliked_sizes(opened.task, opened.planned);
}

std::vector<PlannedCandidate> sweep_fit(const CommandOptions& options, FoundFit& found) {
  OpenedFit opened;
  open_fit(options, options.text("machine_profile"), opened, found);
  const StageLine line("planning what may fit", opened.task.arguments);
  std::vector<PlannedCandidate> curve = opened.search->sweep(opened.asked());
  ExactPlans(joined(found.report.given, opened.machine)).plan_frontier(curve);
  return curve;
}

void explain_fit(const CommandOptions& options, FoundFit& found) {
  OpenedFit opened;
  open_fit(options, options.text("machine_profile"), opened, found);
  FitResult& result = found.result;
  result = opened.search->explain(opened.asked());
  ExactPlans(joined(found.report.given, opened.machine)).plan_rows(result);
  result.fitting = {result.bound};
  found.report.binding = opened.search->anatomy_of(result.bound);
}

nlohmann::json planned_bytes(const CommandOptions& options, FoundFit& found) {
  OpenedFit opened;
  open_fit(options, options.text("machine_profile"), opened, found);
  return plan_in_process(joined(found.report.given, opened.machine), opened.standing);
}

}  // namespace shoehorn
