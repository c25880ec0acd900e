#include "fit/plan_search.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "analysis/analysis_testing.h"
#include "analysis/op_costs.h"
#include "arguments/shell_word.h"
#include "base/error_testing.h"
#include "base/memory_limit.h"
#include "base/process.h"
#include "base/sanitizer_testing.h"
#include "model/task.h"
#include "models/bert.h"
#include "ops/op_info.h"
#include "session/session.h"
#include "train/planned_run.h"

namespace shoehorn {
namespace {

constexpr MachineLimits kMachine = {.fp32_flops = 1e11, .bf16_flops = 4e11, .bytes_per_second = 2e10};
constexpr int64_t kOverhead = 20 << 20;

class PlanSearchTest : public testing::Test {
 protected:
  PlanSearchTest() {
    model_.emplace(test_support::two_layer_bert());  // with long sequences below
    data_ = Dataset::alike(8, 128, model_->task().label_shape());
    asked_.arguments.per_device_train_batch_size = 8;
    asked_.arguments.max_seq_length = 128;
    asked_.arguments.output_dir = "out";
    asked_.arguments = resolved(asked_.arguments);
  }

  // Over a link, of ranks that share their weights.
  FitResult find(int64_t budget, const FitSpace& space = {}, const std::optional<RankLink>& link = {},
                 const OpCosts* costs = nullptr) const {
    PlanSearch search(*model_, options_of(),
                      {.space = space,
                       .budget_bytes = budget,
                       .overhead_bytes = kOverhead,
                       .limits = kMachine,
                       .costs = costs,
                       .link = link});
    return search.find(asked_);
  }

  void ask_for_shared_weights() {
    asked_.arguments.world_size = 4;
    asked_.arguments.zero_stage = 3;
  }

  SessionOfArguments options_of() const {
    return [this](const TrainingArguments& args) {
      return session_options_of(*model_, args, {&data_, &evaluation_});
    };
  }

