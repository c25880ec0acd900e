// The Trainer against Transformers' Trainer on a small BERT (tests/golden/bert_make.py), also with PEFT's
// adapters (lora_make.py): loss, gradient norm
// and learning rate of every step, and the weights they lead to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "bert_goldens.h"
#include "curves.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "io/test_directory.h"
#include "models/registry.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
using nlohmann::json;

const std::vector<int64_t> kMainRows = {0, 1, 2, 3, 4, 5, 6, 7};  // of the golden's batch `main`

std::vector<int32_t> read_integers(const SafetensorsFile& file, const std::string& name) {
  std::vector<int32_t> values(static_cast<size_t>(file.tensor(name).bytes / 4));
  file.read_into(name, std::as_writable_bytes(std::span(values)));
  return values;
}

// The samples of these rows of a directory's golden, in this order.
Dataset golden_samples(const std::vector<int64_t>& rows, const std::vector<size_t>& ignored = {},
                       const std::filesystem::path& directory = kBertGolden) {
  const SafetensorsFile file = SafetensorsFile::open(directory / "golden.safetensors");
  const auto width = static_cast<size_t>(file.tensor("input_ids").shape[1]);
  const std::vector<int32_t> ids = read_integers(file, "input_ids");
  const std::vector<int32_t> types = read_integers(file, "token_type_ids");
  const std::vector<int32_t> lengths = read_integers(file, "lengths");
  const std::vector<int32_t> labels = read_integers(file, "labels");
  Dataset::Rows id_rows;
  Dataset::Rows type_rows;
  std::vector<int64_t> row_labels;
  for (const int64_t row : rows) {
    const auto begin = static_cast<int64_t>(width) * row;
    const int64_t end = begin + lengths[static_cast<size_t>(row)];
    id_rows.emplace_back(ids.begin() + begin, ids.begin() + end);
    type_rows.emplace_back(types.begin() + begin, types.begin() + end);
    row_labels.push_back(labels[static_cast<size_t>(row)]);
  }
  for (const size_t i : ignored) row_labels[i] = kIgnoredLabel;
  return Dataset::from_columns(
      {{"input_ids", id_rows}, {"token_type_ids", type_rows}, {"labels", row_labels}});
}

BertForSequenceClassification golden_model() {
  const json config = read_json(kBertGolden / "config.json");
  return BertForSequenceClassification(BertConfig::from_json(config, "config.json"), config.dump());
}

TrainingArguments golden_arguments(const json& golden) {
  TrainingArguments args = training_arguments_from_json(golden["arguments"], "golden.json");
  args.train_sampling_strategy = "sequential";
  args.logging_steps = 1;
  args.save_strategy = "no";
  return args;
}

std::vector<int64_t> flattened(const json& rows) {
  std::vector<int64_t> all;
  for (const json& step : rows) all.insert(all.end(), step.begin(), step.end());
  return all;
}

// The roundings of fp32 behind a loss of the golden's model: the lengths of the sums that follow on each other. A
// layer has those of values (40), scores (10), attention (64 tokens), its output (40), two norms (40 each) and
// the feed forward (40 and 72); the embeddings have a norm, pooler and classifier a sum of 40 each, and the loss a
// mean over 8 samples. A gradient has as many again, and a sum over up to 240 tokens.
constexpr double kLossRoundings = 40 + 2 * (40 + 10 + 64 + 40 + 2 * 40 + 40 + 72) + 2 * 40 + 8;
constexpr double kGradientRoundings = 2 * kLossRoundings + 240;

// How far a curve of the golden may be from its float64: a step's own roundings, and as the weights that it starts
// from have those of earlier steps, which grow, twice what the golden's float32 was found to be off.
double curve_tolerance(const json& golden, const char* name, double roundings) {
  return rounding_error(roundings, 1) +
         2 * largest_relative_difference(golden["float32"][name], golden["float64"][name]);
}

