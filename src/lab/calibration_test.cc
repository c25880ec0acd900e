#include "lab/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "analysis/step_time.h"
#include "arguments/step_settings.h"
#include "exec/backends.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "lab/calibration_file.h"
#include "model/task.h"
#include "models/bert.h"

namespace shoehorn {
namespace {

using nlohmann::json;

const std::shared_ptr<const Backend>& backend() {
  static const std::shared_ptr<const Backend> made = make_backend();
  return made;
}

const OpCosts& quick_costs() {
  static const OpCosts costs = calibrate({.is_quick = true, .most_seconds = 1e6}, backend());
  return costs;
}

TEST(CalibrationTest, TimesTheKindsOfAStep) {
  std::set<std::string> ops;
  for (const OpSample& sample : quick_costs().samples()) {
    EXPECT_GT(sample.seconds, 0) << sample.work.kind;
    ops.insert(sample.work.op);
  }
  for (const char* op : {"matmul", "attention", "attention_grad", "adamw", "embedding"})
    EXPECT_TRUE(ops.contains(op)) << op;
}

TEST(CalibrationTest, AStepOfWhatWasTimedIsKnown) {
  BertConfig config;
  config.vocab_size = 4096;
  config.hidden_size = 256;
  config.num_hidden_layers = 3;  // one was timed
  config.num_attention_heads = 4;
  config.intermediate_size = 1024;
  const BertForSequenceClassification model(config);
  SessionOptions options;
  options.step = step_options_of(resolved(TrainingArguments{}));
  options.train = {.tokens = 256, .sequences = 4, .longest_sequence = 64};
  options.backend = backend();
  const Session session(model, std::move(options));
  const StepTime time = calibrated_step_time(session, quick_costs());
  EXPECT_LT(time.unmeasured_share,
            0.01);  // how far its time is known is the machine's: on a busy one, hardly
  EXPECT_GT(time.seconds, 0);
  EXPECT_GT(time.error, 0);
}

TEST(CalibrationTest, EveryStepIsValid) {
  const std::vector<CalibrationStep> steps = calibration_steps(false);
  std::set<std::string> names;
  for (const CalibrationStep& step : steps) {
    EXPECT_NO_THROW(validate(resolved(step.arguments))) << step.name;
    names.insert(step.name);
  }
  EXPECT_EQ(names.size(), steps.size());
}

// Behind the attention of an encoder's last layer only one token of a text is computed.
TEST(CalibrationTest, TimesTheFeedForwardOfAllTokens) {
  const auto is_feed_forward = [](const OpSample& sample) {
    std::vector<double> sizes = sample.work.sizes;
    std::ranges::sort(sizes);
    return sample.work.op == "matmul" &&
           std::ranges::search(sizes, std::vector<double>{8, 9, 11}).size() == 3;
  };
  EXPECT_GE(std::ranges::count_if(quick_costs().samples(), is_feed_forward), 4)
      << "of 2 x 128 tokens, 512 and 2,048 wide: forward, both gradients of inputs and weights";
}

// Its clock would else have the error of its estimate.
TEST(CalibrationTest, TimesTheAnchorToo) {
  for (const bool is_quick : {false, true})
    EXPECT_EQ(calibration_steps(is_quick).at(0).name, "encoder 512, 2 x 128");
  std::vector<OpSample> without;
  for (const OpSample& sample : quick_costs().samples()) {
    const bool is_of_anchor =
        std::ranges::find(sample.work.sizes, 9.0) != sample.work.sizes.end();  // 2^9 wide
    if (!is_of_anchor) without.push_back(sample);
  }
  ASSERT_LT(without.size(), quick_costs().samples().size());
  OpCosts others(quick_costs().limits(), std::move(without));
  others.set_clock(quick_costs().clock());
  EXPECT_LT(anchored_clock(quick_costs(), backend()).error, anchored_clock(others, backend()).error);
}

TEST(CalibrationTest, TheAnchorTellsAFasterMachine) {
  std::vector<OpSample> slow(quick_costs().samples().begin(), quick_costs().samples().end());
  for (OpSample& sample : slow) sample.seconds *= 100;
  const MachineClock now = anchored_clock(OpCosts(quick_costs().limits(), std::move(slow)), backend());
  EXPECT_LT(now.products, 0.2);
  EXPECT_LT(now.memory, 0.2);
  EXPECT_GT(now.error, 0);
}

TEST(CalibrationTest, AClockThatDiffersByLittleIsTheUsualOne) {
  OpCosts costs(quick_costs().limits(), {quick_costs().samples().begin(), quick_costs().samples().end()});
  costs.set_clock({.products = 50, .memory = 70, .spread = 100});
  const MachineClock kept = anchored_clock(costs, backend());
  EXPECT_EQ(kept.products, 50);
  EXPECT_EQ(kept.memory, 70);
  costs.set_clock({.products = 50, .memory = 70, .spread = 0.01});
  const MachineClock now = anchored_clock(costs, backend());
  EXPECT_LT(now.products, 10);
  EXPECT_LT(now.memory, 14);
  EXPECT_EQ(now.spread, 0.01);
}

TEST(CalibrationTest, TheUsualClockIsOfMeanTimes) {
  const MachineClock clock = usual_clock({{.timed = {{2, 3}, {2.4, 3}}, .least = {2, 3}},
                                          {.timed = {{1, 0}, {1, 0}}, .least = {1, 0}},
                                          {.timed = {{5, 30}, {5, 10}}, .least = {5, 10}}});
  EXPECT_NEAR(clock.products, (1 + 1.2 + 1 + 1 + 1 + 1) / 6, 1e-12);
  EXPECT_NEAR(clock.memory, (1 + 1 + 1 + 1 + 3 + 1) / 6.0, 1e-12);
  EXPECT_NEAR(clock.spread, 1.4826 * std::log(5.4 / 5) / std::sqrt(2), 1e-12)
      << "the one that was disturbed does not move it";
  EXPECT_EQ(usual_clock({}).products, 1);
}

// Half as long again the second time: that was not the machine alone.
TEST(CalibrationTest, ADisturbedCalibrationTellsNoUsualClock) {
  const MachineClock clock = usual_clock(
      {{.timed = {{2, 3}, {3, 4.5}}, .least = {2, 3}}, {.timed = {{1, 0}, {1.5, 0}}, .least = {1, 0}}});
  EXPECT_EQ(clock.products, 1);
  EXPECT_EQ(clock.memory, 1);
  EXPECT_EQ(clock.spread, 0) << "what a small step differs by counts from the least difference on";
  EXPECT_NEAR(clock.error, 1.4826 * std::log(1.5) / std::sqrt(2), 1e-12);
}

TEST(CalibrationTest, OfThreeTimesTheOneThatTookTheMostDoesNotCount) {
  const std::vector<StepSums> twice = {{2, 3}, {2.2, 3}};
  const std::vector<StepSums> disturbed_between = {{2, 3}, {4, 6}, {2.2, 3}};
  const auto clock_of = [](const std::vector<StepSums>& timed, const std::vector<StepSums>& small) {
    return usual_clock({{.timed = timed, .least = {2, 3}}, {.timed = small, .least = {1, 1}}});
  };
  // The smaller step was quick when the other one was disturbed.
  const MachineClock clock = clock_of(disturbed_between, {{1.1, 1.1}, {1, 1}, {1.2, 1.2}});
  const MachineClock quiet = clock_of(twice, {{1.1, 1.1}, {1.2, 1.2}});
  EXPECT_GT(quiet.products, 1);
  EXPECT_EQ(clock.products, quiet.products);
  EXPECT_EQ(clock.memory, quiet.memory);
  EXPECT_EQ(clock.spread, quiet.spread);
  // Time was over before the smaller one came again: no third time to choose from.
  EXPECT_EQ(clock_of(disturbed_between, {{1.1, 1.1}, {1, 1}}).spread,
            clock_of({{2, 3}, {4, 6}}, {{1.1, 1.1}, {1, 1}}).spread);
}

TEST(CalibrationTest, OfManyTimesAQuarterDoesNotCount) {
  // The machine is a tenth slower half of the time, and something else runs beside two of eight times.
  const MachineClock clock =
      usual_clock({{.timed = {{10, 0}, {20, 0}, {11, 0}, {10, 0}, {11, 0}, {30, 0}, {10, 0}, {11, 0}},
                    .least = {10, 0}}});
  EXPECT_NEAR(clock.products, 1.05, 1e-12);
  EXPECT_EQ(clock.memory, 1);
  // Of 15 pairs 9 differ.
  EXPECT_NEAR(clock.spread, 1.4826 * std::log(1.1) / std::sqrt(2), 1e-12);
}

class CalibrationFileTest : public testing::Test {
 protected:
  CalibrationFileTest() { save_calibration(path(), fingerprint_, quick_costs(), false); }
  std::filesystem::path path() const { return directory_.path() / "deep" / "calibration.json"; }

