#include "cli/completion.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <set>
#include <sstream>

#include "base/error_testing.h"
#include "base/shell_testing.h"
#include "cli/command_list.h"
#include "cli/completion_words.h"
#include "cli/man_page.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

using test_support::has_program;
using Words = std::set<std::string>;

std::string output_of(const std::string& command) {
  std::string output;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer = {};
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), count);
  pclose(pipe);
  return output;
}

// What bash offers for the last of the words.
class BashCompletion : public testing::Test {
 protected:
  BashCompletion() {
    directory_.write("completion", bash_completion());
    directory_.write("train.csv", "text,label\n");
    directory_.write("a_folder/file", "");
  }
  void SetUp() override {
    if (!has_program("bash")) GTEST_SKIP() << "no bash";
  }

  Words offered(const std::string& words) const {
    const std::string script =
        "cd '" + directory_.path().string() + "' && source ./completion && COMP_WORDS=(" + words +
        ") && COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) ; _shoehorn; printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    directory_.write("script", script);
    std::istringstream lines(output_of("bash --norc '" + (directory_.path() / "script").string() + "' 2>&1"));
    Words found;
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) found.insert(line);
    }
    return found;
  }

  const TestDirectory directory_;
};

TEST_F(BashCompletion, Commands) {
  EXPECT_EQ(offered("shoehorn tr"), Words{"train"});
  EXPECT_EQ(offered("shoehorn bench ''"),
            (Words{"batch", "ladder", "parallel", "quality", "step", "--help"}));
  EXPECT_EQ(offered("shoehorn tokenizer e"), Words{"encode"});
  EXPECT_EQ(offered("shoehorn completion f"), Words{"fish"});
  EXPECT_TRUE(offered("shoehorn ''").contains("bench"));
}

TEST_F(BashCompletion, FlagsOfTheCommand) {
  EXPECT_EQ(offered("shoehorn train --lora_r"), Words{"--lora_rank"});
  EXPECT_EQ(offered("shoehorn eval --lora_r"), Words{});
  EXPECT_EQ(offered("shoehorn bench ladder --rep"), (Words{"--repeats", "--report"}));
  EXPECT_EQ(offered("shoehorn train --output_dir out --no_do_e"), Words{"--no_do_eval"});
  EXPECT_EQ(offered("shoehorn plan --machine_p"), Words{"--machine_profile"});
  EXPECT_EQ(offered("shoehorn train --torch_compile_m"), Words{}) << "what has no effect is not offered";
  EXPECT_EQ(offered("shoehorn train --help a"), Words{"all"});
}

TEST_F(BashCompletion, ValuesOfAFlag) {
  EXPECT_EQ(offered("shoehorn train --save_strategy e"), Words{"epoch"});
  EXPECT_EQ(offered("shoehorn train --save_strategy = e"), Words{"epoch"}) << "--save_strategy=e";
  EXPECT_EQ(offered("shoehorn train --report_to tensorboard,h"), Words{"tensorboard,html"});
  EXPECT_EQ(offered("shoehorn train --evaluation_strategy s"), Words{"steps"}) << "an alias";
  EXPECT_EQ(offered("shoehorn train --train_file tr"), Words{"train.csv"});
  EXPECT_EQ(offered("shoehorn train --output_dir a"), Words{"a_folder"});
  EXPECT_EQ(offered("shoehorn train --optim gal"), Words{}) << "a value that is not supported";
  EXPECT_EQ(offered("shoehorn tokenizer encode tr"), Words{"train.csv"});
}

// The scripts of other shells name each flag that each command offers.
TEST(Completion, EveryShellHasEveryFlag) {
  const std::string zsh = zsh_completion();
  const std::string fish = fish_completion();
  for (const CommandEntry& entry : command_list()) {
    for (const ArgumentSpec& row : offered_rows(entry)) {
      const std::string name(row.name);
      EXPECT_TRUE(contains(zsh, "'--" + name + "[") || contains(zsh, "'--" + name + "=[")) << name;
      EXPECT_TRUE(contains(fish, "'__shoehorn_command " + std::string(entry.name) + "' -l " + name + " "))
          << name;
    }
  }
}

void expect_shell_reads(const std::string& shell, const std::string& flags, const std::string& script) {
  if (!has_program(shell)) GTEST_SKIP() << "no " << shell;
  const TestDirectory directory;
  const std::string file = directory.write("script", script).string();
  EXPECT_EQ(output_of(shell + " " + flags + " '" + file + "' 2>&1"), "");
}

TEST(Completion, BashReadsIt) {
  expect_shell_reads("bash", "-n", bash_completion());
}

TEST(Completion, ZshReadsIt) {
  expect_shell_reads("zsh", "-n", zsh_completion());
}

TEST(Completion, FishReadsIt) {
  expect_shell_reads("fish", "--no-execute", fish_completion());
}

// What fish offers for a command line.
TEST(Completion, FishOffersCommandsFlagsAndValues) {
  if (!has_program("fish")) GTEST_SKIP() << "no fish";
  const TestDirectory directory;
  const std::string file = directory.write("completion.fish", fish_completion()).string();
  const auto offered = [&](const std::string& line) {
    const std::string script = "source " + file + "; complete -C '" + line + "'\n";
    directory.write("script.fish", script);
    std::istringstream lines(
        output_of("fish --no-config '" + (directory.path() / "script.fish").string() + "' 2>&1"));
    Words found;
    for (std::string one; std::getline(lines, one);) found.insert(one.substr(0, one.find('\t')));
    return found;
  };
  EXPECT_EQ(offered("shoehorn tr"), Words{"train"});
  EXPECT_EQ(offered("shoehorn bench "), (Words{"batch", "ladder", "quality", "step"}));
  EXPECT_EQ(offered("shoehorn train --lora_r"), Words{"--lora_rank"});
  EXPECT_EQ(offered("shoehorn eval --lora_r"), Words{});
  EXPECT_EQ(offered("shoehorn train --save_strategy e"), Words{"epoch"});
}

TEST(ManPage, HasAllCommandsAndFlags) {
  const std::string page = man_page();
  EXPECT_TRUE(page.starts_with(".\\\" Made by `shoehorn man`.\n.TH SHOEHORN 1 "));
  const auto roff = [](std::string_view text) {
    std::string result;
    for (const char character : text)
      result += character == '-' ? std::string("\\-") : std::string(1, character);
    return result;
  };
  for (const CommandEntry& entry : command_list()) {
    EXPECT_TRUE(contains(page, ".SS shoehorn " + std::string(entry.name) + "\n")) << entry.name;
    for (const ArgumentSpec& row : offered_rows(entry))
      EXPECT_TRUE(contains(page, "\n.B \\-\\-" + roff(row.name))) << row.name;
  }
  EXPECT_FALSE(contains(page, "\n'")) << "a request by accident";
  for (const char character : page) EXPECT_LT(static_cast<unsigned char>(character), 0x80U);
}

TEST(ManPage, IsAManPage) {
  const TestDirectory directory;
  const std::string file = directory.write("shoehorn.1", man_page()).string();
  if (has_program("mandoc")) {
    EXPECT_EQ(output_of("mandoc -Tlint -Wwarning '" + file + "' 2>&1"), "");
  } else if (has_program("groff")) {
    EXPECT_EQ(output_of("groff -man -Tutf8 -ww -z '" + file + "' 2>&1"), "");
  } else {
    GTEST_SKIP() << "neither mandoc nor groff";
  }
}

}  // namespace
}  // namespace shoehorn
