#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "arguments/argument_table.h"
#include "arguments/command_options.h"
#include "base/error.h"
#include "base/format.h"
#include "base/median.h"
#include "base/plural.h"
#include "base/process.h"
#include "base/stop_request.h"
#include "base/thread_waits.h"
#include "cli/bench_step_options.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/output_lines.h"
#include "cli/planned_task.h"
#include "cli/rank_of_process.h"
#include "cli/stage_line.h"
#include "cli/step_timer.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "io/model_directory.h"
#include "lab/median_interval.h"
#include "lab/random_tokens.h"
#include "lab/step_watch.h"
#include "ranks/agreement.h"
#include "session/precision_report.h"
#include "session/program_hash.h"
#include "train/auto_find_batch_size.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

constexpr int64_t kFewestSteps = 4;
constexpr int64_t kMostSteps = 40;

// The run that is timed: no log, no report, no checkpoint. Unless the arguments say how many steps there are, they are
// repeated until the median is stable (StepWatch); those of a profile are counted.
TrainingArguments timed_arguments(const TrainingArguments& args) {
  TrainingArguments timed = without_files(args);
  // A profile begins after the first step.
  if (timed.max_steps <= 0)
    timed.max_steps = timed.profile > 0 ? std::max<int64_t>(kFewestSteps, timed.profile + 1) : kMostSteps;
  return timed;
}

// Ranks end when the first has seen enough. `ranks`: null for one.
std::shared_ptr<StepWatch> make_watch(const CommandOptions& options, const TrainingArguments& args,
                                      const std::shared_ptr<Communicator>& ranks) {
  StepWatchOptions watching{.threads = thread_count().threads, .least_steps = kFewestSteps};
  if (args.max_steps <= 0 && args.profile == 0) watching.precision = options.number("median_error");
  watching.max_seconds = options.number_at_least("max_seconds", 0);
  if (ranks != nullptr)
    watching.agree = [ranks](bool is_over) { return gather_values(*ranks, is_over ? 1 : 0).front() == 1; };
  return std::make_shared<StepWatch>(std::move(watching));
}

PlannedTask random_task(const ParsedArguments& parsed) {
  PlannedTask task;
  task.arguments = timed_arguments(parsed.arguments);
  task.source = open_model(task.arguments, true, false);
  task.arguments.max_seq_length = random_length(parsed, *task.source.model);
  task.train = random_steps(task.arguments, *task.source.model, task.arguments.max_steps);
  return task;
}

// Planned with its evaluation, which is not run, so that the programs and the memory are those of `train`.
PlannedTask text_task(const ParsedArguments& parsed, Communicator* ranks) {
  if (parsed.arguments.train_file.empty())
    throw user_error("[--on_texts] expected --train_file with it, got none; leave it out for random tokens");
  refuse_batch_size_ramp(parsed.arguments);  // before the texts are read
  PlannedTask task = open_planned_task(parsed, ranks);
  task.arguments = timed_arguments(task.arguments);
  return task;
}

// "" of one process.
std::string describe_ranks(const TrainingArguments& args) {
  return args.world_size > 1 ? fmt::format(", on each of {} ranks", args.world_size) : "";
}

std::string describe_text_step(const TrainingArguments& args, double tokens) {
  return fmt::format("{} of {} ({} a step on average)", plural(effective_batch_size(args), "sample"),
                     args.train_file, plural_count(std::llround(tokens), "token"));
}

