#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "arguments/command_options.h"
#include "base/content_hash.h"
#include "base/error.h"
#include "base/format.h"
#include "base/memory_limit.h"
#include "base/process.h"
#include "base/user_error_kinds.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "cli/pass_table.h"
#include "cli/text_task.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "lab/machine_text.h"
#include "lab/random_tokens.h"
#include "model/task.h"
#include "ops/dump.h"
#include "session/memory_refusal.h"
#include "train/auto_find_batch_size.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

const std::vector<ArgumentSpec>& option_rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "machine_profile",
       .kind = ArgumentKind::kText,
       .standard = std::string(),
       .help = "plan for another machine: the file that `shoehorn env --json` wrote there"}};
  return rows;
}

// Without a training file: as many samples of the longest length as fill a micro-batch.
Dataset longest_samples(const TrainingArguments& args, const Model& model) {
  check_batch_size(args, model, args.max_seq_length);
  return Dataset::alike(args.per_device_train_batch_size, args.max_seq_length, model.task().label_shape());
}

// Plans without a validation file evaluate nothing, whatever asks for it; plans without a training file count
// no samples.
TrainingArguments planned_arguments(TrainingArguments args, bool has_validation) {
  if (args.train_file.empty()) args.batch_size_ramp.clear();
  if (has_validation) return args;
  args.eval_strategy = "no";
  args.save_strategy = "no";
  args.load_best_model_at_end = false;
  return args;
}

// The other machine, with the number of threads that is asked for.
OtherMachine other_machine(const std::string& profile, const TrainingArguments& args) {
  OtherMachine machine = load_other_machine(profile);
  if (args.num_threads) machine.profile.threads = static_cast<int>(*args.num_threads);
  return machine;
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

}  // namespace

int run_plan(const std::vector<std::string>& words) {
  const CommandOptions options = parse_options(option_rows(), words, UnknownFlags::kKeep);
  if (options.help) {
    fmt::print("Machine:\n{}\n{}", options_help(option_rows()), help_text(Command::kPlan));
    return 0;
  }
  const ParsedArguments parsed = parse_arguments(Command::kPlan, options.rest);
  TrainingArguments args = parsed.arguments;
  use_threads(args.num_threads);
  const std::string& profile = options.text("machine_profile");
  const std::shared_ptr<const Backend> backend =
      profile.empty() ? make_backend() : make_backend_for(other_machine(profile, args));
  ModelSource source = open_model(args, true, false);
  TextTask task = load_text_task(args, source, parsed.sets("max_seq_length"));
  fmt::print(args.json ? stderr : stdout, "{}{}", is_language_model(*source.model) ? task.summary : "",
             task.notices);
  Dataset train = args.train_file.empty() ? longest_samples(args, *source.model) : std::move(task.train);
  const TrainingArguments planned = planned_arguments(args, task.validation.size() > 0);
  const Trainer trainer(*source.model, planned, std::move(train), std::move(task.validation),
                        {.backend = backend});
  const MemoryForecast& forecast = trainer.forecast();
  std::vector<PassEffect> effects;
  if (args.explain)
    effects = explain_passes(*source.model, trainer.session().options(), backend->measure_limits());
  if (args.json) {
    nlohmann::json result = to_json(forecast);
    if (args.explain) result["passes"] = to_json(effects);
    result["per_device_train_batch_size"] = trainer.arguments().per_device_train_batch_size;
    result["program"] = program_hash(trainer.session());
    result["threads"] = backend->machine().threads;
    if (!backend->can_run()) result["machine"] = absent_machine_to_json(backend->machine());
    fmt::print("{}\n", result.dump(2));
  } else {
    fmt::print("{}{}", format_found_batch_size(planned, trainer.arguments()), format_forecast(forecast));
    if (backend->can_run()) fmt::print("Planned for {}\n", describe(thread_count()));
    if (!backend->can_run()) fmt::print("{}", format_absent_machine(backend->machine()));
    if (args.explain) fmt::print("\n{}", format_passes(effects));
  }
  if (!forecast.fits()) throw DoesNotFit(format_refusal(forecast, trainer.alternatives()));
  return 0;
}

}  // namespace shoehorn
