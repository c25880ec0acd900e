#include "lab/batch_sizes.h"
#include "models/registry.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lab/batch_sizes_page.h"
#include "lab/batch_sizes_text.h"

namespace shoehorn {
namespace {

constexpr int64_t kMiB = 1 << 20;

BatchSizesResult some_result() {
  BatchSizesResult result;
  result.options = {.model = "bert-base",
                    .flags = {"--bf16"},
                    .sequence_length = 128,
                    .preferred_token_multiple = 512,
                    .preferred_why = "whole panels"};
  result.options.machine.isa = "AVX2";
  result.options.machine.threads = 6;
  result.options.multiples = hardware_multiples(DType::kBF16, result.options.machine);
  result.options.model_sizes = model_of_shape("bert-base")->product_sizes();
  for (const double rate : {5.0, 9.0, 8.0}) {
    BatchSizeResult size;
    size.batch_size = int64_t{2} << result.sizes.size();
    size.tokens = 128 * size.batch_size;
    size.is_preferred = size.tokens % 512 == 0;
    size.run.outcome = RunOutcome::kMeasured;
    size.run.samples_per_second = rate;
    size.run.step_seconds = static_cast<double>(size.batch_size) / rate;
    for (const double share : {0.98, 1.0, 1.02})
      size.run.step_samples.push_back(share * size.run.step_seconds);
    size.run.memory.training_bytes = 100 * size.batch_size * kMiB;
    size.run.predicted_bytes = 101 * size.batch_size * kMiB;
    result.sizes.push_back(size);
  }
  BatchSizeResult last;
  last.batch_size = 16;
  last.tokens = 2048;
  last.is_preferred = true;
  last.plan.outcome = RunOutcome::kDoesNotFit;
  last.plan.peak_bytes = 1700 * kMiB;
  last.run.outcome = RunOutcome::kDoesNotFit;
  last.run.reason = "planned 1700 MiB, available 1000 MiB";
  result.sizes.push_back(last);
  return result;
}

TEST(BatchSizes, Text) {
  const std::string text = format_batch_sizes(some_result());
  EXPECT_NE(text.find("      2     256      5.000   0.400      0.392–0.408         200        202"),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find(
          "      4     512      9.000   0.444      0.436–0.453         400        404  yes        best\n"),
      std::string::npos)
      << text;
  EXPECT_NE(
      text.find(
          "     16    2048          -       -                -           -       1700             does not fit\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("best: --per_device_train_batch_size 4, 9.000 samples/s"), std::string::npos);
  EXPECT_NE(text.find("batch 16: planned 1700 MiB, available 1000 MiB"), std::string::npos);
  EXPECT_NE(text.find("multiples of 512; whole panels"), std::string::npos);
  EXPECT_NE(text.find("tile quantisation"), std::string::npos);
  EXPECT_NE(text.find("wave quantisation"), std::string::npos);
  EXPECT_NE(text.find("  fp16   Tensor Cores of an A100 "), std::string::npos) << text;
  EXPECT_NE(text.find("no; 30528 is the next"), std::string::npos) << text;
}

// What bench batch found on a machine that others used too: the best of three figures was noise.
TEST(BatchSizes, BestIsWithheldInsideTheNoise) {
  BatchSizesResult result = some_result();
  result.sizes[2].run.step_samples = {0.6, 1.0, 8.0};  // the median is the one of before
  ASSERT_NE(result.fastest(), nullptr);
  EXPECT_EQ(result.fastest()->batch_size, 4);
  EXPECT_EQ(result.best(), nullptr);
  const std::string text = format_batch_sizes(result);
  EXPECT_NE(text.find("best: not known. The batches 4, 8 cannot be told apart by these steps"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("  best\n"), std::string::npos) << text;
  EXPECT_TRUE(to_json(result)["best_batch_size"].is_null());
  EXPECT_EQ(to_json(result)["not_told_apart"], nlohmann::ordered_json({8}));
  EXPECT_EQ(to_json(result)["sizes"][2]["step_samples"].size(), 3U);
  EXPECT_EQ(exit_code_of(result), 0);
  EXPECT_EQ(batch_sizes_page(result).find("best batch"), std::string::npos);
}

// Of a measurement that was stopped: what comes might be faster.
TEST(BatchSizes, BestIsWithheldUntilAllAreMeasured) {
  BatchSizesResult result = some_result();
  ASSERT_NE(result.best(), nullptr);
  result.is_complete = false;
  EXPECT_EQ(result.best(), nullptr);
  EXPECT_NE(format_batch_sizes(result).find("best: not known. Not all sizes are measured\n"),
            std::string::npos);
  EXPECT_TRUE(to_json(result)["best_batch_size"].is_null());
}

TEST(BatchSizes, OneStepEachSaysNothing) {
  BatchSizesResult result = some_result();
  for (BatchSizeResult& size : result.sizes) size.run.step_samples.resize(1);
  EXPECT_EQ(result.best(), nullptr);
}

TEST(BatchSizes, Page) {
  const std::string page = batch_sizes_page(some_result());
  for (const char* part : {"samples a second", "peak of the whole process", "best batch", "9.000 samples/s",
                           "does not fit", "Tensor Cores of an A100", "4 x 128 tokens", "wave quantisation"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  BatchSizesResult none = some_result();
  none.sizes.erase(none.sizes.begin(), none.sizes.end() - 1);
  EXPECT_EQ(batch_sizes_page(none).find("best batch"), std::string::npos);
}

TEST(BatchSizes, Json) {
  const nlohmann::ordered_json json = to_json(some_result());
  EXPECT_EQ(json["best_batch_size"], 4);
  EXPECT_EQ(json["preferred"]["tokens_multiple"], 512);
  EXPECT_EQ(json["hardware_multiples"].size(), 8U);
  EXPECT_EQ(json["hardware_multiples"][6]["is_this_run"], true);
  ASSERT_EQ(json["checked_sizes"].size(), 8U) << "four of the model, four batches";
  EXPECT_EQ(json["checked_sizes"][7]["name"], "16 x 128 tokens");
  EXPECT_EQ(json["checked_sizes"][7]["is_multiple"], true);
  ASSERT_EQ(json["sizes"].size(), 4U);
  EXPECT_EQ(json["sizes"][1]["is_preferred"], true);
  EXPECT_EQ(json["sizes"][1]["samples_per_second"], 9.0);
  EXPECT_EQ(json["sizes"][3]["outcome"], "does not fit");
  EXPECT_EQ(json["sizes"][3]["planned_bytes"], 1700 * kMiB);
}

TEST(BatchSizes, ExitCode) {
  BatchSizesResult result = some_result();
  EXPECT_EQ(exit_code_of(result), 0);
  result.sizes[1].run.outcome = RunOutcome::kFailed;
  EXPECT_EQ(exit_code_of(result), 1);
  result.sizes.erase(result.sizes.begin(), result.sizes.end() - 1);
  EXPECT_EQ(exit_code_of(result), 2);
  EXPECT_TRUE(to_json(result)["best_batch_size"].is_null());
}

}  // namespace
}  // namespace shoehorn
