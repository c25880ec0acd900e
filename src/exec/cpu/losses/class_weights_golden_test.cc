// Losses with weights of classes against torch: tests/golden/metrics/class_weights.json, which class_weights_make.py beside
// it writes.
#include <nlohmann/json.hpp>

#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/losses/loss.h"
#include "io/json_file.h"

namespace shoehorn::cpu {
namespace {

using test_support::Tensor;
using test_support::workspace;

const nlohmann::json& golden() {
  static const nlohmann::json values =
      read_json(SHOEHORN_SOURCE_DIR "/tests/golden/metrics/class_weights.json");
  return values;
}

std::vector<float> flat(const nlohmann::json& rows) {
  std::vector<float> values;
  for (const nlohmann::json& row : rows) {
    for (const nlohmann::json& value : row) values.push_back(value.get<float>());
  }
  return values;
}

// A row is a sum of up to 20 terms of a few roundings each.
void expect_near(double found, double expected, const char* what) {
  EXPECT_NEAR(found, expected, 32 * 0x1p-23 * (1 + std::abs(expected))) << what;
}

class ClassWeightsGolden : public test_support::EveryTarget {};

TEST_P(ClassWeightsGolden, CrossEntropyIsTorchs) {
  for (const nlohmann::json& item : golden().at("cross_entropy")) {
    const auto weights = item.at("weights").get<std::vector<float>>();
    const auto labels = item.at("labels").get<std::vector<int32_t>>();
    const std::vector<float> logits = flat(item.at("logits"));
    const std::vector<float> expected = flat(item.at("dlogits"));
    const auto rows = std::ssize(labels);
    const auto smoothing = item.at("label_smoothing").get<float>();
    SCOPED_TRACE(fmt::format("C {} e {}", weights.size(), smoothing));
    float target_count = 0;
    for (const int32_t label : labels) target_count += label < 0 ? 0 : weights[static_cast<size_t>(label)];
    std::vector<float> maximum(labels.size()), sum(labels.size()), dlogits(logits.size());
    float loss = 0;
    float right = 0;
    Tensor scratch = workspace(loss_workspace_bytes(rows));
    cross_entropy_forward({.dtype = DType::kF32,
                           .rows = rows,
                           .classes = std::ssize(weights),
                           .label_smoothing = smoothing,
                           .logits = logits.data(),
                           .labels = labels.data(),
                           .target_count = &target_count,
                           .class_weights = weights.data(),
                           .row_maximum = maximum.data(),
                           .row_sum = sum.data(),
                           .loss = &loss,
                           .right = &right,
                           .accumulate = false,
                           .workspace = scratch.data()});
    expect_near(loss, item.at("loss").get<double>(), "loss");
    cross_entropy_backward({.dtype = DType::kF32,
                            .rows = rows,
                            .classes = std::ssize(weights),
                            .label_smoothing = smoothing,
                            .logits = logits.data(),
                            .labels = labels.data(),
                            .target_count = &target_count,
                            .row_maximum = maximum.data(),
                            .row_sum = sum.data(),
                            .gradient_scale = nullptr,
                            .class_weights = weights.data(),
                            .dlogits = dlogits.data()});
    for (size_t i = 0; i < dlogits.size(); ++i) expect_near(dlogits[i], expected[i], "dlogits");
  }
}

TEST_P(ClassWeightsGolden, BinaryCrossEntropyIsTorchs) {
  for (const nlohmann::json& item : golden().at("binary_cross_entropy")) {
    const auto weights = item.at("weights").get<std::vector<float>>();
    SCOPED_TRACE(weights.size());
    const std::vector<float> logits = flat(item.at("logits"));
    const std::vector<float> labels = flat(item.at("labels"));
    const std::vector<float> expected = flat(item.at("dlogits"));
    const auto columns = std::ssize(weights);
    const auto rows = std::ssize(logits) / columns;
    const auto target_count = static_cast<float>(rows);
    std::vector<float> dlogits(logits.size());
    float loss = 0;
    Tensor scratch = workspace(loss_workspace_bytes(rows));
    binary_cross_entropy_forward({.dtype = DType::kF32,
                                  .rows = rows,
                                  .columns = columns,
                                  .logits = logits.data(),
                                  .values = labels.data(),
                                  .target_count = &target_count,
                                  .positive_weights = weights.data(),
                                  .loss = &loss,
                                  .accumulate = false,
                                  .workspace = scratch.data()});
    expect_near(loss, item.at("loss").get<double>(), "loss");
    binary_cross_entropy_backward({.dtype = DType::kF32,
                                   .rows = rows,
                                   .columns = columns,
                                   .logits = logits.data(),
                                   .values = labels.data(),
                                   .target_count = &target_count,
                                   .gradient_scale = nullptr,
                                   .positive_weights = weights.data(),
                                   .dlogits = dlogits.data()});
    for (size_t i = 0; i < dlogits.size(); ++i) expect_near(dlogits[i], expected[i], "dlogits");
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ClassWeightsGolden, test_support::every_target(),
                         test_support::target_name);

}  // namespace
}  // namespace shoehorn::cpu
