#include "arguments/argument_help.h"

#include <gtest/gtest.h>

#include "arguments/help_search.h"
#include "base/error_testing.h"
#include "base/utf8.h"

namespace shoehorn {
namespace {

using Words = std::vector<std::string>;

CommandHelp help_of(Command command) {
  return {.name = std::string(command_name(command)), .introduction = "What it does.\n", .table = command};
}

std::string help(Command command, std::string_view word = "") {
  return format_help(help_of(command), word);
}

bool shows(const std::string& text, std::string_view name) {
  const std::string flag = "\n  --" + std::string(name);
  return contains(text, flag + " ") || contains(text, flag + "\n");
}

int64_t count_flags(const std::string& text) {
  int64_t count = 0;
  for (size_t at = text.find("\n  --"); at != std::string::npos; at = text.find("\n  --", at + 1)) ++count;
  return count;
}

void expect_lines_within(const std::string& text, int64_t columns) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    ASSERT_NE(end, std::string::npos);
    EXPECT_LE(count_code_points(text.substr(begin, end - begin)), columns) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST(ArgumentHelp, TheWholeHelpHasAllThatACommandReads) {
  for (const Command command : kCommands) {
    const std::string all = help(command, "all");
    expect_lines_within(all, 100);
    for (const ArgumentSpec& spec : argument_table()) {
      if (spec.status != ArgumentStatus::kSupported) continue;
      EXPECT_EQ(shows(all, spec.name), command_reads(command, spec))
          << command_name(command) << " " << spec.name;
    }
  }
  const std::string train = help(Command::kTrain, "all");
  EXPECT_TRUE(contains(train, "\nOptimizer and schedule:\n"));
  EXPECT_TRUE(contains(train, "run_glue does"));
  EXPECT_TRUE(contains(train, "Known, and refused unless they have their default:"));
  EXPECT_TRUE(contains(help(Command::kPlan, "all"), "without effect here:"));
  EXPECT_EQ(help(Command::kEnv, "all").find("learning_rate"), std::string::npos);
}

TEST(ArgumentHelp, WhatIsAlwaysSoIsSaid) {
  for (const ArgumentSpec& spec : argument_table())
    EXPECT_EQ(spec.is_always_so, spec.help.starts_with("accepted")) << spec.name;
}

// The text of a flag is true of the command whose help it is in.
TEST(ArgumentHelp, TextsAreOfTheCommand) {
  const std::string eval = help(Command::kEval, "all");
  EXPECT_TRUE(contains(eval, "--output_dir DIR                where the results go (default"));
  EXPECT_TRUE(contains(eval, "which head the model has"));
  EXPECT_FALSE(contains(eval, "master weights"));
  for (const Command command : {Command::kEval, Command::kPredict})
    EXPECT_FALSE(contains(help(command, "all"), "bench ladder")) << command_name(command);
  const ArgumentSpec& model = *find_argument("model_name_or_path");
  EXPECT_TRUE(contains(std::string(help_in(Command::kPlan, model)), "or the name of a shape"));
  EXPECT_FALSE(contains(std::string(help_in(Command::kTrain, model)), "shape"));
  EXPECT_TRUE(contains(help(Command::kTrain, "explain"), "refused here")) << help(Command::kTrain, "explain");
  EXPECT_TRUE(contains(help(Command::kPlan, "explain"), "bytes moved"));
  // A text that names the command that it is of has its own in the others.
  for (const Command command : kCommands) {
    for (const ArgumentSpec& spec : argument_table()) {
      if (spec.status != ArgumentStatus::kSupported || !command_reads(command, spec)) continue;
      const std::string_view text = help_in(command, spec);
      EXPECT_FALSE(text.starts_with("of plan") || text.starts_with("for plan")) << spec.name;
    }
  }
}

// Some thirty flags of train, and of other commands no more than a screen or two; each has an effect there.
TEST(ArgumentHelp, TheFirstLayerHasWhatPeopleUse) {
  for (const Command command : kCommands) {
    const std::string text = help(command);
    expect_lines_within(text, 100);
    EXPECT_LE(count_flags(text), 42) << command_name(command);
    for (const ArgumentSpec& spec : argument_table()) {
      if (!shows(text, spec.name)) continue;
      EXPECT_TRUE(command_reads(command, spec)) << command_name(command) << " " << spec.name;
      EXPECT_FALSE(spec.is_always_so) << command_name(command) << " " << spec.name;
    }
    EXPECT_TRUE(contains(text, "--help all")) << command_name(command);
  }
  const std::string train = help(Command::kTrain);
  EXPECT_GE(count_flags(train), 27);
  EXPECT_LE(count_flags(train), 36);
  for (const char* name :
       {"model_name_or_path", "train_file", "learning_rate", "num_train_epochs", "output_dir"})
    EXPECT_TRUE(shows(train, name)) << name;
  EXPECT_FALSE(shows(train, "adam_beta2"));
  EXPECT_TRUE(shows(help(Command::kEval), "bf16_full_eval")) << "a command with few flags shows all that act";
}

TEST(ArgumentHelp, AWordFindsNamesAliasesValuesAndTexts) {
  const std::string rate = help(Command::kTrain, "learning-rate");
  EXPECT_TRUE(contains(rate, "Flags of train with 'learning-rate':\n  --learning_rate X")) << rate;
  EXPECT_TRUE(shows(rate, "scale_learning_rate"));
  EXPECT_LT(rate.find("--learning_rate X"), rate.find("--scale_learning_rate"));
  EXPECT_TRUE(shows(help(Command::kTrain, "evaluation_strategy"), "eval_strategy")) << "an alias";
  EXPECT_TRUE(shows(help(Command::kTrain, "ADALOMO"), "optim")) << "a value";
  EXPECT_TRUE(shows(help(Command::kTrain, "low-rank adapters"), "lora_rank")) << "a text";
  EXPECT_TRUE(contains(help(Command::kTrain, "parallelism_config"),
                       "not in this version yet: ranks are data parallel"));
  EXPECT_TRUE(contains(help(Command::kTrain, "max_epochs"), "of Lightning; give --num_train_epochs"));
  const std::string other = help(Command::kEval, "learning_rate");
  EXPECT_TRUE(contains(other, "Flags of other commands:")) << other;
  EXPECT_TRUE(contains(other, "(train, plan,")) << other;
  const std::string nothing = help(Command::kTrain, "lernin_rate");
  EXPECT_TRUE(contains(nothing,
                       "No flag of train has 'lernin_rate' in its name or text; near names: --learning_rate"))
      << nothing;
  EXPECT_TRUE(shows(help(Command::kTrain, "batchsize"), "per_device_train_batch_size"));
  EXPECT_TRUE(shows(help(Command::kTrain, "EarlyStop"), "early_stopping_patience"));
  EXPECT_EQ(help(Command::kTrain, "zzzzzzzzzzzz"),
            "No flag of train has 'zzzzzzzzzzzz' in its name or text.\n");
}

TEST(ArgumentHelp, LinesAreAsWideAsTheTerminal) {
  for (const int64_t columns : {60, 80, 132})
    expect_lines_within(format_help(help_of(Command::kEval), "", {.columns = columns}), columns);
  const std::string narrow = format_help(help_of(Command::kTrain), "", {.columns = 50});
  EXPECT_TRUE(contains(narrow, "\n  --train_file FILE\n      csv, tsv")) << narrow;
  EXPECT_TRUE(contains(format_help(help_of(Command::kEnv), "", {.bold = true}), "\x1b[1mGeneral:\x1b[0m\n"));
  EXPECT_FALSE(contains(help(Command::kTrain), "\x1b"));
}

TEST(ArgumentHelp, OwnRowsComeFirstAndReplaceThoseOfTheTable) {
  CommandHelp own = help_of(Command::kPlan);
  own.own_rows = {{.name = "seed", .kind = ArgumentKind::kFlag, .standard = false, .help = "another seed"},
                  {.name = "of_its_own", .kind = ArgumentKind::kText, .value = "FILE", .help = "what it is"}};
  own.remarks = "Remarks.\n";
  const std::string text = format_help(own, "all");
  EXPECT_TRUE(contains(text, "What it does.\n\nOf this command:\n  --seed ")) << text;
  EXPECT_FALSE(contains(text, "of new weights, dropout and order"));
  EXPECT_TRUE(contains(text, "--of_its_own FILE"));
  EXPECT_TRUE(contains(text, "\nRemarks.\n"));
  own.table.reset();
  EXPECT_FALSE(contains(format_help(own, ""), "Of this command"));
}

TEST(ArgumentHelp, WhatACommandSetsItselfIsNotOffered) {
  CommandHelp own = help_of(Command::kTrain);
  own.set_by_itself = {"output_dir", "bf16"};
  EXPECT_FALSE(shows(format_help(own, ""), "output_dir"));
  const std::string all = format_help(own, "all");
  EXPECT_FALSE(shows(all, "bf16"));
  EXPECT_TRUE(contains(all, "Refused, because the command sets them itself:\n  output_dir bf16\n")) << all;
  EXPECT_TRUE(shows(all, "fp16"));
}

TEST(ArgumentHelp, TheWordBehindHelp) {
  EXPECT_EQ(help_word_of({"--bf16"}), std::nullopt);
  EXPECT_EQ(help_word_of({"--nonsense", "--help"}), "");
  EXPECT_EQ(help_word_of({"-h", "all"}), "all");
  EXPECT_EQ(help_word_of({"--help=lora"}), "lora");
  EXPECT_EQ(help_word_of({"--help", "--lora_rank"}), "lora_rank");
  EXPECT_EQ(help_word_of({"--help", "--train_file", "train.csv"}), "") << "put before a command line";
}

}  // namespace
}  // namespace shoehorn