void expect_curve(const TrainerState& state, const json& golden, const char* name, double roundings) {
  const double difference = largest_relative_difference(logged(state, name), golden["float64"][name]);
  EXPECT_LE(difference, curve_tolerance(golden, name, roundings)) << name;
  testing::Test::RecordProperty(std::string(name) + "_largest_relative_difference",
                                fmt::format("{:.3g}", difference));
}

// Key biases have no gradient but rounding noise, which AdamW scales up to whole steps: they agree with no
// other program's.
bool is_key_bias(const std::string& name) {
  return name.ends_with("attention.self.key.bias");
}

// How far a trained weight may be from the golden's float64: half a step of fp32 an update, and twice what the
// golden's float32 was found to be off.
double weight_tolerance(const json& golden, const std::string& name, const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  return static_cast<double>(golden["rows"].size()) * 0x1p-24 * largest +
         2 * golden["final_weights_float32_to_float64"][name].get<double>();
}

class TrainGolden : public testing::TestWithParam<std::string> {};

TEST_P(TrainGolden, EveryStepAndTheFinalWeights) {
  const bool adapts = GetParam() == "lora";
  const json golden = read_json((adapts ? kLoraGolden : kBertGolden) / "golden.json")[GetParam()];
  const BertForSequenceClassification model = golden_model();
  TrainerOptions options;
  options.weights = kBertGolden;
  if (adapts) options.adapter = kLoraGolden;
  const TrainingArguments args = golden_arguments(golden);
  const bool evaluates = args.eval_strategy != "no";
  Trainer trainer(model, args, golden_samples(flattened(golden["rows"])),
                  evaluates ? golden_samples(kMainRows) : Dataset(), std::move(options));
  const TrainOutput output = trainer.train();
  EXPECT_EQ(output.global_step, static_cast<int64_t>(golden["rows"].size()));
  expect_curve(trainer.state(), golden, "loss", kLossRoundings);
  if (args.max_grad_norm > 0) expect_curve(trainer.state(), golden, "grad_norm", kGradientRoundings);
  if (evaluates) expect_curve(trainer.state(), golden, "eval_loss", kLossRoundings);
  // A schedule is a handful of operations in float64.
  EXPECT_LE(largest_relative_difference(logged(trainer.state(), "learning_rate"),
                                        golden["float32"]["learning_rate"]),
            4 * 0x1p-52);

  double mean = 0;
  for (const json& loss : golden["float64"]["loss"])
    mean += loss.get<double>() / static_cast<double>(golden["rows"].size());
  EXPECT_NEAR(output.training_loss, mean, curve_tolerance(golden, "loss", kLossRoundings) * mean);
  for (const auto& [name, values] : weights_of(trainer.session())) {
    const bool is_frozen = adapts && !golden["final_weights_sum_and_norm"].contains(name);
    if (is_key_bias(name) || is_frozen) continue;
    double sum = 0;
    double square = 0;
    for (const float value : values) {
      sum += value;
      square += static_cast<double>(value) * value;
    }
    const json& expected = golden["final_weights_sum_and_norm"][name];
    const auto count = static_cast<double>(values.size());
    const double of_each = weight_tolerance(golden, name, values);
    EXPECT_NEAR(std::sqrt(square), expected[1].get<double>(), std::sqrt(count) * of_each) << name;
    EXPECT_NEAR(sum, expected[0].get<double>(), count * of_each) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TrainGolden,
                         testing::Values("adamw", "sgd", "adafactor", "adagrad", "rmsprop", "frozen",
                                         "adamw_8bit", "lion_8bit", "lion_32bit", "lomo", "adalomo",
                                         "reduce_lr_on_plateau", "lora"),
                         [](const auto& info) { return info.param; });

// The weights themselves after AdamW, which moves each by up to the learning rate whatever its gradient's size.
class TrainGoldenWeights : public testing::TestWithParam<std::string> {};

TEST_P(TrainGoldenWeights, AfterAdamW) {
  const bool adapts = GetParam() == "lora";
  const std::filesystem::path directory = adapts ? kLoraGolden : kBertGolden;
  const json golden = read_json(directory / "golden.json")[GetParam()];
  const SafetensorsFile file = SafetensorsFile::open(directory / "golden.safetensors");
  const BertForSequenceClassification model = golden_model();
  const TrainingArguments args = golden_arguments(golden);
  TrainerOptions options;
  options.weights = kBertGolden;
  if (adapts) options.adapter = kLoraGolden;
  Trainer trainer(model, args, golden_samples(flattened(golden["rows"])), {}, std::move(options));
  trainer.train();
  size_t compared = 0;
  for (const auto& [name, values] : weights_of(trainer.session())) {
    if (!golden["final_weights_sum_and_norm"].contains(name)) continue;  // frozen
    ++compared;
    if (is_key_bias(name)) continue;
    std::vector<float> expected(values.size());
    file.read_into("adamw." + name, std::as_writable_bytes(std::span(expected)));
    double largest = 0;
    for (size_t i = 0; i < values.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(values[i]) - expected[i]));
    EXPECT_LE(largest, weight_tolerance(golden, name, values)) << name;
  }
  EXPECT_EQ(compared, golden["final_weights_sum_and_norm"].size());
}

