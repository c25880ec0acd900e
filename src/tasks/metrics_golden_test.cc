// Metrics against scikit-learn and scipy: tests/golden/metrics/metrics.json, which metrics_make.py beside it writes.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "tasks/confusion_counts.h"
#include "tasks/multi_label_counts.h"
#include "tasks/regression_errors.h"

namespace shoehorn {
namespace {

const nlohmann::json& golden() {
  static const nlohmann::json values = read_json(SHOEHORN_SOURCE_DIR "/tests/golden/metrics/metrics.json");
  return values;
}

std::vector<std::string> default_names(int64_t classes) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < classes; ++i) names.push_back(fmt::format("class {}", i));
  return names;
}

// Every metric of the file is there, by name; null is NaN.
void expect_metrics(const Score& score, const Metrics& details, const nlohmann::json& expected,
                    double tolerance) {
  Metrics all = score.metrics();
  all.insert(details.begin(), details.end());
  for (const auto& [name, value] : expected.items()) {
    ASSERT_TRUE(all.contains(name)) << name;
    const double found = metric_number(all.at(name));
    if (value.is_null()) {
      EXPECT_TRUE(std::isnan(found)) << name << " " << found;
    } else {
      EXPECT_NEAR(found, value.get<double>(), tolerance) << name;
    }
  }
}

void expect_classes(const ScoreDetails& details, const nlohmann::json& expected) {
  ASSERT_EQ(details.classes.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const ClassMetrics& of = details.classes[i];
    EXPECT_EQ(of.name, fmt::format("class {}", i));
    EXPECT_NEAR(of.precision, expected[i][0].get<double>(), 1e-15);
    EXPECT_NEAR(of.recall, expected[i][1].get<double>(), 1e-15);
    EXPECT_NEAR(of.f1, expected[i][2].get<double>(), 1e-15);
    EXPECT_EQ(of.support, expected[i][3].get<int64_t>());
  }
}

// Sums of at most a few hundred quotients in double.
constexpr double kTolerance = 1e-13;

TEST(MetricsGolden, SingleLabelIsThatOfScikitLearn) {
  for (const nlohmann::json& item : golden().at("single_label")) {
    SCOPED_TRACE(item.at("name"));
    const auto classes = item.at("num_labels").get<int64_t>();
    const auto labels = item.at("labels").get<std::vector<int64_t>>();
    const auto predictions = item.at("predictions").get<std::vector<int64_t>>();
    ConfusionCounts counts(classes);
    for (size_t i = 0; i < labels.size(); ++i) counts.add(labels[i], predictions[i]);
    const ScoreDetails details = counts.details(default_names(classes));
    expect_metrics(counts, details.averages, item.at("metrics"), kTolerance);
    expect_classes(details, item.at("classes"));
    ASSERT_TRUE(details.confusion);
    for (int64_t label = 0; label < classes; ++label) {
      for (int64_t prediction = 0; prediction < classes; ++prediction) {
        const auto expected =
            item.at("confusion")[static_cast<size_t>(label)][static_cast<size_t>(prediction)];
        EXPECT_EQ(details.confusion->at(static_cast<size_t>(label), static_cast<size_t>(prediction)),
                  expected.get<int64_t>());
        EXPECT_EQ(counts.count(label, prediction), expected.get<int64_t>());
      }
    }
  }
}

TEST(MetricsGolden, MultiLabelIsThatOfScikitLearn) {
  for (const nlohmann::json& item : golden().at("multi_label")) {
    SCOPED_TRACE(item.at("name"));
    const auto classes = std::ssize(item.at("labels")[0]);
    MultiLabelCounts counts(classes);
    for (size_t i = 0; i < item.at("labels").size(); ++i) {
      std::vector<float> logits;
      for (const nlohmann::json& set : item.at("predictions")[i]) logits.push_back(set == 1 ? 0.5F : -0.5F);
      counts.add_batch(logits, item.at("labels")[i].get<std::vector<float>>());
    }
    const ScoreDetails details = counts.details(default_names(classes));
    expect_metrics(counts, details.averages, item.at("metrics"), kTolerance);
    expect_classes(details, item.at("classes"));
    EXPECT_FALSE(details.confusion);
  }
}

TEST(MetricsGolden, RegressionIsThatOfScipy) {
  for (const bool is_lent : {false, true}) {
    for (const nlohmann::json& item : golden().at("regression")) {
      SCOPED_TRACE(fmt::format("{}, lent {}", item.at("name").get<std::string>(), is_lent));
      const auto predictions = item.at("predictions").get<std::vector<float>>();
      const auto labels = item.at("labels").get<std::vector<float>>();
      std::vector<RegressionErrors::RankedPair> room(labels.size());
      RegressionErrors errors(1);
      if (is_lent) errors.keep_in(std::as_writable_bytes(std::span(room)));
      errors.add_batch(std::span(predictions).first(3), std::span(labels).first(3));
      EXPECT_FALSE(errors.metrics().empty()) << "asking in between changes nothing";
      errors.add_batch(std::span(predictions).subspan(3), std::span(labels).subspan(3));
      // Of means around 4096 each deviation has a rounding of 2^-41.
      expect_metrics(errors, {}, item.at("metrics"), 1e-10);
      if (is_lent) {
        EXPECT_THROW(errors.add_batch(std::vector<float>(1), std::vector<float>(1)), InternalError);
      }
    }
  }
}

}  // namespace
}  // namespace shoehorn
