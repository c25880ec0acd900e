// anatomy as a program.
#include <nlohmann/json.hpp>

#include "cli_support.h"
#include "io/json_file.h"
#include "models/bert.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

class CliAnatomy : public CliTest {
 protected:
  ProgramRun anatomy(std::vector<std::string> more) const {
    std::vector<std::string> words = {"anatomy", "--model", model(), "--sequence_length", "20"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  // What is in the result of either kind of run.
  static void expect_measured(const json& found) {
    int64_t sum = 0;
    for (const json& part : found["memory"]["parts"]) sum += part["bytes"].get<int64_t>();
    EXPECT_EQ(sum, found["memory"]["total_bytes"]);
    EXPECT_EQ(found["memory"]["unexplained_bytes"],
              found["memory_process_measured_bytes"].get<int64_t>() - sum);
    EXPECT_EQ(found["operations"]["measured"], true);
    for (const auto& [name, work] : found["operations"]["classes"].items())
      EXPECT_GT(work["seconds"].get<double>(), 0) << name;
  }

  // Nothing unexplained above 1% of the measured peak, on a model of which 1% is more than what differs from
  // run to run (stacks, the allocator).
  static void expect_explained(const json& found) {
    const auto measured = found["memory_process_measured_bytes"].get<double>();
    EXPECT_GT(measured / 100, kLeastHundredth);
    EXPECT_LE(std::abs(found["memory"]["unexplained_bytes"].get<double>()), measured / 100);
  }

  static constexpr double kLeastHundredth = 3 << 20;
};

TEST_F(CliAnatomy, MeasuredAccountsForEveryByteAndTimesEveryClass) {
  const ProgramRun result = anatomy({"--json", "--report", path("anatomy.html")});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  expect_measured(parse_json(result.output, "output"));
  const std::string step = parse_json(result.output, "output")["step"];
  EXPECT_TRUE(step.starts_with("Training step, ")) << step;
  const std::string page = read_text_file(path("anatomy.html"));
  EXPECT_TRUE(contains(page, step)) << "the page says what was measured";
  for (const char* part : {"tensor contractions", "By component", "attention (all layers)",
                           "measured peak of the process", "not accounted for"})
    EXPECT_TRUE(contains(page, part)) << part;
}

TEST_F(CliAnatomy, InferenceIsMeasuredAsTrainingIs) {
  const ProgramRun result = anatomy({"--inference", "--steps", "3", "--json_file", path("anatomy.json")});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  for (const char* part :
       {"Evaluation step, ", " tokens a step)\nMemory", "By component", "not accounted for", "x the floor"})
    EXPECT_TRUE(contains(result.output, part)) << result.output;
  EXPECT_FALSE(contains(result.output, "optimizer"));
  const json found = parse_json(read_text_file(path("anatomy.json")), "output");
  expect_measured(found);
  EXPECT_EQ(found["operations"]["contractions_backward"]["flops"], 0);
}

TEST_F(CliAnatomy, LeavesNothingUnexplainedAboveAHundredth) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer's own memory is in no account";
  BertConfig config;
  config.hidden_size = 512;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 8;
  config.intermediate_size = 2048;
  std::filesystem::create_directory(path("training"));
  directory_.write("training/config.json", BertForSequenceClassification(config).config_json());
  for (const auto& [model, kind] : {std::pair{path("training").string(), "--no_inference"},
                                    std::pair{std::string("bert-base"), "--inference"}}) {
    const ProgramRun result = run({"anatomy", "--model", model, "--sequence_length", "32", kind,
                                   "--per_device_train_batch_size", "2", "--steps", "1", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.error;
    const json found = parse_json(result.output, "output");
    expect_measured(found);
    expect_explained(found);
  }
}

TEST_F(CliAnatomy, PlannedRunsNothing) {
  for (const char* kind : {"--no_inference", "--inference"}) {
    const ProgramRun result = anatomy({"--no_measure", kind});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_TRUE(contains(result.output, "at least"));
    EXPECT_FALSE(contains(result.output, "x the floor"));
    EXPECT_FALSE(contains(result.output, "measured peak"));
    EXPECT_EQ(contains(result.output, "optimizer states"), std::string(kind) == "--no_inference");
  }
}

TEST_F(CliAnatomy, Mistakes) {
  EXPECT_EQ(anatomy({"--steps", "0"}).exit_code, 2);
  const ProgramRun unknown = anatomy({"--inferense"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(contains(unknown.error, "--inferense")) << unknown.error;
}

}  // namespace
}  // namespace shoehorn
