#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

TEST(CommandCompare, PrintsATableOrJsonAndWritesThePage) {
  const TestDirectory directory;
  directory.write("a/all_results.json", "{\"train_loss\": 0.5}");
  directory.write("b/all_results.json", "{\"train_loss\": 0.25}");
  const std::string a = (directory.path() / "a").string();
  const std::string b = (directory.path() / "b").string();
  const std::string page = (directory.path() / "compare.html").string();
  const std::string json = (directory.path() / "compare.json").string();
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_compare({a, b, "--report", page, "--json_file", json}), 0);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("training loss"), std::string::npos) << text;
  EXPECT_NE(text.find("a has no training_args.json"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("Results in " + json + "\nReport in " + page + "\n")) << text;
  EXPECT_NE(read_text_file(page).find("Comparison of runs"), std::string::npos);
  EXPECT_EQ(read_json(json)["runs"][1]["results"]["train_loss"], 0.25);
}

TEST(CommandCompare, AnUnknownFlagIsNoRun) {
  try {
    run_compare({"a", "b", "--repor", "x"});
    FAIL() << "expected a UserError";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean --report?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace shoehorn
