#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "analysis/step_time.h"
#include "arguments/argument_table.h"
#include "arguments/command_options.h"
#include "base/content_hash.h"
#include "base/error.h"
#include "base/format.h"
#include "base/memory_limit.h"
#include "base/process.h"
#include "base/user_error_kinds.h"
#include "cli/calibrated_costs.h"
#include "cli/commands.h"
#include "cli/notice_printer.h"
#include "cli/pass_table.h"
#include "cli/planned_machine.h"
#include "cli/planned_task.h"
#include "cli/stage_line.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "lab/machine_text.h"
#include "ops/dump.h"
#include "session/memory_refusal.h"
#include "train/auto_find_batch_size.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

const std::vector<ArgumentSpec>& plan_option_rows() {
  static const std::vector<ArgumentSpec> rows = {machine_profile_row()};
  return rows;
}

// Equal for two settings that run the same nodes as often on the same states: one program under two names.
std::string program_hash(const Session& session) {
  std::string text;
  for (const Program& program : session.family().programs)
    text += fmt::format("{}\ncalls {}\n", dump(program), session.calls_in_step(program));
  for (const Storage& storage : session.state().storages())
    text += fmt::format("{} {}\n", storage.name, type_name(storage.type));
  ContentHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

// How long a step takes: of this machine if it is calibrated, else why not; of another one at least, by its profile.
struct PlannedTime {
  std::optional<StepTime> time = {};
  std::string text = {};
};

PlannedTime planned_time(const Session& session, const PlannedMachine& machine,
                         const std::optional<SampleLengths>& lengths) {
  if (!machine.backend->can_run()) {
    const StepTime time = machine.device ? rated_step_time(session, *machine.device)
                                         : least_step_time(session, machine.backend->measure_limits());
    return {time, fmt::format("A step takes {}; not validated\n", format_step_time(time))};
  }
  const LoadedCalibration calibration = calibrated_costs(machine.backend, false);
  if (!calibration.costs) return {{}, calibration.notice};
  const StepTime time = calibrated_step_time(session, *calibration.costs, lengths);
  return {time, fmt::format("A step takes {}\n", format_step_time(time))};
}

}  // namespace

CommandHelp help_of_plan() {
  return {
      .name = "plan",
      .introduction =
          "What training would take, to the byte, without running it: give the flags of train. With --explain\n"
          "also what each pass saves.\n",
      .own_rows = plan_option_rows(),
      .table = Command::kPlan};
}

int run_plan(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(plan_option_rows(), words, UnknownFlags::kKeep);
  const ParsedArguments parsed = parse_arguments(Command::kPlan, options.rest);
  show_notices(parsed, parsed.arguments);
  use_threads(parsed.arguments.num_threads);
  const PlannedMachine machine = open_planned_machine(options.text("machine_profile"), parsed.arguments);
  const std::shared_ptr<const Backend>& backend = machine.backend;
  PlannedTask task = open_planned_task(parsed);
  const TrainingArguments& args = task.arguments;
  fmt::print(args.json ? stderr : stdout, "{}", task.text);
  const Model& model = *task.source.model;
  std::optional<SampleLengths> lengths;
  if (task.has_samples && !args.pad_to_max_length) {
    lengths = sample_lengths(task.train, args.per_device_train_batch_size);
  }
  const int64_t samples = task.has_samples ? task.train.epoch_size() : 0;
  const Trainer trainer(model, args, std::move(task.train), std::move(task.validation), {.backend = backend});
  const MemoryForecast& forecast = trainer.forecast();
  if (lengths) lengths->samples = trainer.arguments().per_device_train_batch_size;  // auto_find_batch_size
  const PlannedTime time = planned_time(trainer.session(), machine, lengths);
  std::vector<PassEffect> effects;
  if (args.explain)
    effects = explain_passes(model, trainer.session().options(), measured_limits(*backend, args));
  if (args.json) {
    nlohmann::json result = to_json(forecast);
    if (args.explain) result["passes"] = to_json(effects);
    result["per_device_train_batch_size"] = trainer.arguments().per_device_train_batch_size;
    result["program"] = program_hash(trainer.session());
    const StepOptions& step = trainer.session().options().step;
    if (!step.recompute_set.empty()) result["recompute_set"] = step.recompute_set;
    if (time.time) {
      result.update(to_json(*time.time));
      if (!backend->can_run()) result["validated"] = false;
      if (samples > 0) {
        result["epoch_seconds"] = time.time->seconds * static_cast<double>(samples) /
                                  static_cast<double>(effective_batch_size(trainer.arguments()));
      }
    }
    result["threads"] = backend->machine().threads;
    if (!backend->can_run()) result["machine"] = absent_machine_to_json(backend->machine());
    fmt::print("{}\n", result.dump(2));
  } else {
    fmt::print("{}{}", format_found_batch_size(args, trainer.arguments()), format_forecast(forecast));
    if (backend->can_run()) fmt::print("Planned for {}\n", describe(thread_count()));
    if (!backend->can_run()) fmt::print("{}", format_absent_machine(backend->machine()));
    fmt::print("{}", time.text);
    if (args.explain) fmt::print("\n{}", format_passes(effects));
  }
  if (!forecast.fits()) throw DoesNotFit(format_refusal(forecast, trainer.alternatives()));
  return 0;
}

}  // namespace shoehorn
