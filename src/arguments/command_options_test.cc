#include "arguments/command_options.h"

#include <gtest/gtest.h>

#include "base/error_testing.h"

namespace shoehorn {
namespace {

using enum ArgumentKind;

const std::vector<ArgumentSpec>& rows() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "quick", .kind = kFlag, .standard = false, .help = "be quick"},
      {.name = "steps", .kind = kInteger, .standard = int64_t{3}, .help = "how many"},
      {.name = "rungs", .kind = kList, .standard = std::vector<std::string>(), .help = "which"},
      {.name = "model_name_or_path",
       .kind = kText,
       .standard = std::string("bert-base"),
       .help = "of what",
       .aliases = {"model"}},
      {.name = "against",
       .kind = kText,
       .standard = std::string(),
       .help = "whom",
       .choices = {{"huggingface"}}},
      {.name = "json", .kind = kText, .standard = std::string(), .help = "where", .true_text = "-"},
      {.name = "memory_budget", .kind = kBytes, .help = "how much"},
  };
  return rows;
}

std::string parse_refusal(const std::vector<std::string>& words) {
  return refusal_of([&] { parse_options(rows(), words); });
}

TEST(CommandOptions, Standards) {
  const CommandOptions options = parse_options(rows(), {});
  EXPECT_FALSE(options.flag("quick"));
  EXPECT_EQ(options.integer("steps"), 3);
  EXPECT_TRUE(options.list("rungs").empty());
  EXPECT_EQ(options.text("json"), "");
  EXPECT_FALSE(options.is_given("memory_budget"));
}

TEST(CommandOptions, Values) {
  const CommandOptions options =
      parse_options(rows(), {"--quick", "--steps=7", "--rungs", "a,b", "c", "--model", "m", "--json",
                             "--memory-budget", "1GiB", "--steps", "8", "--against", "huggingface"});
  EXPECT_TRUE(options.flag("quick"));
  EXPECT_EQ(options.integer("steps"), 8);
  EXPECT_EQ(options.list("rungs"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(options.text("model_name_or_path"), "m");
  EXPECT_EQ(options.text("json"), "-");
  EXPECT_EQ(options.integer("memory_budget"), int64_t{1} << 30);
  EXPECT_TRUE(options.is_given("model_name_or_path"));
  EXPECT_EQ(parse_options(rows(), {"--steps=7", "--rungs", "a,b", "c", "--quick"}).given_text(),
            " --quick true --rungs a,b,c --steps 7");
  EXPECT_EQ(parse_options(rows(), {"--json", "out.json"}).text("json"), "out.json");
  EXPECT_EQ(parse_options(rows(), {"--json", "-"}).text("json"), "-");
  EXPECT_FALSE(parse_options(rows(), {"--quick", "--no_quick"}).flag("quick"));
}

TEST(CommandOptions, Refusals) {
  EXPECT_NE(parse_refusal({"--step", "2"}).find("did you mean --steps?"), std::string::npos);
  EXPECT_NE(parse_refusal({"--steps", "many"}).find("[--steps] expected an integer"), std::string::npos);
  EXPECT_NE(parse_refusal({"--steps"}).find("[--steps] expected a value"), std::string::npos);
  EXPECT_NE(parse_refusal({"--against", "the_world"}).find("expected one of huggingface"), std::string::npos);
  EXPECT_NE(parse_refusal({"file.json"}).find("[command line]"), std::string::npos);
}

TEST(CommandOptions, OtherFlagsAreKeptInOrder) {
  const CommandOptions options = parse_options(
      rows(), {"--bf16", "--steps", "5", "--optim", "sgd", "--no_tf32", "--quick"}, OtherWords::kTableFlags);
  EXPECT_EQ(options.rest, (std::vector<std::string>{"--bf16", "--optim", "sgd", "--no_tf32"}));
  EXPECT_EQ(options.integer("steps"), 5);
  EXPECT_TRUE(options.flag("quick"));
}

TEST(CommandOptions, AnUnknownFlagIsKeptOnlyIfTheTableHasIt) {
  const auto refusal = [](const std::vector<std::string>& words, OtherWords kept) {
    return refusal_of([&] { parse_options(rows(), words, kept); });
  };
  EXPECT_NE(refusal({"--rung", "a"}, OtherWords::kTableFlags).find("did you mean --rungs?"),
            std::string::npos);
  EXPECT_NE(refusal({"--lerning_rate", "1"}, OtherWords::kTableFlags).find("did you mean --learning_rate?"),
            std::string::npos);
  EXPECT_NE(refusal({"--bf16"}, OtherWords::kWords).find("[--bf16] expected a known flag"),
            std::string::npos);
}

TEST(CommandOptions, WordsAndCommandLinesAreKept) {
  EXPECT_EQ(parse_options(rows(), {"a", "--steps", "5", "b"}, OtherWords::kWords).rest,
            (std::vector<std::string>{"a", "b"}));
  const CommandOptions launch =
      parse_options(rows(), {"--steps", "5", "train", "--steps", "9", "--bf16"}, OtherWords::kCommandLine);
  EXPECT_EQ(launch.rest, (std::vector<std::string>{"train", "--steps", "9", "--bf16"}));
  EXPECT_EQ(launch.integer("steps"), 5);
}

// A flag without its dashes.
TEST(CommandOptions, AStrayWordNamesTheFlagThatItIsLike) {
  EXPECT_NE(parse_refusal({"quick"}).find("got 'quick'; did you mean --quick?"), std::string::npos);
}

}  // namespace
}  // namespace shoehorn
