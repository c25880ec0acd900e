// What is chosen to be recomputed: within the budget at every position, nothing too much, and hardly slower than the best.
#include "session/recompute_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error_testing.h"
#include "exec/backends.h"
#include "models/registry.h"
#include "ops/op_info.h"
#include "passes/pipeline.h"
#include "passes/recompute_set.h"
#include "plan/plan_target.h"
#include "session/recompute_options.h"
#include "session/session.h"

namespace shoehorn {
namespace {

constexpr BatchCapacity kCapacity{512, 4, 128};

std::unique_ptr<Model> encoder(int64_t layers) {
  return model_from_json({{"model_type", "bert"},
                          {"vocab_size", 100},
                          {"hidden_size", 64},
                          {"num_hidden_layers", layers},
                          {"num_attention_heads", 4},
                          {"intermediate_size", 256},
                          {"max_position_embeddings", 128}},
                         "a small BERT");
}

// With a vocabulary whose loss needs more than a layer.
std::unique_ptr<Model> decoder(int64_t layers) {
  return model_from_json({{"model_type", "llama"},
                          {"vocab_size", 2000},
                          {"hidden_size", 64},
                          {"num_hidden_layers", layers},
                          {"num_attention_heads", 4},
                          {"num_key_value_heads", 2},
                          {"intermediate_size", 176},
                          {"max_position_embeddings", 128}},
                         "a small Llama", Head::kCausalLanguageModel);
}

// A step to try settings on.
struct TrialOf {
  TrialOf(const Model& model, const StepOptions& step, const BatchCapacity& capacity = kCapacity)
      : options(step),
        backend(make_backend()),
        family(begin_programs(model, RunKind::kTrain, capacity, {}, options)),
        trial(family, options, *backend) {}

  StepOptions options;
  std::shared_ptr<const Backend> backend;
  ProgramFamily family;
  StepTrial trial;
};

struct Setting {
  std::string name;
  std::function<void(StepOptions&)> set;
  std::unique_ptr<Model> (*model)(int64_t layers) = encoder;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}

class RecomputeChoiceOf : public testing::TestWithParam<Setting> {
 protected:
  static StepOptions step() {
    StepOptions options;
    GetParam().set(options);
    return options;
  }
  static std::unique_ptr<Model> model(int64_t layers) { return GetParam().model(layers); }
};

std::vector<int64_t> budgets_between(StepTrial& trial, int count) {
  const int64_t most = trial.with_set({}).live_bytes;
  const int64_t least = bytes_of_budget(trial, {.fraction = 0});
  std::vector<int64_t> budgets;
  for (int i = 0; i < count; ++i) budgets.push_back(least + (most - least) * i / (count - 1));
  return budgets;
}

TEST_P(RecomputeChoiceOf, HoldsTheBudgetAndKeepsWhatFits) {
  TrialOf of(*model(5), step());
  for (const int64_t budget : budgets_between(of.trial, 7)) {
    const RecomputeChoice choice = choose_recompute_set(of.trial, {.bytes = budget});
    EXPECT_LE(choice.live_bytes, budget);
    EXPECT_EQ(of.trial.with_set(choice.names).live_bytes, choice.live_bytes);
    EXPECT_LE(of.trial.packed_bytes(budget), budget);
    EXPECT_EQ(choose_recompute_set(of.trial, {.bytes = budget}).names, choice.names) << "deterministic";
    for (const std::string& name : choice.names) {
      std::set<std::string> fewer = choice.names;
      fewer.erase(name);
      const TrialOutcome without = of.trial.with_set(fewer);
      EXPECT_TRUE(without.live_bytes > budget || of.trial.packed_bytes(budget) > budget ||
                  without.seconds > choice.seconds)
          << name << " could be kept within " << budget;
    }
  }
}

// Workspaces that do not depend on a machine: each product or attention has a piece for each thread.
class FixedTarget : public PlanTarget {
 public:
  explicit FixedTarget(int64_t threads) : threads_(threads) {}
  int64_t workspace_bytes(const Program&, const Node& node) const override {
    if (node.kind == OpKind::kMatmul) return threads_ * (16 << 10);
    return op_info(node.kind).op_class == OpClass::kContraction ? threads_ * (40 << 10) : 0;
  }

