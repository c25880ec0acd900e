// The command line over the table.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "arguments/block_arguments.h"
#include "arguments/neighbour_configs.h"
#include "arguments/transformers_arguments.h"
#include "arguments/word_reader.h"
#include "base/error.h"
#include "base/format.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

// The file that a command reads, for those who give it another one.
std::string hint_of_file(Command command, std::string_view name) {
  const bool is_file = name == "train_file" || name == "validation_file" || name == "test_file";
  if (is_file && command == Command::kEval) return "; eval reads --validation_file";
  if (is_file && command == Command::kPredict) return "; predict reads --test_file";
  return "";
}

void require_taken(Command command, const ArgumentSpec& spec, const std::string& source) {
  if (command_takes(command, spec)) return;
  std::string hint = hint_of_file(command, spec.name);
  for (const ArgumentSpec& row : argument_table()) {
    if (hint.empty() && row.name.starts_with(spec.name) && command_takes(command, row))
      hint = did_you_mean(fmt::format("--{}", row.name));
  }
  throw user_error("[{}] expected a flag of the command {}, got one of {}{}", source, command_name(command),
                   commands_that_take(spec), hint);
}

// A data set's parts are files here; `datasets` writes them.
std::string missing_file_hint(const TrainingArguments& args, const char* usual) {
  if (!args.dataset_name.empty()) {
    const std::string config =
        args.dataset_config_name.empty() ? "" : fmt::format(", '{}'", args.dataset_config_name);
    return fmt::format(
        "{} is not downloaded: python -c \"from datasets import load_dataset; [part.to_json(f'{{name}}.jsonl') for name, part in "
        "load_dataset('{}'{}).items()]\" writes its parts as JSON lines; then give --train_file train.jsonl --validation_file "
        "validation.jsonl",
        args.dataset_name, args.dataset_name, config);
  }
  if (args.task_name.empty()) return usual;
  return fmt::format(
      "GLUE is not downloaded: python -c \"from datasets import load_dataset; [part.to_csv(f'{0}_{{name}}.csv') for name, "
      "part in load_dataset('nyu-mll/glue', '{0}').items()]\" writes its parts as csv; then give --train_file "
      "{0}_train.csv --validation_file {0}_validation{1}.csv",
      args.task_name, args.task_name == "mnli" ? "_matched" : "");
}

// Configurations of DeepSpeed and FSDP, in commands that read them; a configuration file of train may name one elsewhere.
void read_neighbour_configs(Command command, ParsedArguments& parsed) {
  if (!command_reads(command, *find_argument("deepspeed"))) return;
  const TrainingArguments before = parsed.arguments;
  // A flag may also be given by an old name.
  NeighbourSettings settings = apply_neighbour_configs(parsed.arguments, [&](std::string_view flag) {
    const ArgumentSpec& spec = *find_argument(flag);
    return parsed.sets(flag) || argument_value(spec, before) != spec.standard;
  });
  parsed.configured.insert(parsed.configured.end(), settings.flags.begin(), settings.flags.end());
  parsed.notices = std::move(settings.notices);
  if (parsed.arguments.zero_stage > 0 && parsed.arguments.world_size == 1) {
    parsed.notices.push_back(
        fmt::format("zero_stage {}: there is one rank, and nothing to share", parsed.arguments.zero_stage));
  }
}

// Of a given effective batch, what the user left open.
void complete_batch(ParsedArguments& parsed) {
  TrainingArguments& args = parsed.arguments;
  const int64_t batch = args.effective_batch_size.value_or(0);
  if (batch < 1 || args.world_size < 1 || args.per_device_train_batch_size < 1) return;  // refused later
  const bool has_size = parsed.sets("per_device_train_batch_size");
  const int64_t steps = args.gradient_accumulation_steps;
  if (!parsed.sets("gradient_accumulation_steps")) {
    if (has_size)
      args.gradient_accumulation_steps = micro_batches_of_rank(args);
    else
      set_micro_batch_size(args, args.per_device_train_batch_size);
  } else if (!has_size && steps > 0 && batch % steps == 0 && batch / steps % args.world_size == 0) {
    args.per_device_train_batch_size = batch / steps / args.world_size;
  }
}

nlohmann::json read_config(const std::filesystem::path& file) {
  if (file.extension() == ".yaml" || file.extension() == ".yml") {
    throw user_error(
        "[--config {0}] expected a JSON file, got YAML by its name; convert it: python3 -c \"import json, yaml; "
        "json.dump(yaml.safe_load(open('{0}')), open('{1}', 'w'))\"",
        file.string(), std::filesystem::path(file).replace_extension(".json").string());
  }
  return read_json(file);
}

}  // namespace

bool ParsedArguments::gives(std::string_view name) const {
  return std::find(given.begin(), given.end(), name) != given.end();
}

bool ParsedArguments::sets(std::string_view name) const {
  return gives(name) || std::find(configured.begin(), configured.end(), name) != configured.end();
}

void refuse_set_rows(const ParsedArguments& parsed, std::span<const std::string_view> names,
                     std::string_view reason) {
  for (const std::string_view name : names) {
    if (!parsed.sets(name)) continue;
    throw user_error("[--{}] expected no value, because {}, got one{}", name, reason,
                     parsed.gives(name) ? "" : " from the configuration file");
  }
}

