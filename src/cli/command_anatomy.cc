#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/anatomy_page.h"
#include "analysis/memory_chart.h"
#include "analysis/rank_traffic.h"
#include "arguments/command_options.h"
#include "base/error.h"
#include "base/format.h"
#include "base/process.h"
#include "base/stop_request.h"
#include "cli/commands.h"
#include "cli/link_option.h"
#include "cli/model_source.h"
#include "cli/result_file.h"
#include "cli/stage_line.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "io/file.h"
#include "lab/random_tokens.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

using enum ArgumentKind;

const std::vector<ArgumentSpec>& anatomy_option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "inference",
       .kind = kFlag,
       .standard = false,
       .help = "of evaluation instead of training: weights and activations; a batch is a step"},
      {.name = "measure", .kind = kFlag, .standard = true, .help = "run the step and time each operation"},
      {.name = "limits",
       .kind = kFlag,
       .standard = true,
       .help = "measure this machine's limits too, in about a second, and say how far the step is from them"},
      {.name = "steps",
       .kind = kInteger,
       .standard = int64_t{2},
       .help = "steps that are timed, after a first one that is not"},
      {.name = "report",
       .kind = kText,
       .standard = std::string(),
       .value = "FILE",
       .help = "the same as a page with plots, in this file"},
      result_json_row(),
      result_json_file_row(),
  };
  return rows;
}

TrainingArguments anatomy_arguments(const CommandOptions& options, const TrainingArguments& given) {
  const int64_t steps = options.integer("steps");
  constexpr int64_t kMaxSteps = 10'000;
  if (steps < 1 || steps > kMaxSteps)
    throw user_error("[--steps] expected a number from 1 to {}, got {}", kMaxSteps, steps);
  if (given.world_size > 1 && (options.flag("measure") || options.flag("inference"))) {
    throw user_error(
        "[--world_size {}] expected --no_measure and no --inference with it, got {}; a rank's step is planned here, and not run",
        given.world_size, options.flag("inference") ? "--inference" : "an anatomy that is measured");
  }
  TrainingArguments args = without_files(given);
  args.max_steps = steps + 1;
  args.profile = options.flag("measure") ? steps : 0;
  if (options.flag("inference")) {
    args.per_device_eval_batch_size = args.per_device_train_batch_size;
    args.gradient_accumulation_steps = 1;
    args.effective_batch_size.reset();
  }
  return args;
}

struct Anatomy {
  std::string step;  // what was run: its batch and tokens
  MemoryAnatomy memory;
  OperationAnatomy operations;
  AreaChart along_step;
  StepTraffic traffic;  // of several ranks
};

Anatomy take_apart(const TrainingArguments& args, const Model& model, Dataset data, bool is_inference,
                   bool with_limits) {
  Anatomy anatomy;
  std::vector<NodeWork> work;
  const std::shared_ptr<const Backend> backend = make_backend();
  {
    Dataset none;
    Trainer trainer(model, args, std::move(is_inference ? none : data), std::move(is_inference ? data : none),
                    {.progress = measured_steps_progress(args),
                     .backend = backend,
                     .caller_bytes = planned_mpi_memory(args, true).bytes,
                     .write_profile = false});
    anatomy.step = fmt::format("{} step, {}", is_inference ? "Evaluation" : "Training",
                               describe_random_step(trainer.arguments()));
    anatomy.memory = memory_anatomy(trainer.session(), trainer.forecast());
    anatomy.along_step = memory_chart(trainer.session());
    anatomy.traffic = step_traffic(trainer.session());
    if (args.profile > 0) {
      if (is_inference)
        trainer.evaluate();
      else
        trainer.train();
      throw_if_stop_requested();  // training that is stopped returns
      anatomy.memory.measured_bytes = trainer.measured_process_peak_bytes();
      work = measured_work(*trainer.profile());
    } else {
      work = planned_work(trainer.session());
    }
  }
  throw_if_stop_requested();
  // The trainer's memory is given back first: measuring the limits takes some.
  anatomy.operations =
      operation_anatomy(work, with_limits ? std::optional(measured_limits(*backend, args)) : std::nullopt);
  return anatomy;
}

std::string page_of(const Anatomy& anatomy, const TrainingArguments& args) {
  return anatomy_page(fmt::format("Anatomy of a step: {}", args.model_name_or_path), anatomy.step,
                      anatomy.along_step, anatomy.memory, anatomy.operations, anatomy.traffic);
}

}  // namespace

CommandHelp help_of_anatomy() {
  return {.name = "anatomy",
          .introduction =
              "Where the memory and the time of a training step go, for any model and flags of train.\n\n"
              "  shoehorn anatomy --model_name_or_path DIR [FLAGS]\n",
          .own_rows = anatomy_option_rows(),
          .table = Command::kAnatomy};
}

int run_anatomy(const std::vector<std::string>& words) {
  const CommandOptions options = parse_result_options(anatomy_option_rows(), words, OtherWords::kTableFlags);
  const ParsedArguments parsed = parse_arguments(Command::kAnatomy, options.rest);
  TrainingArguments args = anatomy_arguments(options, parsed.arguments);
  use_threads(args.num_threads);
  const ModelSource source = open_model(args, true, false);
  args.max_seq_length = random_length(parsed, *source.model);
  const bool is_inference = options.flag("inference");
  Dataset data = random_steps(args, *source.model, args.max_steps);
  prepare_result_files(options);
  const StopSignals signals;
  const Anatomy anatomy = with_kept_text("no result is written", [&] {
    return take_apart(args, *source.model, std::move(data), is_inference, options.flag("limits"));
  });
  nlohmann::ordered_json result = {{"step", anatomy.step},
                                   {"memory", to_json(anatomy.memory)},
                                   {"operations", to_json(anatomy.operations)}};
  if (anatomy.memory.measured_bytes > 0)
    result["memory_process_measured_bytes"] = anatomy.memory.measured_bytes;
  if (args.world_size > 1) {
    result["sent_in_step"] = to_json(anatomy.traffic.kinds);
    result["sent_by_link"] = link_bytes_to_json(anatomy.traffic);
  }
  write_report(options, [&] { return page_of(anatomy, args); });
  std::string text = anatomy.step + "\n" + format_memory_anatomy(anatomy.memory) + "\n" +
                     format_operation_anatomy(anatomy.operations);
  if (args.world_size > 1) {
    text += fmt::format("\nSent in a step by each of {} ranks; the rest is of one\n{}", args.world_size,
                        format_traffic(anatomy.traffic));
  }
  write_result(options, result, text);
  return 0;
}

}  // namespace shoehorn