 private:
  int64_t threads_;
};

// The cost of a node on the n-th of several machines: ops take up to twice their nominal time, each its own factor.
NodeCost cost_on_machine(int n) {
  return [n](const Program& program, const Node& node) {
    const int tenths = n == 0 ? 0 : (static_cast<int>(node.kind) * 7 + n * 13) % 11;
    return nominal_node_seconds(program, node) * (1 + 0.1 * tenths);
  };
}

TEST_P(RecomputeChoiceOf, MoreBudgetIsHardlyEverSlower) {
  constexpr double kMostSlower = 0.01;  // as the header says
  for (const int64_t layers : {3, 5}) {
    for (int machine = 0; machine < 4; ++machine) {
      const StepOptions options = step();
      const FixedTarget target(1 + machine);
      ProgramFamily family = begin_programs(*model(layers), RunKind::kTrain, kCapacity, {}, options);
      StepTrial trial(family, options, target, cost_on_machine(machine));
      double least_seconds = std::numeric_limits<double>::infinity();
      int slower = 0;
      for (const int64_t budget : budgets_between(trial, 20)) {
        const double seconds = choose_recompute_set(trial, {.bytes = budget}).seconds;
        EXPECT_LE(seconds, least_seconds * (1 + kMostSlower)) << budget;
        if (seconds > least_seconds * (1 + 1e-12)) ++slower;
        least_seconds = std::min(least_seconds, seconds);
      }
      EXPECT_LE(slower, 1) << layers << " layers, machine " << machine;
      EXPECT_EQ(least_seconds, trial.with_set({}).seconds) << "with all the bytes nothing is recomputed";
    }
  }
}

TEST_P(RecomputeChoiceOf, IsNeverSlowerThanGroupsOfLayers) {
  TrialOf of(*model(6), step());
  for (int64_t every = 1; every <= 5; ++every) {
    const TrialOutcome grouped = of.trial.with_groups(every);
    const int64_t budget = of.trial.packed_bytes(grouped.live_bytes);
    EXPECT_LE(choose_recompute_set(of.trial, {.bytes = budget}).seconds, grouped.seconds * (1 + 1e-12))
        << "every " << every;
  }
}

// The plan of a session is that of the trial.
TEST_P(RecomputeChoiceOf, IsWhatASessionPlans) {
  StepOptions options = step();
  const std::unique_ptr<Model> trained = model(5);
  TrialOf of(*trained, options);
  for (const double fraction : {0.0, 0.3, 0.7}) {
    const RecomputeChoice choice = choose_recompute_set(of.trial, {.fraction = fraction});
    EXPECT_FALSE(choice.names.empty());
    options.activation_budget = {.fraction = fraction};
    SessionOptions session_options;
    session_options.train = kCapacity;
    session_options.step = options;
    session_options.backend = of.backend;
    const Session session(*trained, session_options);
    EXPECT_EQ(session.options().step.recompute_set, choice.names);
    EXPECT_EQ(session.plan().device().transient_lower_bound_bytes, choice.live_bytes);
    EXPECT_LE(session.plan().device().transient_bytes, choice.budget_bytes);
  }
}

void set_bf16_update_in_backward(StepOptions& options) {
  options.precision = Precision::kBfloat16;
  options.update_in_backward = true;
  options.max_grad_norm = 0;
}

INSTANTIATE_TEST_SUITE_P(
    Settings, RecomputeChoiceOf,
    testing::Values(Setting{"fp32", [](StepOptions&) {}},
                    Setting{"bf16_update_in_backward", set_bf16_update_in_backward},
                    Setting{"accumulated", [](StepOptions& o) { o.gradient_accumulation_steps = 3; }},
                    Setting{"layer_major",
                            [](StepOptions& o) {
                              o.gradient_accumulation_steps = 2;
                              o.accumulation_order = AccumulationOrder::kLayer;
                            }},
                    Setting{"decoder_fp32", [](StepOptions&) {}, decoder},
                    Setting{"decoder_bf16_update_in_backward", set_bf16_update_in_backward, decoder}),
    [](const auto& info) { return info.param.name; });

// The fastest of all sets, by trying each.
double least_seconds(StepTrial& trial, int64_t budget) {
  const TrialOutcome kept = trial.with_set({});
  std::vector<std::string> names;
  for (const auto& [name, bytes] : recompute_options(trial, kept).kept_bytes) {
    if (bytes > 4096) names.push_back(name);  // not the rows of the classifier
  }
  EXPECT_LE(names.size(), 11U);
  double least = std::numeric_limits<double>::infinity();
  for (size_t mask = 0; mask < size_t{1} << names.size(); ++mask) {
    std::set<std::string> set;
    for (size_t i = 0; i < names.size(); ++i) {
      if ((mask >> i & 1) != 0) set.insert(names[i]);
    }
    const TrialOutcome outcome = trial.with_set(set);
    if (outcome.live_bytes <= budget) least = std::min(least, outcome.seconds);
  }
  return least;
}

TEST(RecomputeChoice, IsWithinThreePercentOfTheOptimum) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    StepOptions step;
    step.precision = precision;
    step.update_in_backward = true;
    step.max_grad_norm = 0;
    TrialOf of(*encoder(2), step);
    for (const int64_t budget : budgets_between(of.trial, 4)) {
      const double best = least_seconds(of.trial, budget);
      EXPECT_LE(choose_recompute_set(of.trial, {.bytes = budget}).seconds, 1.03 * best) << budget;
    }
  }
}