// The measurements of the run. The first step counts from the start of the process to the step's end. The
// trainer's memory is freed before the limits are measured.
nlohmann::json result_of(const Trainer& trainer, const TrainOutput& output, const StepLoad& load,
                         double before_trainer_seconds, bool is_of_texts) {
  std::vector<double> steps = trainer.step_seconds();
  std::vector<StepSize> sizes = trainer.step_sizes();
  const double first_step_seconds = before_trainer_seconds + trainer.seconds_to_first_step() + steps.front();
  if (steps.size() > 1) {  // the first one meets cold caches
    steps.erase(steps.begin());
    sizes.erase(sizes.begin());
  }
  const double seconds = median(steps);
  const TrainingArguments& args = trainer.arguments();
  StepSize all;
  for (const StepSize& size : sizes) all = {all.samples + size.samples, all.tokens + size.tokens};
  const auto count = static_cast<double>(steps.size());
  // Steps of random tokens are alike. Of texts one has more tokens than the next: all of them are one measurement.
  const double all_seconds = is_of_texts ? std::accumulate(steps.begin(), steps.end(), 0.0) : count * seconds;
  nlohmann::json result = {
      {"step", is_of_texts ? describe_text_step(args, static_cast<double>(all.tokens) / count)
                           : describe_random_step(args) + describe_ranks(args)},
      {"program", program_hash(trainer.session())},
      {"ranks", args.world_size},
      {"per_device_train_batch_size", args.per_device_train_batch_size},
      {"gradient_accumulation_steps", args.gradient_accumulation_steps},
      {"max_seq_length", args.max_seq_length},
      {"tokens_per_second", static_cast<double>(all.tokens) / all_seconds},
      {"samples_per_second", static_cast<double>(all.samples) / all_seconds},
      {"step_seconds", seconds},
      {"first_step_seconds", first_step_seconds},
      {"flops_per_step", trainer.session().step_flops()},
      {"product_flops_per_step", trainer.session().step_product_flops()},
      {"planning_seconds", trainer.session().planning_seconds()},
      {"steps", trainer.step_seconds().size()},
      {"train_loss", output.training_loss},
      {"threads", thread_count().threads},
      {"threads_text", describe(thread_count())},
      {"thread_waits", thread_waits().setting},
      {"step_samples", steps}};
  result["load"] = {{"average_before", load.average_before},
                    {"average_after", load.average_after},
                    {"involuntary_switches", load.involuntary_switches},
                    {"cpu_share", load.cpu_share}};
  for (const auto& [name, value] : output.metrics) {
    if (name.rfind("memory_", 0) == 0) result[name] = static_cast<int64_t>(metric_number(value));
  }
  return result;
}

void add_limit(nlohmann::json& result, const TrainingArguments& args) {
  const MachineLimits limits = measured_limits(*make_backend(), args);
  const double limit = limits.product_flops(args.bf16 ? DType::kBF16 : DType::kF32);
  result["limit"] = "reached by large products";
  result["limit_flops"] = limit;
  result["limit_share"] =
      result["product_flops_per_step"].get<double>() / result["step_seconds"].get<double>() / limit;
}

// How the step's time spreads, how well its median is known, and what else the machine did.
void print_spread(const std::vector<double>& steps, const StepLoad& load, double precision) {
  const MedianInterval interval = median_interval(steps);
  fmt::print("  {:<34}{:>16}\n", "fastest and slowest step",
             fmt::format("{:.3f}–{:.3f} s", interval.least, interval.most));
  fmt::print("  {:<34}{:>16}\n", "median known to",
             interval.has_confidence() ? fmt::format("{:.1f} %", 100 * interval.relative_half_width())
                                       : std::string("too few steps"));
  fmt::print("  {:<34}{:>16}\n", "processors' time that it got",
             fmt::format("{:.0f} %", 100 * load.cpu_share));
  if (interval.has_confidence() && !interval.is_stable(precision)) {
    fmt::print(
        "The steps differ by more than the precision of {:.1f} % allows: load average {:.1f} at first, {:.1f} at the "
        "end, {} switches to other programs.\n",
        100 * precision, load.average_before, load.average_after, load.involuntary_switches);
  }
}

void print_table(const nlohmann::json& result) {
  const auto row = [](const char* what, const std::string& value) {
    fmt::print("  {:<34}{:>16}\n", what, value);
  };
  const auto bytes = [&](const char* key) { return format_bytes(result[key].get<int64_t>()); };
  fmt::print("Training step, {}, median of {} after the first\n", result["step"].get<std::string>(),
             std::max<int64_t>(1, result["steps"].get<int64_t>() - 1));
  row("step", fmt::format("{:.3f} s", result["step_seconds"].get<double>()));
  row("samples a second", fmt::format("{:.3f}", result["samples_per_second"].get<double>()));
  row("tokens a second", fmt::format("{:.0f}", result["tokens_per_second"].get<double>()));
  const double flops = result["flops_per_step"].get<double>();
  row("work of a step",
      flops < 1e12 ? fmt::format("{:.3f} GFLOP", flops / 1e9) : fmt::format("{:.3f} TFLOP", flops / 1e12));
  if (result.contains("limit_share")) {
    row("large products reach here",
        fmt::format("{:.1f} GFLOP/s", result["limit_flops"].get<double>() / 1e9));
    row("share of what they reach", fmt::format("{:.1f} %", 100 * result["limit_share"].get<double>()));
  }
  row("planning", fmt::format("{:.0f} ms", 1000 * result["planning_seconds"].get<double>()));
  row("until the first step is done", fmt::format("{:.2f} s", result["first_step_seconds"].get<double>()));
  row("arenas, predicted", bytes("memory_arena_predicted_bytes"));
  row("arenas, measured", bytes("memory_arena_measured_bytes"));
  row("whole process, predicted", bytes("memory_process_predicted_bytes"));
  row("whole process, measured", bytes("memory_process_measured_bytes"));
}

}  // namespace

