// The one table of flags. It drives parsing, configuration files, help, JSON, and the refusal of what this
// version lacks. To add a flag, add a member to TrainingArguments and a row here.
//
// A row is supported, known but not built yet, refused for a stated reason, or a name of another trainer for what
// has another name here. A flag of the last three kinds is accepted if its value is the default (or "off"), so that
// complete configurations carry over; any other value is a UserError that names the flag. No flag is accepted and then
// ignored.
//
// The table is immutable and thread-safe.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "arguments/training_arguments.h"

namespace shoehorn {

enum class Command : uint8_t {
  kTrain,
  kEval,
  kPredict,
  kPlan,
  kAnatomy,
  kBenchStep,
  kBenchBatch,
  kBenchQuality,
  kEnv,
};

inline constexpr std::array kCommands = {Command::kTrain,      Command::kEval,         Command::kPredict,
                                         Command::kPlan,       Command::kAnatomy,      Command::kBenchStep,
                                         Command::kBenchBatch, Command::kBenchQuality, Command::kEnv};

// The commands in which a flag has an effect, beyond being checked: a bit set.
enum ReadBy : uint8_t {
  kReadByTrain = 1,  // also bench quality, which trains
  kReadByPlan = 2,
  kReadByBenchStep = 4,
  kReadByAnatomy = 8,
  kReadByBenchBatch = 16,
  // All three. A flag that affects only values, not time or memory, is read by bench step, which prints a
  // loss.
  kReadByBench = kReadByBenchStep | kReadByAnatomy | kReadByBenchBatch,
  kReadByEval = 32,
  kReadByPredict = 64,
  kReadByEnv = 128,
  kReadByAll = 255,
};

enum class ArgumentGroup : uint8_t {
  kGeneral,
  kModel,
  kData,
  kOutput,
  kPrediction,
  kBatch,
  kPrecision,
  kMemory,
  kAdapters,
  kOptimizer,
  kDataLoading,
  kSaving,
  kEvaluation,
  kLogging,
  kDebugging,
  kDistributed,
  kHub,
  kMachine,
  kOtherTrainers,
};

enum class ArgumentKind : uint8_t { kFromField, kFlag, kInteger, kNumber, kText, kList, kBytes, kKwargs };

enum class ArgumentStatus : uint8_t { kSupported, kNotYet, kRefused, kElsewhere };

// What it means for a resumed run (state/resume_changes.h) if a flag differs from the interrupted run's.
// Every supported row with a member states it.
enum class ResumeRole : uint8_t {
  kUnclassed,
  kSamples,     // determines which samples come, and when
  kTokens,      // acts only through the tokenized training data, whose content is compared
  kState,       // determines which weights are trained and which states they have
  kNumerics,    // determines what is computed from samples, weights and states
  kFree,        // may change between two steps: tuning settings, and what changes rounding at most
  kIrrelevant,  // does not affect what a training run computes, keeps or logs
};

// monostate means not given.
using ArgumentValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>, Kwargs>;

using ArgumentField =
    std::variant<std::monostate, bool TrainingArguments::*, std::optional<bool> TrainingArguments::*,
                 int64_t TrainingArguments::*, std::optional<int64_t> TrainingArguments::*,
                 double TrainingArguments::*, std::optional<double> TrainingArguments::*,
                 std::string TrainingArguments::*, std::vector<std::string> TrainingArguments::*,
                 Kwargs TrainingArguments::*>;

// One value that a flag may have. With a `why` the value is known, but not built or refused.
struct ArgumentChoice {
  std::string_view value;
  std::string_view why = {};
  ArgumentStatus lacking = ArgumentStatus::kNotYet;  // which of the two; only with a `why`
};

// What help says of a flag in some commands, where the row's own text is not true of them.
struct HelpElsewhere {
  int commands = 0;  // of ReadBy
  std::string_view text;
};

// Translates an old spelling into current flags and their texts, given what `args` holds so far.
using ArgumentRewrite = std::vector<std::pair<std::string_view, std::string>> (*)(
    const std::string& text, const TrainingArguments& args);

struct ArgumentSpec {
  std::string_view name;
  ArgumentGroup group{};
  bool is_common = false;    // among the flags that help shows first
  int read_by = kReadByAll;  // of the commands that take the group
  ArgumentField field = {};
  ResumeRole resume = ResumeRole::kUnclassed;
  ArgumentKind kind = ArgumentKind::kFromField;  // set only for rows without a field, and for bytes
  ArgumentValue standard = {};                   // default; with a field it comes from TrainingArguments
  std::string_view value = {};                   // what help calls the value, as FILE; else by kind
  std::string_view help = {};
  std::vector<HelpElsewhere> help_elsewhere = {};
  ArgumentStatus status = ArgumentStatus::kSupported;
  std::string_view why = {};  // why it is not supported, or what to give instead
  std::vector<std::string_view> aliases = {};
  std::vector<ArgumentChoice> choices = {};
  std::string_view true_text = {};   // for a text flag that may also be a boolean: what true means …
  std::string_view false_text = {};  // … and what false means
  bool lists_patterns = false;       // a list of regular expressions, whose own commas end none of them
  bool takes_json = false;           // a text flag whose value may be an object in a configuration file
  ArgumentRewrite rewrite = nullptr;
  bool is_always_so = false;  // what it asks for is so without it
};

const std::vector<ArgumentSpec>& argument_table();

// By name or alias; '-' counts as '_'. Null if there is none.
const ArgumentSpec* find_argument(std::string_view name);

// The names of the supported rows.
std::vector<std::string> names_of_rows(const std::vector<ArgumentSpec>& rows);

// Of an unknown key of a configuration: "; did you mean x?", what its beginning is known for, or "".
std::string unknown_key_hint(std::string_view name);
// Of an unknown flag on a command line: the same with "--x", which is one of `own` or of the table. With a `command` only
// what it takes of the table.
std::string unknown_flag_hint(std::string_view name, const std::vector<ArgumentSpec>& own,
                              std::optional<Command> command = {});

// True if the command accepts the row. A command line of train can also be planned and measured, so plan,
// anatomy and bench accept all rows of a run; eval, predict and env accept the rows that they read.
bool command_takes(Command command, const ArgumentSpec& spec);
// True if the row has an effect in the command, beyond being checked. --help all lists rows that have none.
bool command_reads(Command command, const ArgumentSpec& spec);
// The row's text in the help of a command; without one the row's own.
std::string_view help_in(std::optional<Command> command, const ArgumentSpec& spec);
std::string_view command_name(Command command);
// "train, plan": the commands that take the row.
std::string commands_that_take(const ArgumentSpec& spec);
std::string_view group_title(ArgumentGroup group);

// The value of the member that a row with a field stands for.
ArgumentValue argument_value(const ArgumentSpec& spec, const TrainingArguments& args);
void set_argument(const ArgumentSpec& spec, const ArgumentValue& value, TrainingArguments& args);

// UserError "[`source`] …" if `value` is no choice of the row, or one that this version lacks.
void check_argument(const ArgumentSpec& spec, const ArgumentValue& value, std::string_view source);

// Conversions from and to text and JSON. UserError "[`source`] …" for a value of another kind than the row's.
ArgumentValue argument_from_text(const ArgumentSpec& spec, const std::string& text, std::string_view source);
ArgumentValue argument_from_json(const ArgumentSpec& spec, const nlohmann::json& json,
                                 std::string_view source);
std::string argument_to_text(const ArgumentValue& value);
nlohmann::json argument_to_json(const ArgumentValue& value);

// "true", "No", "1", … -> a boolean; nullopt for any other text.
std::optional<bool> parse_boolean(std::string_view text);

// Sets every argument in `object` (a JSON object). Keys are flags without dashes.
void apply_json(const nlohmann::json& object, const std::string& source, TrainingArguments& args);

// Sets one argument from its text. An old spelling goes through the row's rewrite.
void apply_text(const ArgumentSpec& spec, const std::string& text, std::string_view source,
                TrainingArguments& args);

struct ParsedArguments {
  TrainingArguments arguments;     // resolved and valid for the command
  std::vector<std::string> given;  // the rows set on the command line, by name
  // The rows that the configuration file gives another value than the default, and those that a configuration of
  // DeepSpeed or FSDP sets.
  std::vector<std::string> configured;
  std::vector<std::string> notices;  // lines on what such a configuration, or zero_stage, says without effect

