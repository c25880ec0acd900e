#include "state/trainer_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "arguments/argument_table.h"
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

std::filesystem::path temporary_file(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / name;
}

TEST(TrainerState, LoadsAndSavesWhatTransformersWroteByteForByte) {
  const TrainerState state = load_trainer_state(kGolden + "trainer_state.json");
  EXPECT_EQ(state.global_step, 12);
  EXPECT_EQ(state.max_steps, 12);
  EXPECT_EQ(state.epoch, 2.0);
  EXPECT_EQ(state.train_batch_size, 2);
  EXPECT_EQ(state.best_model_checkpoint, "output/checkpoint-12");
  EXPECT_EQ(state.best_global_step, 12);
  ASSERT_EQ(state.log_history.size(), 10U);
  EXPECT_EQ(state.log_history[0].at("step"), MetricValue(int64_t{2}));
  EXPECT_EQ(state.log_history[0].at("learning_rate"), MetricValue(4.5833333333333334e-05));
  EXPECT_TRUE(state.control.should_save);
  EXPECT_TRUE(state.other_callbacks.contains("EarlyStoppingCallback"));
  const std::filesystem::path path = temporary_file("trainer_state_copy.json");
  save_trainer_state(state, path);
  EXPECT_EQ(read_text(path), read_text(kGolden + "trainer_state.json"));
  EXPECT_EQ(load_trainer_state(path), state);
  std::filesystem::remove(path);
}

TEST(TrainerState, ANewStateHasTransformersFieldsAndTypes) {
  const nlohmann::json golden = read_json(kGolden + "trainer_state.json");
  TrainerState state;
  state.best_metric = 0.5;
  state.best_global_step = 3;
  state.best_model_checkpoint = "a/checkpoint-3";
  state.train_batch_size = 8;
  state.global_step = 3;
  state.epoch = 1.5;
  state.log({{"loss", 0.25}, {"grad_norm", 1.5}, {"learning_rate", 5e-5}});
  const nlohmann::json json = to_json(state);
  for (const auto& [key, value] : golden.items()) {
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_STREQ(json[key].type_name(), value.type_name()) << key;
    EXPECT_EQ(json[key].is_number_float(), value.is_number_float()) << key;
  }
  EXPECT_EQ(json.size(), golden.size());
  const nlohmann::json& entry = golden["log_history"][0];
  for (const auto& [key, value] : entry.items()) {
    EXPECT_EQ(json["log_history"][0][key].is_number_float(), value.is_number_float()) << key;
  }
  EXPECT_EQ(json["log_history"][0].size(), entry.size());
  EXPECT_EQ(trainer_state_from_json(json, "state"), state);
}

TEST(TrainerState, NoNanIsHidden) {
  TrainerState state;
  state.log({{"loss", std::nan("")}, {"grad_norm", INFINITY}});
  const std::filesystem::path path = temporary_file("trainer_state_nan.json");
  save_trainer_state(state, path);
  EXPECT_NE(read_text(path).find("\"loss\": NaN"), std::string::npos);
  EXPECT_NE(read_text(path).find("\"grad_norm\": Infinity"), std::string::npos);
  const TrainerState loaded = load_trainer_state(path);
  EXPECT_TRUE(std::isnan(metric_number(loaded.log_history[0].at("loss"))));
  EXPECT_TRUE(std::isinf(metric_number(loaded.log_history[0].at("grad_norm"))));
  std::filesystem::remove(path);
}