CommandHelp help_of_bench_step() {
  return {
      .name = "bench step",
      .introduction =
          "Speed and memory of the training step with any flags of train, on random tokens or, with --on_texts,\n"
          "on those of the training file.\n\n"
          "  shoehorn bench step --model_name_or_path DIR [FLAGS]\n"
          "  shoehorn launch --nproc_per_node 2 bench step --model_name_or_path DIR [FLAGS]\n",
      .own_rows = bench_step_option_rows(),
      .table = Command::kBenchStep};
}

int run_bench_step(const std::vector<std::string>& words) {
  BenchStepArguments given = parse_bench_step(words, launched_ranks());
  const CommandOptions& options = given.options;
  const bool is_of_texts = options.flag("on_texts");
  const std::shared_ptr<Communicator> ranks = open_ranks_of(given.run.arguments);
  const bool is_main = is_main_rank(ranks);
  use_processors(given.run.arguments, ranks);
  const StopSignals signals = stop_signals_of_process();
  const std::shared_ptr<StepWatch> watch = make_watch(options, given.run.arguments, ranks);
  PlannedTask task = is_of_texts ? text_task(given.run, ranks.get()) : random_task(given.run);
  const TrainingArguments& args = task.arguments;
  const ModelSource& source = task.source;
  if (is_main) fmt::print(args.json ? stderr : stdout, "{}", task.text);
  nlohmann::json result;
  std::string profile;
  int stopped_by = 0;  // while steps were run
  {
    TrainerOptions trainer_options;
    trainer_options.callbacks = {watch};
    trainer_options.progress = measured_steps_progress(args);
    trainer_options.ranks = ranks;
    if (is_main) trainer_options.step_seconds = rank_step_seconds(args, task.train);
    if (!source.directory.empty() && weights_in(source.directory)) trainer_options.weights = source.directory;
    const double before_trainer_seconds = process_age_seconds();
    Trainer trainer(*source.model, args, std::move(task.train), std::move(task.validation),
                    std::move(trainer_options));
    if (is_main && !args.json) {
      fmt::print("{}{}\n{}{}", format_found_batch_size(args, trainer.arguments()), describe(thread_count()),
                 format_precision(args, trainer.session().backend().machine()),
                 format_forecast(trainer.forecast()));
    }
    const TrainOutput output = trainer.train();
    // The first step does not count.
    stopped_by = output.stop_signal;
    if (ranks != nullptr) ranks->finish();
    if (!is_main) return stopped_by == 0 ? 0 : exit_code_of_stop(stopped_by);
    if (stopped_by != 0 && trainer.step_seconds().size() < 2)
      throw Stopped(stopped_by, "no step is measured");
    result = result_of(trainer, output, watch->load(), before_trainer_seconds, is_of_texts);
    if (trainer.profile() != nullptr) {
      profile = format_profile(*trainer.profile());
      result["profile"] = to_json(*trainer.profile());
    }
  }
  if (stopped_by != 0) {
    leave_closed_output();
  } else if (options.flag("limits")) {
    add_limit(result, args);
  }
  if (args.json) {
    fmt::print("{}\n", result.dump());
  } else {
    print_table(result);
    print_spread(result["step_samples"].get<std::vector<double>>(), watch->load(),
                 options.number("median_error"));
    fmt::print("{}", profile);
  }
  if (stopped_by != 0) throw Stopped(stopped_by, "the result is of the steps so far");
  throw_if_stop_requested();  // while limits were measured
  return 0;
}

}  // namespace shoehorn
