#include "train/results.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

const std::string kGolden = SHOEHORN_SOURCE_DIR "/tests/golden/trainer_state/";

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Metrics metrics_of(const nlohmann::json& object) {
  Metrics metrics;
  for (const auto& [key, value] : object.items()) metrics[key] = value.get<double>();
  return metrics;
}

class RunReport : public testing::Test {
 protected:
  RunReport() { std::filesystem::create_directories(directory_); }
  ~RunReport() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path directory_ = std::filesystem::path(testing::TempDir()) / "run_report_test";
};

TEST(RunReportText, TableEqualsTransformers) {
  const Metrics metrics = {{"train_loss", 0.69314718},
                           {"train_runtime", 3725.256},
                           {"eval_runtime", 90061.5},
                           {"total_flos", 3.5e12},
                           {"train_samples", int64_t{12}},
                           {"train_mem_cpu_alloc_delta", int64_t{1363148800}},
                           {"epoch", 2.0},
                           {"tiny", 0.00001},
                           {"large", 123456789.123456}};
  EXPECT_EQ(format_metrics("train", metrics), read_text(kGolden + "metrics.txt"));
  EXPECT_EQ(format_metrics("eval", {}), "***** eval metrics *****\n");
  EXPECT_NE(format_metrics("eval", {{"eval_loss", std::numeric_limits<double>::quiet_NaN()}}).find("NaN"),
            std::string::npos);
}

TEST(RunReportText, SpeedIsRoundedAsTransformersDoes) {
  const Metrics metrics = speed_metrics("train", 3.00006, 24, 12);
  EXPECT_EQ(metrics.at("train_runtime"), MetricValue(3.0001));
  EXPECT_EQ(metrics.at("train_samples_per_second"), MetricValue(8.0));
  EXPECT_EQ(metrics.at("train_steps_per_second"), MetricValue(4.0));
  EXPECT_EQ(speed_metrics("eval", 0.0, 24, 12).size(), 1U);
}

TEST(RunReportText, RoundingIsPythons) {
  EXPECT_EQ(round_to(2.675, 2), 2.67);
  EXPECT_EQ(round_to(0.5, 0), 0.0);
  EXPECT_EQ(round_to(1.5, 0), 2.0);
  EXPECT_EQ(round_to(-1.00005, 4), -1.0001);
  EXPECT_TRUE(std::isnan(round_to(std::numeric_limits<double>::quiet_NaN(), 4)));
  EXPECT_EQ(round_to(1e300, 3), 1e300);
}

TEST(RunReportText, SummaryOfTheGuides) {
  const Metrics metrics = {{"train_runtime", 57.8196}, {"train_samples_per_second", 8.855}};
  EXPECT_EQ(format_summary(metrics, (int64_t{14949} << 20) + 5, "GPU memory"),
            "Time: 57.82\nSamples/second: 8.86\nGPU memory occupied: 14949 MB.\n");
  EXPECT_THROW(format_summary({}, 0), UserError);
}

// A program's line of the guides shows something: it goes to std::cout unless told otherwise.
TEST(RunReportText, GpuUtilizationIsPrinted) {
  std::ostringstream named;
  print_gpu_utilization(named);
  std::ostringstream standard;
  std::streambuf* const before = std::cout.rdbuf(standard.rdbuf());
  print_gpu_utilization();
  std::cout.rdbuf(before);
  for (const std::string& line : {named.str(), standard.str()}) {
    EXPECT_EQ(line.rfind("Memory occupied: ", 0), 0U) << line;
    EXPECT_TRUE(line.ends_with(" MB.\n")) << line;
  }
}

TEST_F(RunReport, WritesWhatTransformersWritesAndMerges) {
  const nlohmann::json train = read_json(kGolden + "train_results.json");
  const nlohmann::json all = read_json(kGolden + "all_results.json");
  nlohmann::json eval = nlohmann::json::object();
  for (const auto& [key, value] : all.items()) {
    if (key == "epoch" || key.starts_with("eval_")) eval[key] = value;
  }
  save_metrics(directory_, "train", metrics_of(train));
  EXPECT_EQ(read_text(directory_ / "train_results.json"), read_text(kGolden + "train_results.json"));
  EXPECT_EQ(read_text(directory_ / "all_results.json"), read_text(kGolden + "train_results.json"));
  save_metrics(directory_, "eval", metrics_of(eval));
  EXPECT_EQ(read_text(directory_ / "all_results.json"), read_text(kGolden + "all_results.json"));
  save_metrics(directory_, "test", {{"test_loss", 1.0}}, false);
  EXPECT_EQ(read_text(directory_ / "all_results.json"), read_text(kGolden + "all_results.json"));
  EXPECT_EQ(read_json(directory_ / "test_results.json"), (nlohmann::json{{"test_loss", 1.0}}));
}

TEST_F(RunReport, MalformedResultsAreNotOverwritten) {
  std::ofstream(directory_ / "all_results.json") << "[1]";
  EXPECT_THROW(save_metrics(directory_, "train", {{"train_loss", 1.0}}), UserError);
  EXPECT_EQ(read_text(directory_ / "all_results.json"), "[1]");
  EXPECT_THROW(save_metrics(directory_ / "all_results.json/below", "train", {{"train_loss", 1.0}}),
               std::runtime_error);
}

}  // namespace
}  // namespace shoehorn