  TestDirectory directory_;
  json fingerprint_ = calibration_fingerprint(backend()->machine(), "abc");
};

TEST_F(CalibrationFileTest, ComesBack) {
  OpCosts costs(quick_costs().limits(), {quick_costs().samples().begin(), quick_costs().samples().end()});
  costs.set_clock({.products = 1.25, .memory = 1.5, .spread = 0.1, .error = 0.2});
  save_calibration(path(), fingerprint_, costs, false);
  const LoadedCalibration loaded = load_calibration(path(), fingerprint_);
  ASSERT_TRUE(loaded.costs) << loaded.notice;
  EXPECT_EQ(loaded.notice, "");
  const OpWork& work = costs.samples()[0].work;
  EXPECT_EQ(loaded.costs->estimate(work).seconds, costs.estimate(work).seconds);
  EXPECT_EQ(loaded.costs->clock().products, 1.25);
  EXPECT_EQ(loaded.costs->clock().memory, 1.5);
  EXPECT_EQ(loaded.costs->clock().spread, 0.1);
  EXPECT_EQ(loaded.costs->clock().error, 0.2);
}

TEST_F(CalibrationFileTest, AQuickOneSaysSo) {
  save_calibration(path(), fingerprint_, quick_costs(), true);
  const LoadedCalibration loaded = load_calibration(path(), fingerprint_);
  EXPECT_TRUE(loaded.costs && loaded.is_quick);
  EXPECT_NE(loaded.notice.find("Times are by a quick calibration"), std::string::npos);
}

TEST_F(CalibrationFileTest, OfAnotherProgramIsNotUsedAndSaysSo) {
  json other = fingerprint_;
  other["commit"] = "def";
  const LoadedCalibration loaded = load_calibration(path(), other);
  EXPECT_FALSE(loaded.costs);
  EXPECT_NE(loaded.notice.find("commit \"abc\", here \"def\""), std::string::npos) << loaded.notice;
  EXPECT_NE(loaded.notice.find("shoehorn calibrate"), std::string::npos);
  EXPECT_EQ(calibration_path(other), calibration_path(fingerprint_)) << "so that it is found";
  other["threads"] = 77;
  EXPECT_NE(calibration_path(other), calibration_path(fingerprint_));
}

TEST_F(CalibrationFileTest, DamagedOrAbsentIsNotUsedAndSaysSo) {
  json file = read_json(path());
  file["content"]["operations"][0]["seconds"] = 1e-3;
  write_json_atomic(path(), file);
  EXPECT_NE(load_calibration(path(), fingerprint_).notice.find("is damaged"), std::string::npos);
  for (const char* text : {"{", "[]", "{\"content\": 1, \"hash\": \"\"}"}) {
    write_text_atomic(path(), text);
    const LoadedCalibration loaded = load_calibration(path(), fingerprint_);
    EXPECT_FALSE(loaded.costs);
    EXPECT_NE(loaded.notice.find("calibration.json"), std::string::npos) << loaded.notice;
  }
  std::filesystem::remove(path());
  EXPECT_NE(load_calibration(path(), fingerprint_).notice.find("not calibrated for this machine"),
            std::string::npos);
}

}  // namespace
}  // namespace shoehorn
