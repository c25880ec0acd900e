// anatomy as a program.
#include <nlohmann/json.hpp>

#include "cli_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;
using nlohmann::json;

class CliAnatomy : public CliTest {
 protected:
  ProgramRun anatomy(std::vector<std::string> more) const {
    std::vector<std::string> words = {"anatomy", "--model", model(), "--sequence_length", "20"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

TEST_F(CliAnatomy, MeasuredAccountsForEveryByteAndTimesEveryClass) {
  const ProgramRun result = anatomy({"--json", "--report", path("anatomy.html")});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json found = json::parse(result.output);
  int64_t sum = 0;
  for (const json& part : found["memory"]["parts"]) sum += part["bytes"].get<int64_t>();
  EXPECT_EQ(sum, found["memory"]["total_bytes"]);
  if (!kIsSanitized) {
    // The promise of the forecast: 2% or 8 MiB.
    EXPECT_LE(std::abs(found["memory_process_measured_bytes"].get<int64_t>() - sum),
              std::max(sum / 50, int64_t{8} << 20));
  }
  EXPECT_EQ(found["operations"]["measured"], true);
  for (const auto& [name, work] : found["operations"]["classes"].items())
    EXPECT_GT(work["seconds"].get<double>(), 0) << name;
  EXPECT_TRUE(contains(read_text_file(path("anatomy.html")), "tensor contractions"));
}

TEST_F(CliAnatomy, PlannedRunsNothing) {
  const ProgramRun training = anatomy({"--no_measure"});
  EXPECT_EQ(training.exit_code, 0) << training.error;
  EXPECT_TRUE(contains(training.output, "optimizer states"));
  EXPECT_FALSE(contains(training.output, "x the floor"));
  const ProgramRun inference = anatomy({"--inference"});
  EXPECT_EQ(inference.exit_code, 0) << inference.error;
  EXPECT_FALSE(contains(inference.output, "optimizer states"));
}

TEST_F(CliAnatomy, Mistakes) {
  EXPECT_EQ(anatomy({"--steps", "0"}).exit_code, 2);
  const ProgramRun unknown = anatomy({"--inferense"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(contains(unknown.error, "--inferense")) << unknown.error;
}

}  // namespace
}  // namespace shoehorn
