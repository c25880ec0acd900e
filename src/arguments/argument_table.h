// The one table of flags. Parsing, configuration files, help, JSON and the refusal of what this version lacks
// are all driven by it: to add a flag is to add a member to TrainingArguments and a row here.
//
// A row is supported, known but not yet built, or refused for a stated reason. A flag of the last two kinds
// is accepted while its value is the default (or "off"), so that complete configurations carry over; anything
// else is a UserError naming it. Nothing is accepted and ignored.
//
// The table is immutable and safe to read from any thread.
#pragma once

#include <array>
#include <functional>
#include <nlohmann/json_fwd.hpp>
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

// The commands in which a flag does something, beyond being checked: a sum of these.
enum ReadBy : uint8_t {
  kReadByTrain = 1,  // and bench quality, which trains
  kReadByPlan = 2,
  kReadByBenchStep = 4,
  kReadByAnatomy = 8,
  kReadByBenchBatch = 16,
  // All three. What decides values alone is read by bench step, which gives a loss.
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
};

enum class ArgumentKind : uint8_t { kFromField, kFlag, kInteger, kNumber, kText, kList, kBytes, kKwargs };

enum class ArgumentStatus : uint8_t { kSupported, kNotYet, kRefused };

// What it means for a run that goes on from a checkpoint (state/resume_changes.h) that a flag is another than
// in the run that was interrupted. Every supported row with a member states it.
enum class ResumeRole : uint8_t {
  kUnclassed,
  kSamples,     // decides which samples come, and when
  kTokens,      // acts through the tokenized training data alone, whose content is compared
  kState,       // decides which weights are trained and which states they have
  kNumerics,    // decides what is computed from samples, weights and states
  kFree,        // may change between two steps: settings that are tuned, and what changes rounding at most
  kIrrelevant,  // decides nothing of what a training run computes, keeps or logs
};

// monostate: not given.
using ArgumentValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>, Kwargs>;

using ArgumentField =
    std::variant<std::monostate, bool TrainingArguments::*, std::optional<bool> TrainingArguments::*,
                 int64_t TrainingArguments::*, std::optional<int64_t> TrainingArguments::*,
                 double TrainingArguments::*, std::optional<double> TrainingArguments::*,
                 std::string TrainingArguments::*, std::vector<std::string> TrainingArguments::*,
                 Kwargs TrainingArguments::*>;

// One value that a flag may have. A `why` makes it one that we know and lack, or refuse.
struct ArgumentChoice {
  std::string_view value;
  std::string_view why = {};
  ArgumentStatus lacking = ArgumentStatus::kNotYet;  // which of the two, where there is a `why`
};

// The flags and texts that an old spelling stands for, over what `args` has so far.
using ArgumentRewrite = std::vector<std::pair<std::string_view, std::string>> (*)(
    const std::string& text, const TrainingArguments& args);

struct ArgumentSpec {
  std::string_view name;
  ArgumentGroup group{};
  int read_by = kReadByAll;  // of the commands that take the group
  ArgumentField field = {};
  ResumeRole resume = ResumeRole::kUnclassed;
  ArgumentKind kind = ArgumentKind::kFromField;  // given only for rows without a field and for bytes
  ArgumentValue standard = {};  // the default; taken from TrainingArguments where there is a field
  std::string_view help = {};
  ArgumentStatus status = ArgumentStatus::kSupported;
  std::string_view why = {};  // why it is not supported
  std::vector<std::string_view> aliases = {};
  std::vector<ArgumentChoice> choices = {};
  std::string_view true_text = {};   // a text flag that may also be given as a boolean: what true means …
  std::string_view false_text = {};  // … and what false means
  ArgumentRewrite rewrite = nullptr;
};

const std::vector<ArgumentSpec>& argument_table();

// By name or alias, with '-' for '_'. Null if there is none.
const ArgumentSpec* find_argument(std::string_view name);

// "; did you mean --x?" or "".
std::string did_you_mean(std::string_view name);

// Whether the command accepts the row. A command line of train can be planned and measured as it is, so plan,
// anatomy and bench accept all rows of a run; eval, predict and env accept what they read.
bool command_takes(Command command, const ArgumentSpec& spec);
// Whether it does something there, beyond being checked. Not all that is accepted does: help_text() says so.
bool command_reads(Command command, const ArgumentSpec& spec);
std::string_view command_name(Command command);
std::string_view group_title(ArgumentGroup group);

// The member that a row with a field stands for.
ArgumentValue argument_value(const ArgumentSpec& spec, const TrainingArguments& args);
void set_argument(const ArgumentSpec& spec, const ArgumentValue& value, TrainingArguments& args);

// Throws UserError, "[`source`] …", if `value` is no choice of the row, or is one that this version lacks.
void check_argument(const ArgumentSpec& spec, const ArgumentValue& value, std::string_view source);

// Values from and to text and JSON. UserError, "[`source`] …", for what has not the row's kind.
ArgumentValue argument_from_text(const ArgumentSpec& spec, const std::string& text, std::string_view source);
ArgumentValue argument_from_json(const ArgumentSpec& spec, const nlohmann::json& json,
                                 std::string_view source);
std::string argument_to_text(const ArgumentValue& value);
nlohmann::json argument_to_json(const ArgumentValue& value);

// "true", "No", "1" … -> a boolean; nothing for any other text.
std::optional<bool> parse_boolean(std::string_view text);

// Sets every argument in `object` (a JSON object); keys as flags, without dashes.
void apply_json(const nlohmann::json& object, const std::string& source, TrainingArguments& args);

// Sets one argument from its text, through the row's rewrite if it is an old spelling.
void apply_text(const ArgumentSpec& spec, const std::string& text, std::string_view source,
                TrainingArguments& args);

struct ParsedArguments {
  TrainingArguments arguments;          // resolved and valid for the command, unless help is set
  bool help = false;                    // --help or -h: nothing else was looked at
  std::vector<std::string> given;       // the rows set on the command line, by name
  std::vector<std::string> configured;  // the rows set in the configuration file, by name

  // In either of the two, rather than a default.
  bool sets(std::string_view name) const;
};

// Reads flags: --name value, --name=value, --bf16, --no_bf16, --bf16 false, --some-name; lists as several
// words, with commas, or both; kwargs as JSON or a=b,c=d. `--config file.json` (or that file alone, without a
// flag) is applied first, whatever its place; its keys may belong to other commands. The last of a repeated
// flag counts. Throws UserError naming the flag, or the file and key; SystemError if the file cannot be read.
ParsedArguments parse_arguments(Command command, const std::vector<std::string>& words);

// What a command needs besides valid arguments: its model and files.
void validate_command(Command command, const TrainingArguments& args);

// The command's flags by group, aligned, at most 100 columns wide; then the names known but not yet built.
std::string help_text(Command command);

}  // namespace shoehorn
