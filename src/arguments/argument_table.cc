#include "arguments/argument_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <type_traits>

#include "arguments/argument_table_rows.h"
#include "base/error.h"
#include "base/format.h"
#include "base/user_error_kinds.h"

namespace shoehorn {
namespace {

template <typename T>
struct FieldKind;
template <>
struct FieldKind<bool> {
  static constexpr ArgumentKind kKind = ArgumentKind::kFlag;
};
template <>
struct FieldKind<int64_t> {
  static constexpr ArgumentKind kKind = ArgumentKind::kInteger;
};
template <>
struct FieldKind<double> {
  static constexpr ArgumentKind kKind = ArgumentKind::kNumber;
};
template <>
struct FieldKind<std::string> {
  static constexpr ArgumentKind kKind = ArgumentKind::kText;
};
template <>
struct FieldKind<std::vector<std::string>> {
  static constexpr ArgumentKind kKind = ArgumentKind::kList;
};
template <>
struct FieldKind<Kwargs> {
  static constexpr ArgumentKind kKind = ArgumentKind::kKwargs;
};
template <typename T>
struct FieldKind<std::optional<T>> : FieldKind<T> {};

template <typename T>
ArgumentKind kind_of_member(T TrainingArguments::*) {
  return FieldKind<T>::kKind;
}
ArgumentKind kind_of_member(std::monostate) {
  CHECK(false, "a row without a field states its kind");
}

template <typename T>
ArgumentValue value_of(const T& member) {
  return member;
}
template <typename T>
ArgumentValue value_of(const std::optional<T>& member) {
  return member ? ArgumentValue(*member) : ArgumentValue();
}

template <typename T>
void assign(T& member, const ArgumentValue& value) {
  member = std::get<T>(value);
}
template <typename T>
void assign(std::optional<T>& member, const ArgumentValue& value) {
  member = std::holds_alternative<std::monostate>(value) ? std::optional<T>() : std::get<T>(value);
}

std::vector<ArgumentSpec> build_table() {
  std::vector<ArgumentSpec> table;
  for (const auto& part :
       {argument_rows::model_and_data(), argument_rows::tasks(), argument_rows::text_classification(),
        argument_rows::causal_language_modeling(), argument_rows::training(),
        argument_rows::optimizer_and_schedule(), argument_rows::running(), argument_rows::ranks(),
        argument_rows::not_built(), argument_rows::old_names(), argument_rows::other_trainers()}) {
    table.insert(table.end(), part.begin(), part.end());
  }
  const TrainingArguments defaults;
  for (ArgumentSpec& spec : table) {
    if (spec.kind == ArgumentKind::kFromField) {
      spec.kind = std::visit([](auto field) { return kind_of_member(field); }, spec.field);
    }
    if (spec.field.index() != 0) spec.standard = argument_value(spec, defaults);
  }
  return table;
}

using NameIndex = std::map<std::string, const ArgumentSpec*, std::less<>>;

const NameIndex& name_index() {
  static const NameIndex index = [] {
    NameIndex all;
    for (const ArgumentSpec& spec : argument_table()) {
      CHECK(all.emplace(spec.name, &spec).second, "two rows named {}", spec.name);
      for (const std::string_view alias : spec.aliases) {
        CHECK(all.emplace(alias, &spec).second, "two rows named {}", alias);
      }
    }
    return all;
  }();
  return index;
}

bool is_off(const ArgumentSpec& spec, const ArgumentValue& value) {
  if (value == spec.standard || std::holds_alternative<std::monostate>(value)) return true;
  // A default of "unset" is also met by the value that says no.
  if (!std::holds_alternative<std::monostate>(spec.standard)) return false;
  if (const bool* flag = std::get_if<bool>(&value)) return !*flag;
  if (const std::string* text = std::get_if<std::string>(&value)) return text->empty();
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return list->empty();
  if (const Kwargs* kwargs = std::get_if<Kwargs>(&value)) return kwargs->empty();
  return false;
}

// What is said of a flag or a value that is not supported.
std::string lacking_text(ArgumentStatus status, std::string_view why) {
  switch (status) {
    case ArgumentStatus::kNotYet:
      return fmt::format("known, but not in this version yet: {}", why);
    case ArgumentStatus::kRefused:
      return fmt::format("known, but refused: {}", why);
    case ArgumentStatus::kElsewhere:
    case ArgumentStatus::kSupported:
      break;
  }
  CHECK(false, "nothing is lacking where {}", why);
}

[[noreturn]] void throw_lacking(ArgumentStatus status, const std::string& message) {
  if (status == ArgumentStatus::kNotYet) throw NotInThisVersion(message);
  throw UserError(message);
}

// "adamw" is none of the names, and too far from each of them to be misspelled.
std::string first_that_begins(const std::vector<std::string>& names, std::string_view beginning) {
  const auto first = std::find_if(names.begin(), names.end(),
                                  [&](const std::string& name) { return name.starts_with(beginning); });
  return beginning.empty() || first == names.end() ? "" : *first;
}

void check_choice(const ArgumentSpec& spec, const std::string& text, std::string_view source) {
  std::vector<std::string> supported;
  for (const ArgumentChoice& choice : spec.choices) {
    if (choice.why.empty()) supported.emplace_back(choice.value);
    if (choice.why.empty() && choice.value == text) return;
  }
  for (const ArgumentChoice& choice : spec.choices) {
    if (choice.value != text) continue;
    throw_lacking(choice.lacking,
                  fmt::format("[{}] expected one of {}, got '{}'; {}", source, fmt::join(supported, ", "),
                              text, lacking_text(choice.lacking, choice.why)));
  }
  std::string nearest = nearest_name(text, supported);
  if (nearest.empty()) nearest = first_that_begins(supported, text);
  throw user_error("[{}] expected one of {}, got '{}'{}", source, fmt::join(supported, ", "), text,
                   did_you_mean(nearest));
}

bool takes_group(Command command, ArgumentGroup group) {
  using enum ArgumentGroup;
  const auto is_one_of = [group](std::initializer_list<ArgumentGroup> groups) {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  };
  switch (command) {
    case Command::kTrain:
    case Command::kPlan:
    case Command::kAnatomy:
    case Command::kBenchStep:
    case Command::kBenchBatch:
    case Command::kBenchQuality:
      return !is_one_of({kPrediction, kMachine});
    case Command::kEval:
      return !is_one_of({kPrediction, kAdapters, kOptimizer, kSaving, kLogging, kMachine});
    case Command::kPredict:
      return !is_one_of({kAdapters, kOptimizer, kSaving, kEvaluation, kLogging, kMachine});
    case Command::kEnv:
      return is_one_of({kGeneral, kMachine});
  }
  CHECK(false, "command {}", static_cast<int>(command));
}

int bit_of(Command command) {
  static constexpr std::array<int, kCommands.size()> kReaders = {
      kReadByTrain,     kReadByEval,       kReadByPredict, kReadByPlan, kReadByAnatomy,
      kReadByBenchStep, kReadByBenchBatch, kReadByTrain,   kReadByEnv};
  return kReaders.at(static_cast<size_t>(command));
}

// What is said of flags with these beginnings, however they go on.
std::string_view hint_by_beginning(std::string_view name) {
  struct Beginning {
    std::string_view text;
    std::string_view hint;
  };
  constexpr std::string_view kZero =
      "; ranks share states, gradients and weights by --zero_stage or --deepspeed";
  static constexpr std::array kBeginnings = {
      Beginning{"fsdp_", "; give --fsdp full_shard or shard_grad_op, and --fsdp_config for its file"},
      Beginning{"zero_", kZero},
      Beginning{"zero3_", kZero},
      Beginning{"deepspeed_", kZero},
      Beginning{"megatron_lm_", "; ranks are data parallel: launch them with `shoehorn launch`"},
      Beginning{"unsloth_", "; the fused kernels are our own, and always run"},
      Beginning{"bnb_", "; base models are not quantized: see --help lora and --help 8bit"},
      Beginning{"wandb_", "; nothing is sent to a service: --report_to tensorboard,html,jsonl writes files"},
      Beginning{"hub_", "; nothing is sent over the network: upload output_dir yourself"}};
  for (const Beginning& one : kBeginnings) {
    if (name.starts_with(one.text)) return one.hint;
  }
  return {};
}

// The table's names, without those of other trainers; with a `command` only of rows that it takes.
std::vector<std::string> names_to_suggest(std::optional<Command> command) {
  std::vector<std::string> names;
  for (const auto& [known, spec] : name_index()) {
    const bool is_taken = !command || command_takes(*command, *spec);
    if (is_taken && spec->status != ArgumentStatus::kElsewhere) names.push_back(known);
  }
  return names;
}

}  // namespace

const std::vector<ArgumentSpec>& argument_table() {
  static const std::vector<ArgumentSpec> table = build_table();
  return table;
}

const ArgumentSpec* find_argument(std::string_view name) {
  std::string key(name);
  std::replace(key.begin(), key.end(), '-', '_');
  const auto found = name_index().find(key);
  return found == name_index().end() ? nullptr : found->second;
}

std::vector<std::string> names_of_rows(const std::vector<ArgumentSpec>& rows) {
  std::vector<std::string> names;
  for (const ArgumentSpec& row : rows) {
    if (row.status == ArgumentStatus::kSupported) names.emplace_back(row.name);
  }
  return names;
}

std::string unknown_key_hint(std::string_view name) {
  const std::string nearest = nearest_name(name, names_to_suggest({}));
  return nearest.empty() ? std::string(hint_by_beginning(name)) : did_you_mean(nearest);
}

std::string unknown_flag_hint(std::string_view name, const std::vector<ArgumentSpec>& own,
                              std::optional<Command> command) {
  std::vector<std::string> names = names_of_rows(own);
  for (std::string& known : names_to_suggest(command)) names.push_back(std::move(known));
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? std::string(hint_by_beginning(name)) : did_you_mean("--" + nearest);
}

std::string_view command_name(Command command) {
  static constexpr std::array<std::string_view, kCommands.size()> kNames = {
      "train", "eval", "predict", "plan", "anatomy", "bench step", "bench batch", "bench quality", "env"};
  return kNames.at(static_cast<size_t>(command));
}

std::string_view group_title(ArgumentGroup group) {
  static constexpr std::array<std::string_view, 19> kTitles = {"General",
                                                               "Model and task",
                                                               "Data",
                                                               "Output",
                                                               "Prediction",
                                                               "Batch",
                                                               "Precision",
                                                               "Memory and speed",
                                                               "Adapters (LoRA)",
                                                               "Optimizer and schedule",
                                                               "Data loading",
                                                               "Saving",
                                                               "Evaluation",
                                                               "Logging and profiling",
                                                               "Reproducibility and debugging",
                                                               "Distributed",
                                                               "Hub and trackers",
                                                               "Machine",
                                                               "Names of other trainers"};
  return kTitles.at(static_cast<size_t>(group));
}

bool command_reads(Command command, const ArgumentSpec& spec) {
  return takes_group(command, spec.group) && (spec.read_by & bit_of(command)) != 0;
}

std::string_view help_in(std::optional<Command> command, const ArgumentSpec& spec) {
  for (const HelpElsewhere& other : spec.help_elsewhere) {
    if (command && (other.commands & bit_of(*command)) != 0) return other.text;
  }
  return spec.help;
}

bool command_takes(Command command, const ArgumentSpec& spec) {
  const bool is_of_training =
      command != Command::kEval && command != Command::kPredict && command != Command::kEnv;
  return is_of_training ? takes_group(command, spec.group) : command_reads(command, spec);
}

std::string commands_that_take(const ArgumentSpec& spec) {
  std::vector<std::string_view> names;
  for (const Command command : kCommands) {
    if (command_takes(command, spec)) names.push_back(command_name(command));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

ArgumentValue argument_value(const ArgumentSpec& spec, const TrainingArguments& args) {
  return std::visit(
      [&](auto field) -> ArgumentValue {
        if constexpr (std::is_same_v<decltype(field), std::monostate>) {
          return spec.standard;
        } else {
          return value_of(args.*field);
        }
      },
      spec.field);
}

void set_argument(const ArgumentSpec& spec, const ArgumentValue& value, TrainingArguments& args) {
  const bool unset = std::holds_alternative<std::monostate>(value);
  std::visit(
      [&](auto field) {
        if constexpr (!std::is_same_v<decltype(field), std::monostate>) {
          assign(args.*field, unset ? spec.standard : value);
        }
      },
      spec.field);
}

void check_argument(const ArgumentSpec& spec, const ArgumentValue& value, std::string_view source) {
  if (spec.status == ArgumentStatus::kElsewhere && !is_off(spec, value))
    throw user_error("[{}] expected a flag of Shoehorn, got one of {}", source, spec.why);
  if (spec.status != ArgumentStatus::kSupported && !is_off(spec, value)) {
    throw_lacking(spec.status,
                  fmt::format("[{}] expected {}, got {}; {}", source, argument_to_text(spec.standard),
                              argument_to_text(value), lacking_text(spec.status, spec.why)));
  }
  if (spec.choices.empty()) return;
  if (const std::string* text = std::get_if<std::string>(&value); text != nullptr && value != spec.standard) {
    check_choice(spec, *text, source);
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& text : *list) check_choice(spec, text, source);
  }
}

}  // namespace shoehorn
