#include "train/memory_forecast.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/process.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;

// Wide batches of a small model: activations are most of it.
SessionOptions wide_options() {
  SessionOptions options;
  options.train = {2048, 64, 24};
  return options;
}

MemoryForecast forecast_with(Session& session, double share_of_arenas) {
  MemoryForecast forecast = forecast_memory(session, std::nullopt);
  forecast.budget_bytes =
      forecast.process_overhead_bytes +
      static_cast<int64_t>(share_of_arenas * static_cast<double>(session.plan().arena_bytes()));
  return forecast;
}

int64_t sum(const std::map<std::string, int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                         [](int64_t total, const auto& row) { return total + row.second; });
}

TEST(MemoryForecast, EveryByteHasARoleAndAComponent) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Session session(model, wide_options());
  const MemoryForecast forecast = forecast_memory(session, std::nullopt);
  EXPECT_EQ(forecast.arena_bytes(), session.plan().arena_bytes());
  EXPECT_EQ(sum(forecast.by_role), forecast.arena_bytes());
  EXPECT_EQ(sum(forecast.by_component), forecast.arena_bytes());
  EXPECT_EQ(sum(forecast.by_component_kind), forecast.arena_bytes());
  EXPECT_EQ(forecast.by_role.at("optimizer_state"), 8 * session.parameter_count());
  EXPECT_EQ(forecast.parameters, session.parameter_count());
  EXPECT_TRUE(forecast.fits());
  EXPECT_GE(forecast.process_overhead_bytes, process_resident_bytes() / 2);
  for (const ArenaForecast& arena : forecast.arenas) EXPECT_GE(arena.bytes, arena.lower_bound_bytes);
}

// A byte an element and a scale for 256 of them, twice; embeddings and tensors below min_8bit_size 8 bytes.
TEST(MemoryForecast, EightBitStatesTakeTheirOwnBytes) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  SessionOptions options = wide_options();
  options.step.optimizer.settings = AdamW8bitSettings{.states = {.least_elements = 576}};
  Session session(model, options);
  int64_t expected = 0;
  int64_t in_8bit = 0;
  for (const Parameter& parameter : session.state().parameters()) {
    const int64_t count = parameter.elements();
    const bool is_8bit = count >= 576 && !contains(parameter.name, "_embeddings");
    expected += is_8bit ? 2 * count + 8 * ((count + 255) / 256) : 8 * count;
    in_8bit += is_8bit ? 1 : 0;
  }
  EXPECT_EQ(in_8bit, 13) << "six of each layer, and the pooler";
  EXPECT_EQ(forecast_memory(session, std::nullopt).by_role.at("optimizer_state"), expected);
}

TEST(MemoryForecast, BudgetDecides) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Session session(model, wide_options());
  MemoryForecast forecast = forecast_memory(session, int64_t{1} << 40);
  EXPECT_EQ(forecast.budget_bytes, int64_t{1} << 40);
  EXPECT_TRUE(forecast.fits());
  forecast.budget_bytes = forecast.process_bytes();
  EXPECT_TRUE(forecast.fits());
  --forecast.budget_bytes;
  EXPECT_FALSE(forecast.fits());
}

TEST(MemoryForecast, AlternativesFitAndTheExactOnesComeFirst) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  const SessionOptions options = wide_options();
  Session session(model, options);
  for (const double share : {0.9, 0.5, 0.3}) {
    const MemoryForecast forecast = forecast_with(session, share);
    const std::vector<Alternative> found = find_alternatives(model, options, forecast, 64);
    ASSERT_FALSE(found.empty()) << share;
    EXPECT_FALSE(found[0].changes_numerics);
    bool numerics_began = false;
    for (const Alternative& alternative : found) {
      EXPECT_LE(alternative.process_peak_bytes, forecast.budget_bytes) << alternative.flags;
      EXPECT_EQ(alternative.flags.rfind("--", 0), 0U) << alternative.flags;
      EXPECT_FALSE(numerics_began && !alternative.changes_numerics) << alternative.flags;
      numerics_began = numerics_began || alternative.changes_numerics;
    }
  }
}

TEST(MemoryForecast, RefusalSaysByHowMuchAndWhatWouldFit) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  const SessionOptions options = wide_options();
  Session session(model, options);
  MemoryForecast forecast = forecast_with(session, 0.5);
  const std::string refusal = format_refusal(forecast, find_alternatives(model, options, forecast, 64));
  for (const char* part : {"[memory] expected a plan of at most", "too much; nothing was reserved",
                           "Fits, with the same numbers:", "Other processes that hold memory:"}) {
    EXPECT_TRUE(contains(refusal, part));
  }
  forecast.budget_bytes = 1 << 20;
  const std::vector<Alternative> none = find_alternatives(model, options, forecast, 64);
  EXPECT_TRUE(none.empty());
  EXPECT_TRUE(contains(format_refusal(forecast, none), "No combination of the known techniques fits."));
}

TEST(MemoryForecast, TextAndJson) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Session session(model, wide_options());
  const MemoryForecast forecast = forecast_memory(session, std::nullopt);
  const nlohmann::json json = to_json(forecast);
  for (const char* key : {"fits", "budget_bytes", "arenas", "by_role", "by_component",
                          "process_overhead_bytes", "process_peak_bytes"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["arenas"][0]["space"], "host");
  const std::string text = format_forecast(forecast);
  for (const char* part : {"optimizer_state", "attention (all layers)", "transient arena (host)",
                           "peak of the whole process", "(fits)"}) {
    EXPECT_TRUE(contains(text, part));
  }
}

}  // namespace
}  // namespace shoehorn
