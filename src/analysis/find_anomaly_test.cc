#include "analysis/find_anomaly.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

struct Setting {
  std::string name;
  std::function<void(TrainingArguments&)> set;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}

class FindAnomaly : public testing::TestWithParam<Setting> {
 protected:
  TrainingArguments arguments() const {
    TrainingArguments args = quiet_arguments(3);
    args.max_steps = 3;
    args.detect_anomaly = true;
    GetParam().set(args);
    return args;
  }
};

// Rows beyond the counts, padding and masked scores hold anything: they are no anomaly.
TEST_P(FindAnomaly, NoFalseAlarm) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Trainer trainer(model, arguments(), tiny_samples(10, 5));
  EXPECT_EQ(trainer.train().global_step, 3);
}

TEST_P(FindAnomaly, NamesThePlaceInForward) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert(0.1F));
  {
    Trainer source(model, quiet_arguments(), {}, tiny_samples(2, 1));
    source.evaluate();
    const StateTable& state = source.session().state();
    const Parameter& parameter =
        state.parameter(state.find_parameter("bert.encoder.layer.1.output.dense.bias"));
    const float infinity = std::numeric_limits<float>::infinity();
    write_parameter(source.session().executor(), parameter, 5, std::span(&infinity, 1));
    source.save_model(directory.path());
  }
  Trainer trainer(model, arguments(), tiny_samples(10, 5), {}, {.weights = directory.path()});
  const std::string message = message_of<SystemError>([&] { trainer.train(); });
  EXPECT_TRUE(contains(message, "layer 1 feed_forward"));
  EXPECT_TRUE(contains(message, "forward"));
  EXPECT_TRUE(contains(message, "of program"));
}

INSTANTIATE_TEST_SUITE_P(
    Settings, FindAnomaly,
    testing::Values(Setting{"plain", [](TrainingArguments&) {}},
                    Setting{"bf16", [](TrainingArguments& a) { a.bf16 = true; }},
                    Setting{"unfused", [](TrainingArguments& a) { a.skip_pass = {"fuse"}; }},
                    Setting{"padded",
                            [](TrainingArguments& a) {
                              a.pad_to_max_length = true;
                              a.max_seq_length = 24;
                            }},
                    Setting{"accumulation", [](TrainingArguments& a) { a.gradient_accumulation_steps = 3; }},
                    Setting{"layer_major_recompute",
                            [](TrainingArguments& a) {
                              a.gradient_accumulation_steps = 3;
                              a.accumulation_order = "layer_major";
                              a.gradient_checkpointing = true;
                            }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace shoehorn