// By arithmetic alone attention would cost less for a byte than the products of sequences a third as long as the model is wide.
TEST(RecomputeChoice, KeepsAttentionWhichIsSlowerThanProducts) {
  const auto model = model_from_json({{"model_type", "bert"},
                                      {"vocab_size", 100},
                                      {"hidden_size", 192},
                                      {"num_hidden_layers", 4},
                                      {"num_attention_heads", 3},
                                      {"intermediate_size", 768},
                                      {"max_position_embeddings", 64}},
                                     "a BERT three times as wide as its sequences are long");
  TrialOf of(*model, {}, {2048, 32, 64});
  const std::set<std::string> chosen = choose_recompute_set(of.trial, {.fraction = 0.5}).names;
  EXPECT_FALSE(chosen.empty());
  const Program& program = of.trial.step();
  const std::vector<std::string> names = forward_names(program);
  int attention_ops = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (program.nodes()[i].kind != OpKind::kAttention) continue;
    ++attention_ops;
    EXPECT_FALSE(chosen.contains(names[i])) << names[i];
  }
  EXPECT_EQ(attention_ops, 4);
}

TEST(RecomputeChoice, NamesTheLeastBudget) {
  TrialOf of(*encoder(3), {});
  EXPECT_TRUE(
      contains(refusal_of([&] { choose_recompute_set(of.trial, {.bytes = 1000}); }), "--activation_budget"));
}

TEST(RecomputeChoice, LeavesTheFamilyAsItWas) {
  StepOptions step;
  const auto backend = make_backend();
  ProgramFamily family = begin_programs(*encoder(3), RunKind::kTrain, kCapacity, {}, step);
  const size_t nodes = family.programs[0].nodes().size();
  const size_t storages = family.state->storages().size();
  {
    StepTrial trial(family, step, *backend);
    EXPECT_FALSE(choose_recompute_set(trial, {.fraction = 0.5}).names.empty());
  }
  EXPECT_EQ(family.programs[0].nodes().size(), nodes);
  EXPECT_EQ(family.state->storages().size(), storages);
}

}  // namespace
}  // namespace shoehorn
