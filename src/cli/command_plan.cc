#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "analysis/rank_methods.h"
#include "analysis/step_time.h"
#include "arguments/argument_table.h"
#include "arguments/command_options.h"
#include "base/error.h"
#include "base/format.h"
#include "base/memory_limit.h"
#include "base/plural.h"
#include "base/process.h"
#include "base/user_error_kinds.h"
#include "cli/commands.h"
#include "cli/disliked_sizes.h"
#include "cli/link_option.h"
#include "cli/notice_printer.h"
#include "cli/pass_table.h"
#include "cli/planned_machine.h"
#include "cli/planned_task.h"
#include "cli/stage_line.h"
#include "cli/step_timer.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "fit/memory_refusal.h"
#include "lab/machine_text.h"
#include "session/program_hash.h"
#include "train/auto_find_batch_size.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

const std::vector<ArgumentSpec>& plan_option_rows() {
  static const std::vector<ArgumentSpec> rows = [] {
    std::vector<ArgumentSpec> all = link_rows();
    all.push_back(machine_profile_row());
    return all;
  }();
  return rows;
}

// A process that only evaluates or predicts with the same model, batches and precision, as `eval` and `predict` are; nothing
// where there is nothing to evaluate.
std::optional<SessionOptions> evaluation_alone(const Trainer& trainer) {
  SessionOptions options = trainer.session().options();
  if (options.kind == RunKind::kEvaluate || options.evaluation.sequences == 0) return std::nullopt;
  options.kind = RunKind::kEvaluate;
  options.train = {};
  options.smaller_train.clear();
  options.staging_bytes = 0;
  options.step.ranks = {};
  options.step.dump_directory.clear();
  return options;
}

struct Plan {
  const Trainer& trainer;
  const StepTimer& timer;
  const PlannedLink& link;
  const MpiMemory& mpi;
  int64_t samples = 0;  // of the training file
  std::vector<PassEffect> effects = {};
  std::vector<RankMethod> methods = {};

  const Session& session() const { return trainer.session(); }
  const Backend& backend() const { return trainer.session().backend(); }
};

// --explain: what each pass saves, and what ranks that share a step otherwise would hold and send.
void explain(const Model& model, Plan& plan) {
  const TrainingArguments& args = plan.trainer.arguments();
  if (!args.explain) return;
  plan.effects = explain_passes(model, plan.session().options(), measured_limits(plan.backend(), args));
  if (args.world_size == 1) return;
  plan.methods = compare_rank_methods(model, plan.session().options(), [&](const Session& session) {
    return plan.timer.has_times() ? plan.timer.time_of(session) : StepTime{};
  });
}

nlohmann::json json_of(const Plan& plan) {
  const TrainingArguments& args = plan.trainer.arguments();
  const bool can_run = plan.backend().can_run();
  nlohmann::json result = to_json(plan.trainer.forecast());
  if (args.explain) result["passes"] = to_json(plan.effects);
  result["per_device_train_batch_size"] = args.per_device_train_batch_size;
  result["program"] = program_hash(plan.session());
  const StepOptions& step = plan.session().options().step;
  if (!step.recompute_set.empty()) result["recompute_set"] = step.recompute_set;
  if (args.world_size > 1) {
    const StepTraffic traffic = step_traffic(plan.session());
    result["sent_in_step"] = to_json(traffic.kinds);
    result["sent_by_link"] = link_bytes_to_json(traffic);
  }
  if (step.ranks.stage() == 3) {
    result["zero_prefetch_layers"] = step.ranks.zero_prefetch_layers;
    result["zero_persistence_threshold"] = step.ranks.zero_persistence_threshold;
  }
  if (args.world_size > 1) result["mpi"] = to_json(plan.mpi);
  if (plan.link.link) result["message_seconds"] = message_seconds_in_step(plan.session(), *plan.link.link);
  if (!plan.methods.empty()) result["methods"] = to_json(plan.methods, plan.timer.has_times());
  if (plan.timer.has_times()) {
    const StepTime time = plan.timer.time_of(plan.session());
    result.update(to_json(time));
    if (!can_run) result["validated"] = false;
    if (plan.samples > 0) {
      result["epoch_seconds"] =
          time.seconds * static_cast<double>(plan.samples) / static_cast<double>(effective_batch_size(args));
    }
  }
  result["threads"] = plan.backend().machine().threads;
  if (!can_run) result["machine"] = absent_machine_to_json(plan.backend().machine());
  return result;
}