INSTANTIATE_TEST_SUITE_P(Trained, TrainGoldenWeights, testing::Values("adamw", "lora"),
                         [](const auto& info) { return info.param; });

// One step without learning: loss and gradient norm of the golden's batch `main`, through the whole Trainer. The
// models' layers are of the same sizes.
class TrainGoldenBatch : public testing::TestWithParam<std::filesystem::path> {
 protected:
  void expect_step(TrainingArguments args, const json& golden, const std::vector<size_t>& ignored = {}) {
    args.max_steps = 1;
    args.learning_rate = 0;
    args.train_sampling_strategy = "sequential";
    const std::unique_ptr<Model> model =
        AutoModelForSequenceClassification::from_config(GetParam() / "config.json");
    Trainer trainer(*model, args, golden_samples(kMainRows, ignored, GetParam()), {},
                    {.weights = GetParam()});
    trainer.train();
    const double loss = golden["loss"].get<double>();
    const double norm = golden["gradient_norm"].get<double>();
    EXPECT_NEAR(logged(trainer.state(), "loss").at(0), loss, rounding_error(kLossRoundings, loss));
    EXPECT_NEAR(logged(trainer.state(), "grad_norm").at(0), norm, rounding_error(kGradientRoundings, norm));
  }
  const json golden_ = read_json(GetParam() / "golden.json");
};

TEST_P(TrainGoldenBatch, Whole) {
  expect_step(quiet_arguments(8), golden_["main"]);
}

TEST_P(TrainGoldenBatch, LabelSmoothing) {
  TrainingArguments args = quiet_arguments(8);
  args.label_smoothing_factor = golden_["label_smoothing"]["label_smoothing_factor"].get<double>();
  expect_step(args, golden_["label_smoothing"]);
}

TEST_P(TrainGoldenBatch, IgnoredLabels) {
  expect_step(quiet_arguments(8), golden_["ignored_labels"], {1, 4});
}

// Micro-batches of 3, 3 and 2 samples equal the whole batch: the last one is short.
TEST_P(TrainGoldenBatch, AccumulatedInBothOrders) {
  for (const char* order : {"micro_batch", "layer_major"}) {
    SCOPED_TRACE(order);
    TrainingArguments args = quiet_arguments(3);
    args.gradient_accumulation_steps = 3;
    args.accumulation_order = order;
    expect_step(args, golden_["main"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainGoldenBatch, testing::Values(kBertGolden, kDistilBertGolden),
                         [](const auto& info) { return info.param.filename().string(); });

}  // namespace
}  // namespace shoehorn
