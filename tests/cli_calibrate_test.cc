// `calibrate`, and what fit and plan make of it.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace test_support;
using nlohmann::json;

class CliCalibrate : public CliTest {
 protected:
  CliCalibrate() { setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }
  ~CliCalibrate() override { unsetenv("XDG_CACHE_HOME"); }

  json json_of(const std::string& command) const {
    const ProgramRun result = run(words(command, {"--json"}));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return json::parse(result.output);
  }
  std::vector<std::string> words(const std::string& command,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {command, "--model_name_or_path", model().string(), "--train_file",
                                    path("train.csv").string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::filesystem::path file() const {
    for (const auto& entry : std::filesystem::directory_iterator(path("cache/shoehorn/calibration")))
      return entry.path();
    return {};
  }
};

TEST_F(CliCalibrate, FitAndPlanSayWhetherTimesAreCalibrated) {
  const ProgramRun before = run(words("fit"));
  EXPECT_TRUE(contains(before.output, "Times are not calibrated for this machine")) << before.output;
  EXPECT_TRUE(contains(before.output, "no less than")) << before.output;
  EXPECT_TRUE(contains(run(words("plan")).output, "`shoehorn calibrate` measures them"));
  EXPECT_FALSE(json_of("plan").contains("step_seconds"));

  const ProgramRun calibrated = run({"calibrate", "--quick", "--max_seconds", "600"});
  ASSERT_EQ(calibrated.exit_code, 0) << calibrated.error;
  EXPECT_TRUE(contains(calibrated.output, "operations timed")) << calibrated.output;

  const ProgramRun after = run(words("fit"));
  EXPECT_TRUE(contains(after.output, "% (calibrated)")) << after.output;
  EXPECT_FALSE(contains(after.output, "not calibrated")) << after.output;
  EXPECT_TRUE(contains(run(words("plan")).output, "% (calibrated)"));
  for (const json& found : {json_of("plan"), json_of("fit")["chosen"]}) {
    EXPECT_EQ(found["step_seconds_are"], "calibrated");
    EXPECT_GT(found["step_seconds"].get<double>(), 0);
    EXPECT_GT(found["step_seconds_error"].get<double>(), 0);
    // 48 samples in steps of 8.
    EXPECT_NEAR(found["epoch_seconds"].get<double>(), 6 * found["step_seconds"].get<double>(), 1e-9);
  }

  std::ofstream(file()) << "{}";
  const ProgramRun damaged = run(words("fit"));
  EXPECT_EQ(damaged.exit_code, 0) << damaged.error;
  EXPECT_TRUE(contains(damaged.output, "is damaged")) << damaged.output;
  EXPECT_TRUE(contains(damaged.output, "no less than")) << damaged.output;
}

// What is measured in a second does not take the place of what took a minute, unless it is asked for.
TEST_F(CliCalibrate, AQuickOneDoesNotReplaceAFullOne) {
  const std::vector<std::string> quick = {"calibrate", "--quick", "--max_seconds", "600"};
  const ProgramRun first = run(quick);
  ASSERT_EQ(first.exit_code, 0) << first.error;
  EXPECT_TRUE(contains(first.output, "fit and plan use this quick calibration")) << first.output;
  EXPECT_TRUE(contains(run(words("plan")).output, "Times are by a quick calibration; `shoehorn calibrate`"));
  // As a full one that was cut off after its first step.
  const ProgramRun full = run({"calibrate", "--max_seconds", "0"});
  ASSERT_EQ(full.exit_code, 0) << full.error;
  EXPECT_TRUE(contains(full.output, "left out: 0 s are over; --max_seconds gives more")) << full.output;
  std::set<std::string> lines;
  std::istringstream output(full.output);
  for (std::string line; std::getline(output, line);) EXPECT_TRUE(lines.insert(line).second) << line;
  EXPECT_FALSE(contains(run(words("plan")).output, "quick calibration"));

  const std::string kept = read_text_file(file());
  const ProgramRun again = run(quick);
  EXPECT_EQ(again.exit_code, 0) << again.error;
  EXPECT_TRUE(contains(again.output, "A full calibration of ")) << again.output;
  EXPECT_TRUE(contains(again.output, "fit and plan use it: nothing is measured. --quick --replace"))
      << again.output;
  EXPECT_EQ(read_text_file(file()), kept);
  EXPECT_EQ(run({"calibrate", "--quick", "--replace", "--max_seconds", "600"}).exit_code, 0);
  EXPECT_NE(read_text_file(file()), kept);
}

TEST_F(CliCalibrate, TheProcessThatIsPlannedIsTheSame) {
  const int64_t before = json_of("plan")["process_peak_bytes"].get<int64_t>();
  ASSERT_EQ(run({"calibrate", "--quick", "--max_seconds", "600"}).exit_code, 0);
  if (measures_memory()) {
    EXPECT_NEAR(static_cast<double>(json_of("plan")["process_peak_bytes"].get<int64_t>()),
                static_cast<double>(before), 1 << 20);
  }
}

}  // namespace
}  // namespace shoehorn