TEST(TrainerState, MalformedFieldsAreNamed) {
  const nlohmann::json good = to_json(TrainerState());
  const auto error_of = [](const nlohmann::json& json) {
    try {
      trainer_state_from_json(json, "state.json");
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of(good), "");
  for (const auto& [key, value] : good.items()) {
    nlohmann::json lacking = good;
    lacking.erase(key);
    EXPECT_NE(error_of(lacking).find("[state.json: " + key + "] expected a value"), std::string::npos) << key;
    if (key == "trial_params") continue;
    nlohmann::json wrong = good;
    wrong[key] = nlohmann::json::array({nlohmann::json::array()});
    EXPECT_NE(error_of(wrong).find("[state.json: " + key), std::string::npos) << key;
  }
  nlohmann::json unknown = good;
  unknown["global_stepp"] = 1;
  EXPECT_NE(error_of(unknown).find("did you mean global_step?"), std::string::npos);
  nlohmann::json fraction = good;
  fraction["global_step"] = 1.5;
  EXPECT_NE(error_of(fraction).find("expected an integer of 0 or more, got 1.5"), std::string::npos);
  fraction["global_step"] = 2.0;
  EXPECT_EQ(error_of(fraction), "");
  for (const nlohmann::json& count : std::vector<nlohmann::json>{-1, -1.0, 1e300, UINT64_MAX}) {
    nlohmann::json wrong = good;
    wrong["global_step"] = count;
    EXPECT_NE(error_of(wrong).find("[state.json: global_step] expected an integer of 0 or more"),
              std::string::npos)
        << count;
  }
  nlohmann::json history = good;
  history["log_history"] = {{{"loss", "low"}}};
  EXPECT_NE(error_of(history).find("[state.json: log_history[0]: loss] expected a number"),
            std::string::npos);
  EXPECT_NE(error_of(nlohmann::json::array()).find("expected a JSON object"), std::string::npos);
}

TEST(TrainerState, AMetricTooLargeForAnIntegerIsAFloat) {
  nlohmann::json state = to_json(TrainerState());
  state["log_history"] = {{{"tokens", UINT64_MAX}, {"step", INT64_MAX}}};
  const Metrics entry = trainer_state_from_json(state, "state.json").log_history[0];
  EXPECT_EQ(entry.at("tokens"), MetricValue(0x1p64));
  EXPECT_EQ(entry.at("step"), MetricValue(INT64_MAX));
}

TEST(TrainerState, FlowEqualsTransformersGoldens) {
  const nlohmann::json cases = read_json(kGolden + "flow.json");
  ASSERT_GE(cases.size(), 6U);
  for (const nlohmann::json& item : cases) {
    const TrainingArguments args = resolved(training_arguments_from_json(item["arguments"], "golden"));
    validate(args);
    TrainerState state;
    state.max_steps = 7;
    state.compute_steps(args, 7);
    for (const nlohmann::json& event : item["events"]) {
      state.global_step = event[1];
      state.epoch = static_cast<double>(state.global_step) / 4;
      if (event[0] == "step") {
        decide_after_step(args, state);
      } else {
        decide_after_epoch(args, state);
      }
      const TrainerControl& control = state.control;
      const nlohmann::json decided = {event[0],
                                      event[1],
                                      control.should_log,
                                      control.should_evaluate,
                                      control.should_save,
                                      control.should_training_stop};
      EXPECT_EQ(decided, event) << item["arguments"];
    }
  }
}

// Numbers of strategies that are not "steps" are not checked.
TEST(TrainerState, StepsThatNoIntegerHolds) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  TrainingArguments args;
  TrainerState state;
  for (const double steps : {1e30, kInfinite}) {
    args.save_steps = args.logging_steps = steps;
    args.eval_steps = -steps;
    state.compute_steps(args, 7);
    EXPECT_EQ(state.save_steps, 1'000'000'000'000'000);
    EXPECT_EQ(state.logging_steps, state.save_steps);
    EXPECT_EQ(state.eval_steps, 0);
  }
  args.save_steps = std::nan("");
  state.compute_steps(args, 7);
  EXPECT_EQ(state.save_steps, 0);
}

TEST(TrainerState, BestMetric) {
  TrainingArguments args;
  TrainerState state;
  EXPECT_FALSE(update_best_metric(args, {{"eval_loss", 1.0}}, state));
  args.metric_for_best_model = "loss";
  args = resolved(args);
  state.global_step = 5;
  EXPECT_FALSE(update_best_metric(args, {{"eval_loss", std::nan("")}}, state));
  EXPECT_FALSE(state.best_metric.has_value());
  EXPECT_TRUE(update_best_metric(args, {{"eval_loss", 1.0}}, state));
  state.global_step = 10;
  EXPECT_FALSE(update_best_metric(args, {{"eval_loss", 1.0}}, state));
  EXPECT_FALSE(update_best_metric(args, {{"eval_loss", 2.0}}, state));
  EXPECT_TRUE(update_best_metric(args, {{"eval_loss", 0.5}}, state));
  EXPECT_EQ(state.best_metric, 0.5);
  EXPECT_EQ(state.best_global_step, 10);
  TrainingArguments accuracy;
  accuracy.metric_for_best_model = "eval_accuracy";
  accuracy = resolved(accuracy);
  TrainerState other;
  EXPECT_TRUE(update_best_metric(accuracy, {{"eval_accuracy", 0.5}}, other));
  EXPECT_TRUE(update_best_metric(accuracy, {{"eval_accuracy", 0.6}}, other));
  EXPECT_FALSE(update_best_metric(accuracy, {{"eval_accuracy", 0.1}}, other));
  try {
    update_best_metric(accuracy, {{"eval_loss", 0.5}}, other);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "[metric_for_best_model] expected one of eval_loss, got 'eval_accuracy'");
  }
}

}  // namespace
}  // namespace shoehorn
