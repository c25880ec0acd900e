#include "session/memory_forecast.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>

#include "base/error_testing.h"
#include "base/process.h"
#include "exec/backends.h"
#include "exec/null/null_backend.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// Wide batches of a small model: activations are most of it.
SessionOptions wide_options() {
  SessionOptions options;
  options.train = {2048, 64, 24};
  return options;
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
    const int64_t count = parameter.global_elements();
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
  EXPECT_EQ(forecast.limit.kind, MemoryLimitKind::kBudget);
  const MemoryLimit binding = binding_memory_limit();
  forecast = forecast_memory(session, std::nullopt);
  EXPECT_EQ(forecast.limit.kind, binding.kind);
  EXPECT_EQ(forecast.limit.path, binding.path);
}

// With what the process has already, and without what the kernel keeps for its pages and threads.
TEST(MemoryForecast, TheBudgetIsWhatTheLimitLeavesToPages) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  const std::unique_ptr<Backend> backend = make_backend();
  const int64_t threads = backend->machine().threads;
  constexpr int64_t kLeft = int64_t{512} << 30;
  const auto expect_budget = [](int64_t budget, int64_t left) {
    EXPECT_NEAR(static_cast<double>(budget), static_cast<double>(left + process_resident_bytes()), 8 << 20);
  };
  const MemoryLimit group{MemoryLimitKind::kCgroup, {}, kLeft, kLeft};
  expect_budget(whole_process_budget(*backend, group), kLeft - (kLeft >> 9));
  expect_budget(whole_process_budget(*backend, group, 4), kLeft / 4 - (kLeft >> 11));
  expect_budget(whole_process_budget(*backend, {MemoryLimitKind::kAddressSpace, {}, kLeft, kLeft}), kLeft);
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_GT(whole_process_budget(*backend, {MemoryLimitKind::kMachine, {}, most, most}), most / 512 * 510);
  Session session(model, wide_options());
  const MemoryForecast forecast = forecast_memory(session, std::nullopt);
  expect_budget(forecast.budget_bytes,
                room_for_pages(forecast.limit.kind, forecast.limit.available_bytes, threads));
}

// Ranks on one host have it together; one that is on it alone has all.
TEST(MemoryForecast, ARankHasItsShareOfTheHost) {
  constexpr int64_t kAvailable = int64_t{1} << 34;
  const BertForSequenceClassification model(tiny_bert(0.1F));
  SessionOptions options = wide_options();
  options.backend = make_null_backend({.available_memory_bytes = kAvailable});
  Session session(model, options);
  EXPECT_EQ(forecast_memory(session, std::nullopt).budget_bytes, kAvailable);
  for (const int64_t ranks : {1, 4})
    EXPECT_EQ(forecast_memory(session, std::nullopt, ranks).budget_bytes, kAvailable / ranks);
  EXPECT_EQ(forecast_memory(session, int64_t{1} << 30, 4).budget_bytes, int64_t{1} << 30)
      << "what a rank is given is its own";
  const MemoryForecast shared = forecast_memory(session, std::nullopt, 4);
  EXPECT_EQ(shared.budget_ranks, 4);
  EXPECT_TRUE(contains(format_forecast(shared), ", the share of one of 4 ranks on a host (fits)"));
  EXPECT_EQ(forecast_memory(session, int64_t{1} << 30, 4).budget_ranks, 1);
}

// Ranks on devices that are not their host have one each.
TEST(MemoryForecast, ARankHasItsDeviceForItself) {
  constexpr int64_t kAvailable = int64_t{1} << 34;
  const BertForSequenceClassification model(tiny_bert(0.1F));
  SessionOptions options = wide_options();
  options.backend =
      make_null_backend({.profile = {.device_is_host = false}, .available_memory_bytes = kAvailable});
  Session session(model, options);
  const MemoryForecast forecast = forecast_memory(session, std::nullopt, 4);
  EXPECT_EQ(forecast.budget_bytes, kAvailable);
  EXPECT_EQ(forecast.budget_ranks, 1);
}

TEST(MemoryForecast, EachPhaseHasItsOwnPeakAndTheLargestIsTheProcesss) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  for (const bool evaluation_is_larger : {false, true}) {
    SessionOptions options = wide_options();
    options.evaluation = evaluation_is_larger ? BatchCapacity{1 << 16, 2048, 32} : BatchCapacity{32, 1, 24};
    Session session(model, options);
    MemoryForecast forecast = forecast_memory(session, std::nullopt);
    forecast.planning_peak_bytes = 0;
    std::map<std::string, PhaseForecast> phases;
    for (const PhaseForecast& phase : forecast.phases()) phases[phase.name] = phase;
    ASSERT_EQ(phases.size(), 5U);
    const PhaseForecast& largest = phases.at(evaluation_is_larger ? "evaluate" : "train");
    EXPECT_EQ(largest.process_peak_bytes, forecast.process_bytes());
    EXPECT_FALSE(largest.moment.empty());
    for (const auto& [name, phase] : phases) {
      EXPECT_EQ(phase.binds, name == largest.name) << name;
      EXPECT_LE(phase.process_peak_bytes, largest.process_peak_bytes) << name;
    }
    const int64_t stays = session.plan().device().persistent_bytes + forecast.process_overhead_bytes +
                          session.plan().spaces[AddressSpace::kHost].persistent_bytes +
                          session.plan().spaces[AddressSpace::kPinnedHost].persistent_bytes;
    for (const char* name : {"load", "resume", "save"})
      EXPECT_EQ(phases.at(name).process_peak_bytes, stays) << name;
    EXPECT_LT(phases.at(evaluation_is_larger ? "train" : "evaluate").process_peak_bytes,
              largest.process_peak_bytes);
    forecast.planning_peak_bytes = 2 * forecast.process_bytes();
    EXPECT_EQ(forecast.phases().front().name, "plan");
    EXPECT_TRUE(forecast.phases().front().binds);
  }
  SessionOptions trains = wide_options();
  const Session without(model, trains);
  for (const PhaseForecast& phase : forecast_least_memory(without, std::nullopt).phases())
    EXPECT_NE(phase.name, "evaluate") << "nothing is evaluated";
  SessionOptions evaluates;
  evaluates.kind = RunKind::kEvaluate;
  evaluates.evaluation = {2048, 64, 24};
  const Session alone(model, evaluates);
  std::set<std::string> names;
  for (const PhaseForecast& phase : forecast_least_memory(alone, std::nullopt).phases())
    names.insert(phase.name);
  EXPECT_EQ(names, (std::set<std::string>{"plan", "load", "evaluate"}));
}

TEST(MemoryForecast, TextAndJson) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Session session(model, wide_options());
  const MemoryForecast forecast = forecast_memory(session, std::nullopt);
  const nlohmann::json json = to_json(forecast);
  for (const char* key : {"fits", "budget_bytes", "limit", "arenas", "by_role", "by_component",
                          "process_overhead_bytes", "process_peak_bytes", "phases"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["arenas"][0]["space"], "host");
  const std::string text = format_forecast(forecast);
  for (const char* part : {"optimizer_state", "attention (all layers)", "transient arena (host)",
                           "peak of the whole process", "(fits"}) {
    EXPECT_TRUE(contains(text, part));
  }
}

}  // namespace
}  // namespace shoehorn