  std::optional<BertForSequenceClassification> model_;
  Dataset data_, evaluation_;
  FitCandidate asked_;
};

const FitSpace kAll{{kTiers.begin(), kTiers.end()}};

TEST_F(PlanSearchTest, WhereEverythingFitsNothingChanges) {
  const FitResult result =
      find(int64_t{1} << 40, {{MathsChange::kExact, MathsChange::kRounding, MathsChange::kNumerics}});
  ASSERT_FALSE(result.fitting.empty());
  // bf16 is faster on this machine; of the plans that are exact the one that was asked for comes first.
  EXPECT_EQ(result.fitting.front().run.tier, MathsChange::kNumerics);
  const FitResult exact = find(int64_t{1} << 40, {{MathsChange::kExact}});
  EXPECT_TRUE(exact.fitting.front().run.flags.empty());
}

// What a node takes on a calibrated machine: its work at the rates of kMachine, times a factor.
void add_samples(const Session& session, const std::function<double(const OpWork& work)>& factor,
                 std::vector<OpSample>& samples) {
  for (const Program& program : session.family().programs) {
    for (const Node& node : program.nodes()) {
      const OpContext context{program, node};
      const OpWork work = op_work(context, op_info(node.kind).cost(context));
      if (work.flops + work.bytes == 0) continue;
      samples.push_back({work, 1e-5 + factor(work) * (work.flops / kMachine.product_flops(work.operands) +
                                                      work.bytes / kMachine.bytes_per_second)});
    }
  }
}

void expect_more_budget_is_never_slower(const std::function<FitResult(int64_t budget)>& find,
                                        int budgets = 20) {
  const FitResult all = find(int64_t{1} << 40);
  const int64_t most = all.frontier.front().process_bytes;
  const int64_t least = all.least.at(MathsChange::kRounding).process_bytes;
  ASSERT_LT(least, most);
  double before = 0;
  for (int i = budgets; i >= 0; --i) {
    const int64_t budget = least + (most - least) * i / budgets;
    const FitResult result = find(budget);
    ASSERT_FALSE(result.fitting.empty()) << i;
    for (const PlannedCandidate& plan : result.fitting) {
      EXPECT_LE(plan.process_bytes, budget);
      EXPECT_LE(plan.run.tier, MathsChange::kRounding);
    }
    const double fastest = result.fitting.front().step_seconds;
    EXPECT_GE(fastest, before * (1 - 0.01)) << "equal within a percent";
    before = fastest;
  }
}

TEST_F(PlanSearchTest, MoreBudgetIsNeverSlower) {
  expect_more_budget_is_never_slower([&](int64_t budget) { return find(budget); });
}

// What is recomputed is chosen by nominal costs, of which some are a third of the machine's here; what is chosen of that is by the
// machine's.
TEST_F(PlanSearchTest, MoreBudgetIsNeverSlowerOnACalibratedMachine) {
  std::vector<OpSample> samples;
  add_samples(
      Session(*model_, options_of()(asked_.arguments)),
      [](const OpWork& work) { return work.op_class == OpClass::kContraction ? 1 : 3; }, samples);
  const OpCosts costs(kMachine, std::move(samples));
  const auto calibrated = [&](int64_t budget) { return find(budget, {}, {}, &costs); };
  expect_more_budget_is_never_slower(calibrated, 6);
  const FitResult all = calibrated(int64_t{1} << 40);
  EXPECT_NE(all.fitting.front().step_seconds, find(int64_t{1} << 40).fitting.front().step_seconds);
  const int64_t between = (all.frontier.front().process_bytes + all.frontier.back().process_bytes) / 2;
  const FitResult chosen = calibrated(between);
  for (const TechniqueEffect& technique : chosen.techniques) {
    if (technique.plan.run.tier > MathsChange::kRounding || technique.plan.process_bytes > between) continue;
    EXPECT_LE(chosen.fitting.front().step_seconds, technique.plan.step_seconds) << technique.name;
  }
}

// On a machine whose caches hold what small micro-batches move these are faster, and are found though larger ones fit.
TEST_F(PlanSearchTest, AMicroBatchThatTheCachesHoldIsFoundThoughALargerOneFits) {
  constexpr double kCache = 1.5 * (1 << 20);  // of half the batch the largest moves less
  std::vector<OpSample> samples;
  for (const int64_t size : {1, 2, 4, 8}) {
    TrainingArguments args = asked_.arguments;
    args.per_device_train_batch_size = size;
    args.gradient_accumulation_steps = 8 / size;
    add_samples(
        Session(*model_, options_of()(args)), [](const OpWork& work) { return work.bytes > kCache ? 4 : 1; },
        samples);
  }
  const OpCosts costs(kMachine, std::move(samples));
  const auto size_of = [](const FitResult& result) {
    return result.fitting.front().run.arguments.per_device_train_batch_size;
  };
  EXPECT_EQ(size_of(find(int64_t{1} << 40)), 8) << "by nominal times the run as asked for";
  const FitResult found = find(int64_t{1} << 40, {}, {}, &costs);
  EXPECT_EQ(size_of(found), 4);
  EXPECT_EQ(found.fitting.front().step_seconds, found.frontier.front().step_seconds);
}

TEST_F(PlanSearchTest, TheLeastBudgetOfATierIsTheBoundary) {
  const FitResult result = find(0);
  EXPECT_TRUE(result.fitting.empty());
  EXPECT_GT(result.bound.process_bytes, 0);
  for (const MathsChange tier : {MathsChange::kExact, MathsChange::kRounding}) {
    FitSpace space;
    space.allowed = tier == MathsChange::kExact ? std::set{tier} : std::set{MathsChange::kExact, tier};
    const int64_t least = result.least.at(tier).process_bytes;
    EXPECT_FALSE(find(least, space).fitting.empty()) << tier_name(tier);
  }
  int64_t above = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(result.nearly_least.at(MathsChange::kRounding).empty());
  for (const PlannedCandidate& other : result.nearly_least.at(MathsChange::kRounding)) {
    EXPECT_LE(other.run.tier, MathsChange::kRounding);
    EXPECT_NE(other.run.flags, result.least.at(MathsChange::kRounding).run.flags);
  }
  for (const auto& [tier, plan] : result.least) {
    EXPECT_LE(plan.process_bytes, above) << "a tier may do what the one below it may";
    above = plan.process_bytes;
  }
}

std::vector<std::vector<std::string>> flags_of(const std::vector<PlannedCandidate>& plans) {
  std::vector<std::vector<std::string>> flags;
  for (const PlannedCandidate& plan : plans) {
    flags.push_back(plan.run.flags);
    flags.back().push_back(std::to_string(plan.process_bytes));
  }
  return flags;
}

// Plans are made by several threads where there are several processors.
TEST_F(PlanSearchTest, OneThreadFindsTheSame) {
  const int64_t budget = find(0).least.at(MathsChange::kRounding).process_bytes * 5 / 4;
  const FitResult by_all = find(budget);
  const FitResult by_one = PlanSearch(*model_, options_of(),
                                      {.budget_bytes = budget,
                                       .overhead_bytes = kOverhead,
                                       .limits = kMachine,
                                       .most_plans_at_a_time = 1})
                               .find(asked_);
  EXPECT_EQ(flags_of(by_all.fitting), flags_of(by_one.fitting));
  EXPECT_EQ(flags_of(by_all.frontier), flags_of(by_one.frontier));
  EXPECT_EQ(by_all.plans, by_one.plans);
  ASSERT_EQ(by_all.techniques.size(), by_one.techniques.size());
  for (size_t i = 0; i < by_all.techniques.size(); ++i)
    EXPECT_EQ(by_all.techniques[i].plan.arena_bytes, by_one.techniques[i].plan.arena_bytes);
}

// Each thread that plans holds a plan: where memory is short there is one.
TEST_F(PlanSearchTest, AsManyThreadsPlanAsThereIsMemoryFor) {
  if (test_support::kIsSanitized) GTEST_SKIP() << "a sanitizer takes address space of its own";
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const SessionOfArguments of = options_of();
  const auto recorded = [&](const TrainingArguments& args) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return of(args);
  };
  const auto threads_that_plan = [&] {
    threads.clear();
    PlanSearch(*model_, recorded, {.overhead_bytes = kOverhead, .limits = kMachine}).find_least(asked_);
    return threads.size();
  };
  threads_that_plan();  // the peak of this process has one
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  const rlimit before = limit;
  const int64_t wide = int64_t{1} << 40;
  limit.rlim_cur = static_cast<rlim_t>(wide);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0) << "the limit that is read leaves what is not taken";
  int64_t left = 0;
  for (const MemoryLimit& one : memory_limits()) {
    if (one.kind == MemoryLimitKind::kAddressSpace) left = one.available_bytes;
  }
  limit.rlim_cur = static_cast<rlim_t>(wide - left + 3 * process_peak_bytes());
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_EQ(threads_that_plan(), 1U);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

// Ranks share what does not fit one of them, unless that is held.
TEST_F(PlanSearchTest, RanksShareWhatDoesNotFit) {
  asked_.arguments.world_size = 4;
  const FitSpace held = {.held = {Degree::kSharing}};
  const FitResult alone = find(0, held);
  for (const PlannedCandidate& plan : alone.frontier) EXPECT_EQ(plan.run.arguments.zero_stage, 0);
  const int64_t least_alone = alone.least.at(MathsChange::kRounding).process_bytes;
  EXPECT_TRUE(find(least_alone - 1, held).fitting.empty());
  const FitResult shared = find(least_alone - 1);
  ASSERT_FALSE(shared.fitting.empty());
  const FitCandidate& chosen = shared.fitting.front().run;
  EXPECT_GT(chosen.arguments.zero_stage, 0);
  EXPECT_EQ(std::count(chosen.flags.begin(), chosen.flags.end(), "--zero_stage"), 1);
  for (const PlannedCandidate& plan : shared.fitting) {
    const bool is_alike = plan.run.flags.size() == chosen.flags.size() && plan.run.tier == chosen.tier &&
                          plan.step_seconds <= shared.fitting.front().step_seconds;
    EXPECT_TRUE(!is_alike || plan.run.arguments.zero_stage >= chosen.arguments.zero_stage);
  }
  EXPECT_LT(shared.least.at(MathsChange::kRounding).process_bytes, least_alone);
  EXPECT_TRUE(find(least_alone - 1, {{MathsChange::kExact}}).fitting.empty()) << "sums round elsewhere";
  const auto tells = [&](const FitResult& result, const char* name) {
    return std::any_of(result.techniques.begin(), result.techniques.end(),
                       [&](const TechniqueEffect& effect) { return effect.name == name; });
  };
  EXPECT_TRUE(tells(shared, "all shared (ZeRO 3)"));
  asked_.arguments.world_size = 1;
  EXPECT_FALSE(tells(find(0), "all shared (ZeRO 3)"));
}

const RankLink kSlowLink = link_of(1, 1000);
const FitSpace kOverLink{.held = {Degree::kSharing}, .knows_link = true};

std::vector<PlannedCandidate> gathered_otherwise(const FitResult& result) {
  std::vector<PlannedCandidate> plans = result.fitting;
  std::erase_if(plans,
                [](const PlannedCandidate& plan) { return gathering_of(plan.run.arguments) == Gathering{}; });
  return plans;
}

// Where nothing fits otherwise, less is gathered at a time.
TEST_F(PlanSearchTest, WhatDoesNotFitGathersLess) {
  ask_for_shared_weights();
  FitSpace held = kOverLink;
  held.held.insert(Degree::kGathering);
  const int64_t least_as_usual = find(0, held, kSlowLink).least.at(MathsChange::kRounding).process_bytes;
  EXPECT_TRUE(find(least_as_usual - 1, held, kSlowLink).fitting.empty());
  const FitResult result = find(least_as_usual - 1, kOverLink, kSlowLink);
  ASSERT_FALSE(result.fitting.empty());
  EXPECT_EQ(gathered_otherwise(result).size(), result.fitting.size());
}

TEST_F(PlanSearchTest, MoreBudgetIsNeverSlowerWhereWeightsAreGathered) {
  ask_for_shared_weights();
  expect_more_budget_is_never_slower([&](int64_t budget) { return find(budget, kOverLink, kSlowLink); });
}

// Training stays as it is where evaluation is what needs too much.
TEST_F(PlanSearchTest, AnEvaluationThatNeedsTheMostGetsSmallerBatches) {
  const FitResult alone = find(int64_t{1} << 40);
  const PlannedCandidate& training = alone.fitting.front();
  EXPECT_FALSE(training.evaluation_binds);
  evaluation_ = Dataset::alike(1024, 128, model_->task().label_shape());
  asked_.arguments.per_device_eval_batch_size = 1024;
  const FitResult all = find(int64_t{1} << 40);
  ASSERT_TRUE(all.fitting.front().evaluation_binds);
  ASSERT_GT(all.fitting.front().process_bytes, training.process_bytes);
  const FitResult tight = find(training.process_bytes + (1 << 20));
  ASSERT_FALSE(tight.fitting.empty());
  const FitCandidate& chosen = tight.fitting.front().run;
  EXPECT_LT(chosen.arguments.per_device_eval_batch_size, 1024);
  EXPECT_EQ(chosen.flags,
            (std::vector<std::string>{"--per_device_eval_batch_size",
                                      std::to_string(chosen.arguments.per_device_eval_batch_size)}));
  EXPECT_LE(tight.least.at(MathsChange::kRounding).process_bytes,
            alone.least.at(MathsChange::kRounding).process_bytes + (1 << 20));
  EXPECT_TRUE(find(training.process_bytes + (1 << 20), {.held = {Degree::kEvaluation}}).fitting.empty());
}

TEST_F(PlanSearchTest, TheSameTwice) {
  const FitResult first = find(int64_t{1} << 40, kAll);
  const FitResult second = find(int64_t{1} << 40, kAll);
  ASSERT_EQ(first.fitting.size(), second.fitting.size());
  for (size_t i = 0; i < first.fitting.size(); ++i)
    EXPECT_EQ(first.fitting[i].run.flags, second.fitting[i].run.flags);
}

TEST_F(PlanSearchTest, TheFrontierHasNoPlanThatAnotherBeats) {
  const std::vector<PlannedCandidate> frontier = find(0, kAll).frontier;
  ASSERT_GT(frontier.size(), 2U);
  for (size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_GE(frontier[i].step_seconds, frontier[i - 1].step_seconds);
    EXPECT_LT(frontier[i].process_bytes, frontier[i - 1].process_bytes);
  }
}

// Between the run that recomputes nothing and the one that recomputes every layer there is something.
TEST_F(PlanSearchTest, RecomputesAsMuchAsTheBudgetAsksFor) {
  const FitSpace exact{{MathsChange::kExact}};
  const FitResult all = find(int64_t{1} << 40, exact);
  const PlannedCandidate& asked = all.techniques[0].plan;
  const PlannedCandidate& every = all.techniques[1].plan;
  EXPECT_TRUE(std::any_of(all.frontier.begin(), all.frontier.end(), [](const PlannedCandidate& plan) {
    return !plan.run.arguments.activation_budget.empty();
  }));
  double before = asked.step_seconds;
  for (const int64_t quarters : {3, 2, 1}) {
    const int64_t budget = every.process_bytes + (asked.process_bytes - every.process_bytes) * quarters / 4;
    const FitResult found = find(budget, exact);
    ASSERT_FALSE(found.fitting.empty());
    const PlannedCandidate& chosen = found.fitting.front();
    EXPECT_FALSE(chosen.run.arguments.activation_budget.empty());
    EXPECT_LE(chosen.process_bytes, budget);
    EXPECT_LT(chosen.step_seconds, every.step_seconds);
    EXPECT_GE(chosen.step_seconds, before);
    before = chosen.step_seconds;
  }
}

TEST_F(PlanSearchTest, TechniquesAreComparedWithTheRunAsAskedFor) {
  const FitResult result = find(int64_t{1} << 40);
  ASSERT_GE(result.techniques.size(), 8U);
  EXPECT_TRUE(result.techniques[0].plan.run.flags.empty());
  const auto effect = [&](const std::string& name) {
    for (const TechniqueEffect& one : result.techniques) {
      if (one.name == name) return one.plan;
    }
    ADD_FAILURE() << name;
    return result.techniques[0].plan;
  };
  const PlannedCandidate& asked = result.techniques[0].plan;
  EXPECT_LT(effect("recompute every layer").process_bytes, asked.process_bytes);
  EXPECT_GT(effect("recompute every layer").step_seconds, asked.step_seconds);
  EXPECT_LT(effect("8-bit AdamW").process_bytes, asked.process_bytes);
  EXPECT_LT(effect("bf16").step_seconds, asked.step_seconds);
}

// bf16 is faster on this machine, and is not allowed: the answer says what it would buy.
TEST_F(PlanSearchTest, WhatTheNextTierBuysIsTold) {
  const FitResult result = find(int64_t{1} << 40);
  ASSERT_TRUE(result.above.has_value());
  EXPECT_EQ(result.above->run.tier, MathsChange::kNumerics);
  EXPECT_LT(result.above->step_seconds, result.fitting.front().step_seconds);
  for (const PlannedCandidate& plan : result.fitting) EXPECT_LE(plan.run.tier, MathsChange::kRounding);
  EXPECT_FALSE(find(int64_t{1} << 40, kAll).above.has_value()) << "nothing is above the last tier";
  // Below each technique of the next tier alone, what fits is more than the smallest plan of all: it was searched.
  int64_t below = std::numeric_limits<int64_t>::max();
  for (const TechniqueEffect& effect : result.techniques) {
    if (effect.plan.run.arguments.bf16) below = std::min(below, effect.plan.process_bytes - 1);
  }
  const FitResult tight = find(below);
  ASSERT_TRUE(tight.above.has_value());
  EXPECT_LE(tight.above->process_bytes, below);
  EXPECT_LT(tight.above->step_seconds, tight.least.at(MathsChange::kNumerics).step_seconds);
}

// What is not searched because something else beats it would not have been chosen.
TEST_F(PlanSearchTest, WhatIsSkippedChangesNoChoice) {
  asked_.arguments.per_device_train_batch_size = 2;
  const FitResult thorough = find(0, kAll);
  const std::vector<PlannedCandidate>& rows = thorough.frontier;
  for (const size_t i : {size_t{0}, rows.size() / 2, rows.size() - 1}) {
    const FitResult result = find(rows[i].process_bytes, kAll);
    ASSERT_FALSE(result.fitting.empty());
    EXPECT_LE(result.fitting.front().step_seconds, rows[i].step_seconds * 1.01) << "equal within a percent";
    EXPECT_LT(result.plans, thorough.plans);
    for (const MathsChange tier : {MathsChange::kExact, MathsChange::kRounding})
      EXPECT_EQ(result.least.at(tier).process_bytes, thorough.least.at(tier).process_bytes)
          << tier_name(tier);
  }
}

// No form of a run whose weights and states are over the budget fits, and bf16 is faster on this machine.
TEST_F(PlanSearchTest, AFormWhoseStateIsOverTheBudgetIsNotSearched) {
  asked_.arguments.per_device_train_batch_size = 2;
  const FitResult all = find(int64_t{1} << 40, kAll);
  const PlannedCandidate& asked = all.techniques[0].plan;
  EXPECT_GT(asked.least_bytes, kOverhead + asked.arena_bytes / 4);
  EXPECT_LT(asked.least_bytes, asked.process_bytes);
  std::mutex mutex;
  std::vector<TrainingArguments> planned;
  const SessionOfArguments of = options_of();
  const auto recorded = [&](const TrainingArguments& args) {
    const std::lock_guard lock(mutex);
    planned.push_back(args);
    return of(args);
  };
  PlanSearch search(*model_, recorded,
                    {.space = kAll,
                     .budget_bytes = asked.least_bytes - 1,
                     .overhead_bytes = kOverhead,
                     .limits = kMachine});
  const FitResult tight = search.find(asked_);
  ASSERT_FALSE(tight.fitting.empty());
  EXPECT_TRUE(std::none_of(tight.frontier.begin(), tight.frontier.end(), [](const PlannedCandidate& plan) {
    return plan.run.tier < MathsChange::kNumerics && plan.run.arguments.gradient_checkpointing;
  }));
  // The least of such a form recomputes; what keeps all in single samples is planned where a form is searched.
  EXPECT_TRUE(std::none_of(planned.begin(), planned.end(), [&](const TrainingArguments& args) {
    return !args.bf16 && args.lora_rank == 0 && args.optim == asked_.arguments.optim &&
           args.per_device_train_batch_size == 1 && args.update_in_backward && !args.gradient_checkpointing;
  }));
  EXPECT_GE(std::ssize(planned), tight.plans);
  EXPECT_LT(tight.plans, find(0, kAll).plans / 2);
}

// Updating in the backward with every layer recomputed changes more and is slower than to recompute a little.
TEST_F(PlanSearchTest, AFormIsSearchedWhereALargerChangeIsSlower) {
  BertConfig deep = test_support::two_layer_bert();
  deep.num_hidden_layers = 8;
  model_.emplace(deep);
  asked_.arguments.per_device_train_batch_size = 128;
  data_ = Dataset::alike(128, 128, model_->task().label_shape());
  const FitSpace space{{MathsChange::kExact, MathsChange::kRounding, MathsChange::kNumerics},
                       {Degree::kBatch, Degree::kOrder, Degree::kPrecision, Degree::kOptimizer}};
  const FitResult all = find(int64_t{1} << 40, space);
  const PlannedCandidate& asked = all.techniques[0].plan;
  const PlannedCandidate& every = all.techniques[1].plan;
  // Between two of those that are planned of the run as asked for in any case.
  const FitResult tight =
      find(every.process_bytes + (asked.process_bytes - every.process_bytes) * 3 / 8, space);
  ASSERT_FALSE(tight.fitting.empty());
  const PlannedCandidate& chosen = tight.fitting.front();
  EXPECT_TRUE(chosen.run.arguments.activation_budget.ends_with("MiB")) << shell_words(chosen.run.flags);
  const auto quarter = std::ranges::find_if(tight.frontier, [](const PlannedCandidate& plan) {
    return plan.run.arguments.activation_budget == "0.25";
  });
  ASSERT_NE(quarter, tight.frontier.end());
  EXPECT_LT(chosen.step_seconds, quarter->step_seconds);
}

// LoRA may be allowed where bf16 is not: the least budget with both is no plan of this search.
TEST_F(PlanSearchTest, ChangesThatAreNotAllowedAreNotChosenWithAnAllowedOne) {
  const FitSpace no_numerics{{MathsChange::kExact, MathsChange::kRounding, MathsChange::kAdapters}};
  const FitResult result = find(int64_t{1} << 40, no_numerics);
  const auto is_kept = [&](const PlannedCandidate& plan) {
    return !plan.run.arguments.bf16 && plan.run.arguments.optim == asked_.arguments.optim;
  };
  ASSERT_FALSE(is_kept(result.least.at(MathsChange::kAdapters)));
  EXPECT_TRUE(std::all_of(result.fitting.begin(), result.fitting.end(), is_kept));
  EXPECT_TRUE(std::all_of(result.frontier.begin(), result.frontier.end(), is_kept));
}

// The code of other products may take more than they save.
TEST_F(PlanSearchTest, WhatKeepsTheProductsIsTheLeastWhereOthersTakeMuchCode) {
  const auto least = [&](int64_t other_code_bytes, int64_t budget) {
    PlanSearch search(*model_, options_of(),
                      {.space = kAll,
                       .budget_bytes = budget,
                       .overhead_bytes = kOverhead,
                       .other_code_bytes = other_code_bytes,
                       .limits = kMachine});
    const PlannedCandidate found = search.find_least(asked_);
    for (const std::set<MathsChange>& allowed :
         {kAll.allowed, {MathsChange::kExact, MathsChange::kRounding, MathsChange::kNumerics}})
      EXPECT_EQ(search.may_fit_with(asked_, allowed), budget > 0);
    return found;
  };
  constexpr int64_t kMuchCode = int64_t{1} << 40;
  EXPECT_GT(least(0, 0).run.arguments.lora_rank, 0);
  const PlannedCandidate found = least(kMuchCode, 0);
  EXPECT_EQ(found.run.arguments.lora_rank, 0);
  EXPECT_FALSE(found.run.arguments.bf16);
  EXPECT_EQ(found.run.arguments.optim, "adafactor");
  EXPECT_EQ(least(kMuchCode, found.process_bytes).process_bytes, found.process_bytes);
}

TEST_F(PlanSearchTest, ASearchThatIsCutShortFindsWhatFitsInItsSmallestForm) {
  const FitResult all = find(int64_t{1} << 40, {{MathsChange::kExact}});
  const int64_t least = all.least.at(MathsChange::kExact).process_bytes;
  const auto in_form = [&](double seconds) {
    PlanSearch search(*model_, options_of(),
                      {.space = {{MathsChange::kExact}},
                       .budget_bytes = (least + all.frontier.front().process_bytes) / 2,
                       .overhead_bytes = kOverhead,
                       .limits = kMachine,
                       .most_seconds_of_recompute = seconds});
    const FormResult result = search.find_in_form(asked_, {MathsChange::kExact});
    return std::pair(result.fitting, search.was_cut_short());
  };
  const auto [whole, whole_is_short] = in_form(1000);
  const auto [cut, cut_is_short] = in_form(0);
  EXPECT_FALSE(whole_is_short);
  EXPECT_TRUE(cut_is_short);
  ASSERT_FALSE(whole.empty());
  ASSERT_FALSE(cut.empty());
  EXPECT_GT(whole.size(), cut.size());
  EXPECT_LT(whole.front().step_seconds, cut.front().step_seconds);
}

// Beside what tells whether the form can fit.
TEST_F(PlanSearchTest, WhatIsSlowerAsItIsThanWhatFitsIsNotRecomputed) {
  FitCandidate bf16 = asked_;
  bf16.arguments.bf16 = true;
  bf16.flags = {"--bf16"};
  bf16.tier = MathsChange::kNumerics;
  bf16.changes = {MathsChange::kNumerics};
  const std::set<MathsChange> allowed(kTiers.begin(), kTiers.end());
  PlanSearch unlimited(*model_, options_of(),
                       {.budget_bytes = int64_t{1} << 40, .overhead_bytes = kOverhead, .limits = kMachine});
  const int64_t whole = unlimited.find_in_form(bf16, allowed).whole->process_bytes;
  PlanSearch search(
      *model_, options_of(),
      {.budget_bytes = whole - (int64_t{1} << 20), .overhead_bytes = kOverhead, .limits = kMachine});
  const FormResult result = search.find_in_form(bf16, allowed);
  ASSERT_FALSE(result.fitting.empty());
  const PlannedCandidate& best = result.fitting.front();
  EXPECT_LT(best.run.arguments.per_device_train_batch_size, 8);
  EXPECT_FALSE(best.run.arguments.gradient_checkpointing);
  for (const PlannedCandidate& plan : result.fitting) {
    FitCandidate whole_form = plan.run;
    if (std::erase(whole_form.flags, "--gradient_checkpointing") == 0 ||
        plan.run.arguments.per_device_train_batch_size == 1)
      continue;
    whole_form.arguments.gradient_checkpointing = false;
    PlanSearch as_it_is(*model_, options_of(), {.overhead_bytes = kOverhead, .limits = kMachine});
    EXPECT_LT(as_it_is.explain(whole_form).fitting.front().step_seconds * 1.01, best.step_seconds)
        << shell_words(plan.run.flags);
  }
}

TEST_F(PlanSearchTest, ARunThatCannotBePlannedIsRefused) {
  asked_.arguments.learning_rate = -1;
  EXPECT_TRUE(contains(refusal_of([&] { find(0); }), "learning_rate"));
}

TEST_F(PlanSearchTest, TheCurveHasTheChoiceOfEveryBudget) {
  PlanSearch search(*model_, options_of(), {.overhead_bytes = kOverhead, .limits = kMachine});
  const std::vector<PlannedCandidate> curve = search.sweep(asked_);
  ASSERT_GT(curve.size(), 2U);
  EXPECT_EQ(curve.back().process_bytes, find(0).least.at(MathsChange::kRounding).process_bytes);
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_LE(curve[i].run.tier, MathsChange::kRounding);
    if (i > 0) {
      EXPECT_LT(curve[i].process_bytes, curve[i - 1].process_bytes);
    }
    // What a search under this budget chooses is no faster, but for plans that count as equal.
    const FitResult result = find(curve[i].process_bytes);
    ASSERT_FALSE(result.fitting.empty());
    EXPECT_GE(result.fitting.front().step_seconds, curve[i].step_seconds * (1 - 1e-9)) << i;
    EXPECT_LE(result.fitting.front().step_seconds, curve[i].step_seconds * 1.02) << i;
  }
}

TEST_F(PlanSearchTest, ARunIsExplainedAsItIs) {
  PlanSearch search(*model_, options_of(),
                    {.budget_bytes = 1, .overhead_bytes = kOverhead, .limits = kMachine});
  const FitResult result = search.explain(asked_);
  ASSERT_EQ(result.fitting.size(), 1U);
  EXPECT_TRUE(result.fitting[0].run.flags.empty());
  const MemoryAnatomy binding = search.anatomy_of(result.bound);
  EXPECT_FALSE(binding.peak_node.empty());
  EXPECT_EQ(binding.total_bytes, result.fitting[0].process_bytes);
  ASSERT_GT(result.techniques.size(), 3U);
  EXPECT_EQ(result.techniques[0].plan.process_bytes, result.fitting[0].process_bytes);
}

}  // namespace
}  // namespace shoehorn
