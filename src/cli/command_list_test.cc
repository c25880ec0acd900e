#include "cli/command_list.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/error_testing.h"

namespace shoehorn {
namespace {

// Why the text of a flag is another in one command, where its meaning is the same.
const std::map<std::string, std::string>& same_in_other_words() {
  static const std::map<std::string, std::string> reasons = {
      {"model_name_or_path", "what a command takes besides a directory"},
      {"memory_budget", "the default of a ladder"},
      {"output_dir", "the files of a tokenizer"},
      {"overwrite_output_dir", "the files of a tokenizer"},
      {"seed", "of the texts that are generated"},
      {"report", "of an anatomy"},
      {"steps", "of a process, or of the anatomy's one"},
      {"limits", "what is done with them"},
      {"quick", "which shape or task"},
      {"rungs", "what comes first"},
      {"sequence_length", "of random tokens, which are all of one length"},
      {"json", "what the object is of"},
      {"top_k", "of tokens or of classes, as transformers' pipelines have it"},
      {"median_error", "of several settings, or of the step's one"},
      {"max_seconds", "of a process, or of the step's one"},
      {"repeats", "of settings that go on until they are stable, or that end behind so many runs"},
      {"link_bandwidth", "of a plan, or of ranks that take its time"},
      {"link_latency", "of one link, or of several"},
      {"num_threads", "of a ladder, both sides"},
      {"nproc_per_node", "has num_processes among its names, which train refuses with a word on launch"},
      {"text_column_names", "one column, since a language model reads one"},
  };
  return reasons;
}

std::vector<std::string_view> names_of(const ArgumentSpec& row) {
  std::vector<std::string_view> names = {row.name};
  names.insert(names.end(), row.aliases.begin(), row.aliases.end());
  return names;
}

// A flag of one name is one thing in all commands: the same kind of value, with the same text.
TEST(CommandList, AFlagHasOneMeaning) {
  struct Meaning {
    ArgumentSpec row;
    std::string command;
  };
  std::map<std::string, Meaning> meanings;
  for (const ArgumentSpec& row : argument_table()) {
    for (const std::string_view name : names_of(row)) meanings.emplace(name, Meaning{row, "train"});
  }
  std::set<std::string> in_other_words;
  for (const CommandEntry& entry : command_list()) {
    for (const ArgumentSpec& row : entry.help().own_rows) {
      if (row.status != ArgumentStatus::kSupported) continue;  // it says what to give here
      for (const std::string_view name : names_of(row)) {
        const auto [first, is_new] = meanings.emplace(name, Meaning{row, std::string(entry.name)});
        if (is_new) continue;
        const ArgumentSpec& other = first->second.row;
        // One of a list is a text.
        const bool is_one_of_a_list = row.kind == ArgumentKind::kText && other.kind == ArgumentKind::kList;
        EXPECT_TRUE(row.kind == other.kind || is_one_of_a_list)
            << "--" << name << " is something else in " << entry.name << " than in " << first->second.command;
        EXPECT_TRUE(other.status == ArgumentStatus::kSupported ||
                    same_in_other_words().contains(std::string(row.name)))
            << name;
        if (row.help == other.help) continue;
        in_other_words.insert(std::string(row.name));
        EXPECT_TRUE(same_in_other_words().contains(std::string(row.name)))
            << "--" << name << " of " << entry.name << ": " << row.help << ", of " << first->second.command
            << ": " << other.help;
      }
    }
  }
  for (const auto& [name, why] : same_in_other_words())
    EXPECT_TRUE(in_other_words.contains(name)) << name << " needs no exception";
}

TEST(CommandList, WordsNameCommands) {
  EXPECT_EQ(find_command({"train", "--bf16"}).first->name, "train");
  EXPECT_EQ(find_command({"train", "--bf16"}).second, std::vector<std::string>{"--bf16"});
  EXPECT_EQ(find_command({"bench", "step", "--steps", "3"}).first->name, "bench step");
  EXPECT_EQ(find_command({"tokenizer", "train"}).first->name, "tokenizer train");
  EXPECT_EQ(find_command({"tokenizer", "encode"}).first->name, "tokenizer");
  EXPECT_EQ(find_command({"bench"}).first, nullptr);
  EXPECT_EQ(commands_in_group("bench"),
            (std::vector<std::string>{"batch", "ladder", "parallel", "quality", "step"}));
  EXPECT_TRUE(commands_in_group("train").empty());
  for (const CommandEntry& entry : command_list()) {
    EXPECT_EQ(entry.help().name, entry.name);
    std::istringstream introduction(entry.help().introduction);
    for (std::string line; std::getline(introduction, line);)
      EXPECT_LE(line.size(), 120U) << entry.name << ": " << line;
    EXPECT_TRUE(contains(format_command_list(""), std::string(entry.summary)));
  }
}

// Usage lines have one form: what is needed, then in brackets what may be left out: a flag with its dashes and value, or FLAGS.
TEST(CommandList, UsageLinesHaveOneForm) {
  const std::regex optional_part(R"(\[(--[a-z_]+( [A-Z]+)?|FLAGS)\])");
  for (const CommandEntry& entry : command_list()) {
    const CommandHelp help = entry.help();
    EXPECT_TRUE(contains(help.introduction, fmt::format("shoehorn {}", entry.name))) << entry.name;
    EXPECT_FALSE(help.introduction.ends_with("\n\n")) << entry.name;
    std::istringstream introduction(help.introduction);
    for (std::string line; std::getline(introduction, line);) {
      if (!line.starts_with("  ")) continue;
      EXPECT_FALSE(contains(line, "...")) << line;
      const std::string needed = std::regex_replace(line, optional_part, "");
      EXPECT_EQ(needed.find_first_of("[]"), std::string::npos) << line;
    }
  }
}

}  // namespace
}  // namespace shoehorn