std::string format_gathering(const RankOptions& ranks) {
  if (ranks.stage() != 3) return {};
  return fmt::format("Weights are gathered {} ahead; those of at most {} elements stay whole\n",
                     plural(ranks.zero_prefetch_layers, "layer"),
                     format_count(ranks.zero_persistence_threshold));
}

std::string format_bytes_of(const TrainingArguments& asked, const Plan& plan) {
  const std::string of_mpi =
      asked.world_size == 1 ? ""
                            : fmt::format("  {:<30}{:>14}   of the process besides the arenas, {}\n", "MPI",
                                          format_bytes(plan.mpi.bytes), describe_source(plan.mpi));
  return format_found_batch_size(asked, plan.trainer.arguments()) + format_forecast(plan.trainer.forecast()) +
         of_mpi + format_traffic(step_traffic(plan.session())) +
         format_gathering(plan.session().options().step.ranks);
}

std::string format_times_of(const TrainingArguments& asked, const Plan& plan) {
  std::string text = plan.backend().can_run() ? fmt::format("Planned for {}\n", describe(thread_count()))
                                              : format_absent_machine(plan.backend().machine());
  text += plan.timer.text_of(plan.session()) + plan.link.text;
  if (plan.link.link) {
    text += fmt::format("Messages of a step take {:.3f} s where nothing hides them\n",
                        message_seconds_in_step(plan.session(), *plan.link.link));
  }
  if (asked.explain) text += "\n" + format_passes(plan.effects);
  if (!plan.methods.empty()) text += "\n" + format_rank_methods(plan.methods, plan.timer.has_times());
  return text;
}

}  // namespace

CommandHelp help_of_plan() {
  return {
      .name = "plan",
      .introduction =
          "What training would take, to the byte, without running it: give the flags of train. With --explain\n"
          "also what each pass saves, and of several ranks what they hold and send by the ways to share a step.\n\n"
          "  shoehorn plan --model_name_or_path DIR --train_file train.csv [FLAGS]\n",
      .own_rows = plan_option_rows(),
      .table = Command::kPlan};
}

int run_plan(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(plan_option_rows(), words, OtherWords::kTableFlags);
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
  const MpiMemory mpi = planned_mpi_memory(args, backend->can_run());
  const PlannedLink link = planned_link(options, args, machine);
  StepTimer timer(machine, lengths, link.link);
  std::optional<Trainer> trainer(
      std::in_place, model, args, std::move(task.train), std::move(task.validation),
      TrainerOptions{
          .backend = backend, .caller_bytes = mpi.bytes, .step_seconds = [&timer](const Session& session) {
            return timer.seconds_on_ranks(session);
          }});
  timer.set_micro_batch(trainer->arguments().per_device_train_batch_size);
  Plan plan{.trainer = *trainer, .timer = timer, .link = link, .mpi = mpi, .samples = samples};
  explain(model, plan);
  nlohmann::json json = args.json ? json_of(plan) : nlohmann::json();
  const std::string of_bytes = args.json ? "" : format_bytes_of(args, plan);
  const std::string of_times = args.json ? "" : format_times_of(args, plan);
  const bool fits = trainer->forecast().fits();
  const std::string refusal = fits ? "" : format_refusal(trainer->forecast(), trainer->alternatives());
  std::optional<SessionOptions> alone = evaluation_alone(*trainer);
  // A process that only evaluates has neither the training's data nor the code of its products.
  trainer.reset();
  std::optional<MemoryForecast> evaluation;
  if (alone) {
    Session session(model, *std::move(alone));
    evaluation = forecast_memory(session, args.memory_budget);
  }
  if (args.json) {
    if (evaluation) {
      json["evaluation_only"] = {{"arena_bytes", evaluation->arena_bytes()},
                                 {"process_peak_bytes", evaluation->process_bytes()}};
    }
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", of_bytes);
    if (evaluation) {
      fmt::print("  {:<30}{:>14}   of eval and predict, at most\n", "evaluation alone",
                 format_bytes(evaluation->process_bytes()));
    }
    fmt::print("{}", of_times);
  }
  if (!fits) throw DoesNotFit(refusal);
  tell_disliked_sizes(task, machine);
  return 0;
}

}  // namespace shoehorn
