#include "fit/plan_changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arguments/argument_table.h"
#include "base/error_testing.h"

namespace shoehorn {
namespace {

const FitSpace kOpen{{kTiers.begin(), kTiers.end()}};

std::vector<std::string> given(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"--model_name_or_path", "bert-mini"};
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

TrainingArguments parsed(const std::vector<std::string>& flags) {
  return parse_arguments(Command::kPlan, given(flags)).arguments;
}

// Every change of a run, and what changes of it are open behind each.
std::vector<FitCandidate> all_changes(const FitCandidate& run, const FitSpace& space) {
  std::vector<FitCandidate> all;
  for (const FitCandidate& form : shared_forms(run, space)) {
    std::vector<FitCandidate> forms = {form};
    for (const int64_t size : {1, 2, 8}) {
      if (auto split = with_micro_batch(form, size, space)) forms.push_back(std::move(*split));
    }
    for (size_t i = 0, count = forms.size(); i < count; ++i) {
      if (auto ordered = with_layer_order(forms[i], space)) forms.push_back(std::move(*ordered));
    }
    for (size_t i = 0, count = forms.size(); i < count; ++i) {
      if (auto soon = with_update_in_backward(forms[i], space)) forms.push_back(std::move(*soon));
    }
    for (const int64_t layers : {1, 2}) {
      for (size_t i = 0, count = forms.size(); i < count; ++i) {
        if (auto less = with_recompute(forms[i], layers, space)) forms.push_back(std::move(*less));
      }
    }
    if (auto smaller = with_half_evaluation_batch(form, space)) forms.push_back(std::move(*smaller));
    if (auto half = with_bf16_evaluation(form, space)) forms.push_back(std::move(*half));
    for (const char* budget : {"0.5", "300MiB"}) {
      if (auto less = with_activation_budget(form, budget, space)) forms.push_back(std::move(*less));
    }
    all.insert(all.end(), forms.begin(), forms.end());
  }
  return all;
}

// The optimizers that forms of a run have, its own left out.
std::set<std::string> optimizers_tried(const std::vector<std::string>& flags) {
  std::set<std::string> names;
  for (const FitCandidate& form : numeric_forms({parsed(flags)}, kOpen)) {
    const auto name = std::ranges::find(form.flags, "--optim");
    if (name != form.flags.end()) names.insert(*std::next(name));
  }
  return names;
}

TEST(PlanChanges, OptimizersAreThoseOfRefusalsAndKeepLessState) {
  using Names = std::set<std::string>;
  EXPECT_EQ(optimizers_tried({}), (Names{"adamw_8bit", "adafactor"}));
  EXPECT_EQ(optimizers_tried({"--optim", "adamw_8bit"}), Names{"adafactor"});
  EXPECT_EQ(optimizers_tried({"--optim", "lion_32bit"}), (Names{"lion_8bit", "adafactor"}));
  EXPECT_EQ(optimizers_tried({"--optim", "sgd"}), Names{}) << "there is no state";
  EXPECT_EQ(optimizers_tried({"--optim", "adafactor"}), Names{});
}

TEST(PlanChanges, TheFlagsOfAChangeAreTheChange) {
  for (const auto& flags :
       std::vector<std::vector<std::string>>{{},
                                             {"--max_grad_norm", "0"},
                                             {"--fp16"},
                                             {"--optim", "lion_32bit"},
                                             {"--gradient_accumulation_steps", "4"},
                                             {"--world_size", "4"},
                                             {"--world_size", "4", "--zero_stage", "3"}}) {
    const std::vector<FitCandidate> all = all_changes({parsed(flags)}, kOpen);
    EXPECT_GT(all.size(), 20U);
    for (const FitCandidate& run : all) {
      std::vector<std::string> words = flags;
      words.insert(words.end(), run.flags.begin(), run.flags.end());
      EXPECT_TRUE(parsed(words) == run.arguments) << fmt::format("{}", fmt::join(words, " "));
    }
  }
}

// The flags of a plan are a command to copy: the size of the run it names stands in it once.
TEST(PlanChanges, ASecondSplitTakesThePlaceOfTheFirst) {
  const FitCandidate run{parsed({"--per_device_train_batch_size", "8"})};
  const auto half = with_micro_batch(run, 4, kOpen);
  ASSERT_TRUE(half.has_value());
  const auto quarter = with_micro_batch(*half, 2, kOpen);
  ASSERT_TRUE(quarter.has_value());
  EXPECT_EQ(quarter->flags, (std::vector<std::string>{"--per_device_train_batch_size", "2",
                                                      "--gradient_accumulation_steps", "4"}));
}

TEST(PlanChanges, TheEffectiveBatchStays) {
  for (const FitCandidate& run : all_changes({parsed({"--per_device_train_batch_size", "12"})}, kOpen))
    EXPECT_EQ(effective_batch_size(run.arguments), 12);
}

// What ranks do not divide is cut as a whole: some have a micro-batch less, and those that have most say how many steps that takes.
TEST(PlanChanges, RanksMayHaveOneMicroBatchLess) {
  const std::vector<std::string> flags = {"--world_size", "3", "--effective_batch_size", "16"};
  const FitCandidate run{parsed(flags)};
  EXPECT_FALSE(has_even_shares(run.arguments));
  EXPECT_EQ(micro_batch_sizes(run.arguments), (std::vector<int64_t>{8, 4, 2, 1})) << "8 is its own";
  const auto split = with_micro_batch(run, 2, kOpen);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->flags, (std::vector<std::string>{"--per_device_train_batch_size", "2",
                                                    "--gradient_accumulation_steps", "3"}));
  std::vector<std::string> words = flags;
  words.insert(words.end(), split->flags.begin(), split->flags.end());
  EXPECT_TRUE(parsed(words) == split->arguments);
  EXPECT_FALSE(with_micro_batch(run, 16, kOpen).has_value()) << "more than any rank's share";
  const TrainingArguments even =
      parsed({"--world_size", "4", "--effective_batch_size", "24", "--per_device_train_batch_size", "3"});
  EXPECT_TRUE(has_even_shares(even));
  EXPECT_EQ(micro_batch_sizes(even), (std::vector<int64_t>{6, 3, 2, 1}));
}

TEST(PlanChanges, ATierIsTheMostThatChanges) {
  const FitCandidate run{parsed({})};
  EXPECT_EQ(with_recompute(run, 1, kOpen)->tier, MathsChange::kExact);
  EXPECT_EQ(with_activation_budget(run, "0.5", kOpen)->tier, MathsChange::kExact);
  const auto split = with_micro_batch(run, 2, kOpen);
  EXPECT_EQ(split->tier, MathsChange::kRounding);
  EXPECT_EQ(with_recompute(*split, 1, kOpen)->tier, MathsChange::kRounding);
  EXPECT_EQ(with_update_in_backward(run, kOpen)->tier, MathsChange::kNumerics)
      << "it cannot clip by the whole norm";
  EXPECT_EQ(with_update_in_backward({parsed({"--max_grad_norm", "0"})}, kOpen)->tier, MathsChange::kExact);
  EXPECT_EQ(with_bf16(run, kOpen)->tier, MathsChange::kNumerics);
  EXPECT_EQ(with_adapters(*with_bf16(run, kOpen), 8, kOpen)->tier, MathsChange::kAdapters);
}

TEST(PlanChanges, WhatIsNotAllowedOrHeldIsNotOffered) {
  const FitCandidate run{parsed({"--world_size", "4"})};
  for (const FitCandidate& one : all_changes(run, {{MathsChange::kExact}}))
    EXPECT_EQ(one.tier, MathsChange::kExact);
  for (const FitCandidate& one : all_changes(run, {{MathsChange::kExact, MathsChange::kAdapters}})) {
    EXPECT_FALSE(one.arguments.bf16);
    EXPECT_EQ(one.arguments.optim, run.arguments.optim);
  }
  const size_t most = all_changes(run, kOpen).size();
  for (int i = 0; i < kDegrees; ++i) {
    const auto degree = static_cast<Degree>(i);
    EXPECT_EQ(degree_of(std::string(degree_name(degree)), "--fix"), degree);
    FitSpace space = kOpen;
    space.held = {degree};
    EXPECT_LT(all_changes(run, space).size(), most) << degree_name(degree);
  }
  EXPECT_TRUE(contains(refusal_of([&] { degree_of("speed", "--fix"); }), "batch, order, recompute"));
  EXPECT_TRUE(contains(refusal_of([&] { tier_of("all", "--allow"); }), "exact, rounding, numerics"));
}

TEST(PlanChanges, RanksThatShareWeightsGatherThemInAnyWay) {
  const FitCandidate run{parsed({"--world_size", "4"})};
  const auto shared = with_zero_stage(run, 3, kOpen);
  ASSERT_TRUE(shared.has_value());
  EXPECT_EQ(shared->flags, (std::vector<std::string>{"--zero_stage", "3", "--zero_prefetch_layers", "1",
                                                     "--zero_persistence_threshold", "100000"}));
  EXPECT_FALSE(with_gathering(run, kLeastGathering, kOpen).has_value()) << "nothing is gathered";
  EXPECT_FALSE(with_gathering(*shared, Gathering{}, kOpen).has_value()) << "it is so already";
  const auto least = with_gathering(*shared, kLeastGathering, kOpen);
  ASSERT_TRUE(least.has_value());
  EXPECT_EQ(least->tier, shared->tier);
  EXPECT_EQ(gathering_of(least->arguments), kLeastGathering);
  const auto deepest = [&](bool knows_link) {
    FitSpace space = kOpen;
    space.knows_link = knows_link;
    int64_t layers = 0;
    for (const FitCandidate& form : shared_forms(run, space))
      layers = std::max(layers, gathering_of(form.arguments).prefetch_layers);
    return layers;
  };
  EXPECT_EQ(deepest(false), 1);
  EXPECT_EQ(deepest(true), 2);
}

// A layer-major step is one program with the nodes of every micro-batch.
TEST(PlanChanges, ALayerMajorStepHasAtMost32MicroBatches) {
  const auto accumulated = [](const char* steps) {
    return FitCandidate{parsed({"--gradient_accumulation_steps", steps})};
  };
  EXPECT_TRUE(with_layer_order(accumulated("32"), kOpen).has_value());
  EXPECT_FALSE(with_layer_order(accumulated("33"), kOpen).has_value());
}

TEST(PlanChanges, GroupsOfLayersMayBecomeSingleLayers) {
  const FitCandidate grouped{
      parsed({"--gradient_checkpointing", "--gradient_checkpointing_kwargs", "every_n_layers=3"})};
  const auto single = with_recompute(grouped, 1, kOpen);
  ASSERT_TRUE(single.has_value());
  EXPECT_EQ(single->flags, (std::vector<std::string>{"--gradient_checkpointing_kwargs", "every_n_layers=1"}));
  EXPECT_FALSE(with_recompute(grouped, 2, kOpen).has_value());
  EXPECT_FALSE(with_recompute(*single, 1, kOpen).has_value());
}

// What flags hold.
std::set<Degree> held(const std::vector<std::string>& flags) {
  const ParsedArguments arguments = parse_arguments(Command::kPlan, given(flags));
  return given_degrees(arguments.arguments, [&](std::string_view row) { return arguments.sets(row); });
}

TEST(PlanChanges, WhatTheUserGaveIsHeld) {
  EXPECT_TRUE(held({}).empty());
  EXPECT_EQ(held({"--per_device_train_batch_size", "4"}), std::set{Degree::kBatch});
  EXPECT_EQ(held({"--optim", "adamw_torch"}), std::set{Degree::kOptimizer});
  EXPECT_EQ(held({"--zero_persistence_threshold", "0"}), std::set{Degree::kGathering});
  EXPECT_EQ(held({"--no_gradient_checkpointing"}), std::set{Degree::kRecompute});
  EXPECT_EQ(held({"--activation_budget", "0.5"}), std::set{Degree::kRecompute});
  EXPECT_EQ(held({"--max_grad_norm", "1"}), std::set{Degree::kUpdateInBackward});
  EXPECT_EQ(held({"--max_grad_norm", "0", "--max_grad_value", "1"}), std::set{Degree::kUpdateInBackward});
  EXPECT_TRUE(held({"--max_grad_norm", "0", "--max_grad_value", "0"}).empty()) << "nothing is clipped";
}

// Another name of a flag holds what the flag holds.
TEST(PlanChanges, WhatTheUserGaveByAnotherNameIsHeld) {
  int64_t rewrites = 0;
  for (const ArgumentSpec& row : argument_table()) {
    if (row.rewrite == nullptr || row.status != ArgumentStatus::kSupported) continue;
    std::vector<std::string> texts;
    for (const ArgumentChoice& choice : row.choices) {
      if (choice.why.empty()) texts.emplace_back(choice.value);
    }
    if (texts.empty()) texts = {"true", "false"};
    for (const std::string& text : texts) {
      const std::string flag = fmt::format("--{}={}", row.name, text);
      const std::set<Degree> by_name = held({"--validation_file=v", flag});
      for (const auto& [target, meaning] : row.rewrite(text, {})) {
        const auto is_target = [&](std::string_view other) { return other == target; };
        for (const Degree degree : given_degrees(parsed({"--validation_file=v", flag}), is_target)) {
          EXPECT_TRUE(by_name.contains(degree)) << flag << " is of " << degree_name(degree);
          ++rewrites;
        }
      }
    }
  }
  EXPECT_GT(rewrites, 5);
  EXPECT_EQ(held({"--adafactor"}), std::set{Degree::kOptimizer});
  EXPECT_EQ(held({"--torch_dtype", "float32"}), std::set{Degree::kMasters}) << "--bf16 computes beside it";
  EXPECT_EQ(held({"--dtype", "bfloat16"}), (std::set{Degree::kPrecision, Degree::kMasters}));
}

TEST(PlanChanges, WhatIsForbiddenIsNotAskedFor) {
  check_unused(parsed({"--bf16"}), {Degree::kRecompute, Degree::kAdapters});
  EXPECT_TRUE(contains(refusal_of([&] { check_unused(parsed({"--bf16"}), {Degree::kPrecision}); }),
                       "--forbid precision"));
  EXPECT_TRUE(contains(
      refusal_of([&] { check_unused(parsed({"--gradient_accumulation_steps", "2"}), {Degree::kBatch}); }),
      "--forbid batch"));
}

}  // namespace
}  // namespace shoehorn