  // Whether the command line sets the row.
  bool gives(std::string_view name) const;
  // Whether the command line or the configuration file does.
  bool sets(std::string_view name) const;
};

// Parses a command line: --name value, --name=value, --bf16, --no_bf16, --bf16 false, --some-name; lists as
// several words, with commas, or both; kwargs as JSON or a=b,c=d. `--config file.json` (or that file alone,
// without a flag) is applied first, wherever it stands; its keys may belong to other commands. If a flag is
// repeated, the last value counts. UserError naming the flag, or the file and key; SystemError if the file
// cannot be read. `ranks`: of the run as it was launched, which is train's world_size unless it is given.
ParsedArguments parse_arguments(Command command, const std::vector<std::string>& words, int64_t ranks = 1);

// UserError naming the first of these rows that the command line or a configuration file sets, for the value would be
// lost; `reason`: "bench quality sets it".
void refuse_set_rows(const ParsedArguments& parsed, std::span<const std::string_view> names,
                     std::string_view reason);

// Checks what a command needs besides valid arguments: its model and files.
void validate_command(Command command, const TrainingArguments& args);

// UserError if the arguments of train ask for an evaluation without a file or a share of the training file for it. A language model's
// file is split unless it is told otherwise: validate_command knows its task only where it is named, so that whoever opens the model
// asks of others.
void check_has_evaluation_set(const TrainingArguments& args);

}  // namespace shoehorn
