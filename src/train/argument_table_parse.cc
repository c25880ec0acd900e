// The command line over the table.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json_file.h"
#include "train/argument_table.h"

namespace shoehorn {
namespace {

// One flag as it was given: its row, how it was spelt, its value as text.
struct GivenFlag {
  const ArgumentSpec* spec;
  std::string source;
  std::string text;
};

bool is_flag_word(const std::string& word) {
  return word.size() > 2 && word.starts_with("--");
}

bool may_stand_bare(const ArgumentSpec& spec) {
  return spec.kind == ArgumentKind::kFlag || !spec.true_text.empty();
}

// --no_bf16: the row of bf16. Null if `name` is nothing of that form.
const ArgumentSpec* find_negated(std::string_view name) {
  if (!name.starts_with("no_") && !name.starts_with("no-")) return nullptr;
  const ArgumentSpec* spec = find_argument(name.substr(3));
  return spec != nullptr && spec->kind == ArgumentKind::kFlag ? spec : nullptr;
}

std::vector<Command> commands_taking(ArgumentGroup group) {
  std::vector<Command> commands;
  for (const Command command : {Command::kTrain, Command::kEval, Command::kPredict, Command::kPlan,
                                Command::kBenchStep, Command::kEnv}) {
    if (command_takes(command, group)) commands.push_back(command);
  }
  return commands;
}

void require_taken(Command command, const ArgumentSpec& spec, const std::string& source) {
  if (command_takes(command, spec.group)) return;
  std::string takers;
  for (const Command taker : commands_taking(spec.group)) {
    if (!takers.empty()) takers += ", ";
    takers += command_name(taker);
  }
  throw user_error("[{}] expected a flag of the command {}, got one of {}", source, command_name(command),
                   takers);
}

class WordReader {
 public:
  explicit WordReader(const std::vector<std::string>& words) : words_(words) {}

  bool at_end() const { return at_ == words_.size(); }

  // Reads one flag with its value.
  GivenFlag read_flag() {
    const std::string& word = words_[at_++];
    if (!is_flag_word(word)) return read_bare_file(word);
    const size_t equals = word.find('=');
    const std::string source = word.substr(0, equals);
    const std::string_view name = std::string_view(source).substr(2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);

    if (const ArgumentSpec* spec = find_argument(name)) {
      return {spec, source, value ? *value : read_value(*spec, source)};
    }
    if (const ArgumentSpec* spec = find_negated(name)) {
      if (value)
        throw user_error("[{}] expected no value, got '{}'; give --{}={}", source, *value, spec->name,
                         *value);
      return {spec, source, "false"};
    }
    throw user_error("[{}] expected a known flag, got '{}'{}", source, name, did_you_mean(name));
  }

 private:
  // A lone configuration file, as transformers' HfArgumentParser takes it.
  GivenFlag read_bare_file(const std::string& word) const {
    if (word.ends_with(".json")) return {find_argument("config"), "configuration file", word};
    throw user_error("[command line] expected --name, --name value or a configuration file.json, got '{}'",
                     word);
  }

  bool has_value_word() const { return !at_end() && !is_flag_word(words_[at_]); }

  std::string read_value(const ArgumentSpec& spec, const std::string& source) {
    if (spec.kind == ArgumentKind::kFlag) {
      return has_value_word() && parse_boolean(words_[at_]) ? words_[at_++] : "true";
    }
    if (!has_value_word()) {
      if (may_stand_bare(spec)) return "true";
      throw user_error("[{}] expected a value, got {}", source, at_end() ? "nothing" : words_[at_]);
    }
    std::string text = words_[at_++];
    while (spec.kind == ArgumentKind::kList && has_value_word()) text += "," + words_[at_++];
    return text;
  }

  const std::vector<std::string>& words_;
  size_t at_ = 0;
};

}  // namespace

ParsedArguments parse_arguments(Command command, const std::vector<std::string>& words) {
  ParsedArguments parsed;
  if (std::any_of(words.begin(), words.end(),
                  [](const auto& word) { return word == "--help" || word == "-h"; })) {
    parsed.help = true;
    return parsed;
  }

  std::vector<GivenFlag> flags;
  for (WordReader reader(words); !reader.at_end();) {
    flags.push_back(reader.read_flag());
    require_taken(command, *flags.back().spec, flags.back().source);
  }
  for (const GivenFlag& flag : flags) {
    if (flag.spec->name == "config") apply_json(read_json(flag.text), flag.text, parsed.arguments);
  }
  for (const GivenFlag& flag : flags) {
    if (flag.spec->name != "config") apply_text(*flag.spec, flag.text, flag.source, parsed.arguments);
    parsed.given.emplace_back(flag.spec->name);
  }
  parsed.arguments = resolved(std::move(parsed.arguments));
  validate(parsed.arguments);
  validate_command(command, parsed.arguments);
  return parsed;
}

void validate_command(Command command, const TrainingArguments& args) {
  const auto require = [command](std::string_view name, bool given, std::string_view hint) {
    if (!given)
      throw user_error("[--{}] expected a value for {}, got nothing; {}", name, command_name(command), hint);
  };
  if (command == Command::kEnv) return;
  require("model_name_or_path", !args.model_name_or_path.empty(), "give a model's directory");
  const bool has_validation = !args.validation_file.empty();
  switch (command) {
    case Command::kTrain:
      require("train_file", !args.train_file.empty(), "give the file to train on");
      require("output_dir", !args.output_dir.empty(), "give the directory for the result");
      if (args.eval_strategy != "no" && !has_validation) {
        throw user_error(
            "[--validation_file] expected a file, because eval_strategy is {}, got nothing; "
            "evaluation needs an evaluation set",
            args.eval_strategy);
      }
      if (args.eval_on_start)
        require("validation_file", has_validation, "eval_on_start needs an evaluation set");
      if (args.do_eval) require("validation_file", has_validation, "do_eval needs an evaluation set");
      if (args.do_predict)
        require("test_file", !args.test_file.empty(), "do_predict needs a file to predict");
      return;
    case Command::kEval:
      require("validation_file", has_validation, "give the file to evaluate on");
      return;
    case Command::kPredict:
      require("test_file", !args.test_file.empty(), "give the file to predict");
      return;
    default:
      return;
  }
}

}  // namespace shoehorn