ParsedArguments parse_arguments(Command command, const std::vector<std::string>& words, int64_t ranks) {
  ParsedArguments parsed;
  std::vector<GivenFlag> flags;
  const auto find = [command](std::string_view name) {
    const ArgumentSpec* spec = find_argument(name);
    if (spec != nullptr) require_taken(command, *spec, fmt::format("--{}", name));
    return spec;
  };
  const auto suggest = [command](std::string_view name) { return unknown_flag_hint(name, {}, command); };
  for (WordReader reader(words, find, suggest); !reader.at_end();) flags.push_back(reader.read_flag());
  for (const GivenFlag& flag : flags) {
    if (flag.spec->name != "config") continue;
    nlohmann::json object = read_config(flag.text);
    if (is_transformers_arguments(object)) object = without_transformers_defaults(std::move(object));
    apply_json(object, flag.text, parsed.arguments);
    for (const auto& [key, value] : object.items()) {
      const ArgumentSpec& spec = *find_argument(key);
      // Files that a program wrote have all keys.
      if (spec.field.index() == 0 || argument_value(spec, parsed.arguments) != spec.standard)
        parsed.configured.emplace_back(spec.name);
    }
  }
  for (const GivenFlag& flag : flags) {
    if (flag.spec->name != "config") apply_text(*flag.spec, flag.text, flag.source, parsed.arguments);
    parsed.given.emplace_back(flag.spec->name);
  }
  // Others than these run in one process, whatever a configuration of train says; an anatomy may be asked for of several. An evaluation
  // or a measurement may have another number of ranks than the training had.
  const bool plans_ranks =
      command == Command::kPlan || (command == Command::kAnatomy && parsed.gives("world_size"));
  const bool has_own_ranks =
      command == Command::kEval || command == Command::kPredict || command == Command::kBenchStep;
  if (command == Command::kTrain || has_own_ranks) {
    const bool is_given = has_own_ranks ? parsed.gives("world_size") : parsed.sets("world_size");
    if (!is_given) parsed.arguments.world_size = ranks;
  } else if (!plans_ranks) {
    parsed.arguments.world_size = 1;
  }
  read_neighbour_configs(command, parsed);
  complete_batch(parsed);
  parsed.arguments = resolved(std::move(parsed.arguments));
  validate(parsed.arguments);
  if (parsed.gives("learning_rate")) refuse_given_learning_rate(parsed.arguments);
  validate_command(command, parsed.arguments);
  return parsed;
}

void validate_command(Command command, const TrainingArguments& args) {
  const auto require = [](std::string_view name, bool given, std::string_view hint) {
    if (!given) throw user_error("[--{}] expected a value, got nothing; {}", name, hint);
  };
  if (command == Command::kEnv) return;
  if (args.explain && command != Command::kPlan) {
    throw user_error(
        "[--explain] expected the command plan, got {}; plan takes the same flags and tells what their "
        "passes do",
        command_name(command));
  }
  const bool is_new = !args.config_name.empty() || !args.model_type.empty();
  if (is_new && !args.model_name_or_path.empty()) {
    throw user_error(
        "[--model_name_or_path] expected nothing beside {}, got '{}'; a new model has no weights",
        args.config_name.empty() ? "--model_type" : "--config_name", args.model_name_or_path);
  }
  if (!args.config_overrides.empty() && !is_new)
    throw user_error("[--config_overrides] expected --model_type or --config_name with it, got neither");
  require("model_name_or_path", is_new || !args.model_name_or_path.empty(),
          "give a model's directory, or --model_type for a new model");
  const bool has_validation_file = !args.validation_file.empty();
  const bool may_evaluate =
      command == Command::kTrain || command == Command::kEval || command == Command::kPredict;
  if (!args.do_train.value_or(true) && !may_evaluate) {
    throw user_error("[--do_train] expected true, got false; this command is about training");
  }
  switch (command) {
    case Command::kTrain:
    case Command::kBenchQuality:
      if (!args.do_train.value_or(true)) {
        if (!args.do_eval.value_or(has_validation_file))
          throw user_error(
              "[--do_train] expected true, or do_eval with a validation_file, got neither; nothing is done");
        require("validation_file", has_validation_file, "do_eval needs an evaluation set");
        return;
      }
      require("train_file", !args.train_file.empty(), missing_file_hint(args, "give the file to train on"));
      require("output_dir", !args.output_dir.empty(), "give the directory for the result");
      if (args.task == kTextClassification || args.validation_split_percentage ||
          (command == Command::kBenchQuality && args.task.empty()))
        check_has_evaluation_set(args);
      if (args.do_predict)
        require("test_file", !args.test_file.empty(), "do_predict needs a file to predict");
      return;
    case Command::kEval:
      if (!args.do_eval.value_or(true))
        throw user_error("[--do_eval] expected true for eval, got false; nothing else is done");
      require("validation_file", has_validation_file,
              missing_file_hint(args, "give the file to evaluate on"));
      return;
    case Command::kPredict:
      require("test_file", !args.test_file.empty(), missing_file_hint(args, "give the file to predict"));
      return;
    default:
      return;
  }
}

void check_has_evaluation_set(const TrainingArguments& args) {
  if (!args.validation_file.empty() || args.validation_split_percentage.value_or(0) > 0) return;
  if (args.eval_strategy != "no") {
    throw user_error(
        "[--validation_file] expected a file, because eval_strategy is {}, got nothing; "
        "evaluation needs an evaluation set; --validation_split_percentage takes it from train_file",
        args.eval_strategy);
  }
  for (const auto& [flag, is_set] :
       {std::pair{"eval_on_start", args.eval_on_start}, {"do_eval", args.do_eval.value_or(false)}}) {
    if (is_set)
      throw user_error("[--validation_file] expected a value, got nothing; {} needs an evaluation set", flag);
  }
}

}  // namespace shoehorn
