#include "session/memory_alternatives.h"

#include <gtest/gtest.h>

#include "exec/backends.h"
#include "io/test_directory.h"
#include "session/memory_refusal.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::testing;

// Long padded sequences of a small model: activations are most of it, and a share of them far more than the
// rest of a session. Nothing is reserved.
constexpr int64_t kWideSequences = 8;
constexpr int64_t kPaddedLength = 16384;
constexpr BatchCapacity kWide = {kWideSequences * kPaddedLength, kWideSequences, 24};

SessionOptions training(const BatchCapacity& batch) {
  SessionOptions options;
  options.train = batch;
  return options;
}

SessionOptions evaluating(const BatchCapacity& batch) {
  SessionOptions options;
  options.kind = RunKind::kEvaluate;
  options.evaluation = batch;
  return options;
}

int64_t arenas_of(const Model& model, const SessionOptions& options) {
  return Session(model, options).plan().arena_bytes();
}

// A forecast whose arenas may take `budget` bytes, of a process that holds little else.
MemoryForecast forecast_of(Session& session, int64_t budget) {
  MemoryForecast forecast = forecast_memory(session, std::nullopt);
  forecast.process_overhead_bytes = int64_t{4} << 20;
  forecast.budget_bytes = forecast.process_overhead_bytes + budget;
  return forecast;
}

// What an alternative's session, and the allowance for its code, take besides its arenas: more than any of
// these small models has.
constexpr int64_t kOwnSession = int64_t{12} << 20;

std::vector<Alternative> alternatives(const Model& model, const SessionOptions& options, int64_t budget,
                                      const AlternativeScope& scope) {
  Session session(model, options);
  const MemoryForecast forecast = forecast_of(session, budget);
  EXPECT_FALSE(forecast.fits());
  return find_alternatives(model, options, forecast, scope).fitting;
}

bool any_has(const std::vector<Alternative>& found, const std::string& flag) {
  return std::any_of(found.begin(), found.end(),
                     [&](const Alternative& one) { return contains(one.flags, flag); });
}

// 24 million parameters and next to no activations: bytes of a parameter decide.
BertConfig heavy_bert() {
  BertConfig config = tiny_bert();
  config.hidden_size = 768;
  config.intermediate_size = 6144;
  return config;
}

std::vector<std::string> flags_of(const std::vector<Alternative>& found) {
  std::vector<std::string> flags;
  for (const Alternative& one : found) flags.push_back(one.flags);
  return flags;
}

// What fits a heavy model where every parameter may take so many bytes, of 16 with AdamW in fp32: 4 of the
// weight, 4 of the gradient, 8 of the states.
Alternatives with_bytes_a_parameter(double bytes, const StepOptions& step, const AlternativeScope& scope) {
  const BertForSequenceClassification model(heavy_bert());
  SessionOptions options = training({16, 1, 16});
  options.step = step;
  Session session(model, options);
  const auto budget = static_cast<int64_t>(bytes * static_cast<double>(session.parameter_count()));
  return find_alternatives(model, options, forecast_of(session, budget), scope);
}

TEST(MemoryAlternatives, RecomputeOfFewerLayersBecomesThatOfAll) {
  BertConfig config = tiny_bert(0.1F);
  config.num_hidden_layers = 4;
  const BertForSequenceClassification model(config);
  SessionOptions options = training(kWide);
  options.step.recompute_every_n_layers = 1;
  const int64_t least = arenas_of(model, options);
  for (const int64_t layers : {int64_t{2}, kRootOfLayers}) {
    options.step.recompute_every_n_layers = layers;
    ASSERT_GT(arenas_of(model, options), least + kOwnSession);
    const std::vector<Alternative> found =
        alternatives(model, options, least + kOwnSession, {kWideSequences});
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].flags, "--gradient_checkpointing_kwargs every_n_layers=1") << layers;
  }
  options.step.recompute_every_n_layers = 1;
  const std::vector<Alternative> found = alternatives(model, options, least - 1, {kWideSequences});
  EXPECT_FALSE(found.empty());
  EXPECT_FALSE(any_has(found, "gradient_checkpointing")) << "it is on already";
}

// A step in one program that holds more than 32 micro-batches' nodes is neither planned nor offered.
TEST(MemoryAlternatives, LayerMajorHasALimit) {
  const BertForSequenceClassification model(heavy_bert());
  for (const int64_t steps : {32, 33}) {
    SessionOptions options = training({16, 1, 16});
    options.step.gradient_accumulation_steps = steps;
    options.step.recompute_every_n_layers = 1;
    SessionOptions unrolled = options;
    unrolled.step.accumulation_order = AccumulationOrder::kLayer;
    unrolled.step.max_grad_norm = 0;
    unrolled.step.update_in_backward = true;
    const int64_t least = arenas_of(model, unrolled);
    ASSERT_LT(least + 2 * kOwnSession, arenas_of(model, options))
        << "gradients are more than what all micro-batches save";
    const std::vector<Alternative> found = alternatives(model, options, least + 2 * kOwnSession, {});
    EXPECT_EQ(any_has(found, "layer_major"), steps == 32) << steps;
  }
}

TEST(MemoryAlternatives, OrderIsNamedOnce) {
  const BertForSequenceClassification model(heavy_bert());
  SessionOptions options = training({2048, 2, 24});
  options.step.gradient_accumulation_steps = 2;
  const int64_t whole = arenas_of(model, options);
  int64_t recomputed_in_backward = 0;
  for (const int64_t eighths : {4, 6}) {
    for (const Alternative& one : alternatives(model, options, whole * eighths / 8, {2})) {
      EXPECT_EQ(one.flags.find("--accumulation_order"), one.flags.rfind("--accumulation_order")) << one.flags;
      const bool both = contains(one.flags, "update_in_backward") && contains(one.flags, "checkpointing");
      recomputed_in_backward += both ? 1 : 0;
    }
  }
  EXPECT_GT(recomputed_in_backward, 0) << "what has both is among them";
}

TEST(MemoryAlternatives, AnEvaluationIsMadeSmallerByItsOwnFlags) {
  const BertForSequenceClassification model(tiny_bert());
  const SessionOptions options = evaluating(kWide);
  const std::vector<Alternative> found = alternatives(model, options, arenas_of(model, options) * 3 / 5, {8});
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].flags, "--per_device_eval_batch_size 4");
  EXPECT_EQ(found[0].change, MathsChange::kExact);
  for (const Alternative& one : found) {
    for (const char* flag : {"train", "gradient", "max_grad_norm", "update", "master_weights"})
      EXPECT_FALSE(contains(one.flags, flag));
  }
}

// Padded to more than the longest sequence, a batch of half the sequences takes half the tokens and not
// fewer.
TEST(MemoryAlternatives, APaddedEvaluationStaysPadded) {
  const BertForSequenceClassification model(tiny_bert());
  const auto padded = [](int64_t sequences) { return evaluating({sequences * 24, sequences, 3}); };
  const SessionOptions whole = padded(65536);
  const int64_t enough = arenas_of(model, padded(32768));
  ASSERT_LT(arenas_of(model, padded(16384)) + kOwnSession, enough - 1);
  EXPECT_EQ(alternatives(model, whole, enough + kOwnSession, {8})[0].flags,
            "--per_device_eval_batch_size 32768");
  EXPECT_EQ(alternatives(model, whole, enough - 1, {8})[0].flags, "--per_device_eval_batch_size 16384");
}

TEST(MemoryAlternatives, TrainingBesideALargeEvaluation) {
  const BertForSequenceClassification model(tiny_bert());
  const SessionOptions without = training({64, 4, 16});
  SessionOptions options = without;
  options.evaluation = kWide;
  const int64_t all = arenas_of(model, options);
  const int64_t least = arenas_of(model, without);
  ASSERT_LT(2 * least, all) << "evaluation is what needs most";
  const std::vector<Alternative> found = alternatives(model, options, (all + least) / 2, {4});
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found[0].flags.starts_with("--per_device_eval_batch_size ")) << found[0].flags;
  EXPECT_FALSE(contains(found[0].flags, "train_batch"));
}

TEST(MemoryAlternatives, TheDumpIsOfTheRunThatWasAskedFor) {
  const TestDirectory directory;
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options = training(kWide);
  Session session(model, options);
  MemoryForecast forecast = forecast_memory(session, std::nullopt);
  forecast.budget_bytes = forecast.process_bytes() - 1;
  const std::filesystem::path dump = directory.path() / "dump";
  options.step.dump_directory = dump.string();
  EXPECT_FALSE(find_alternatives(model, options, forecast, {kWideSequences}).fitting.empty());
  EXPECT_FALSE(std::filesystem::exists(dump));
}

// Where 16-bit weights are widened for products, the widened copy takes more than these budgets leave.
bool widens_weights() {
  return !make_backend()->machine().has_products_of(DType::kBF16);
}
constexpr const char* kWidens = "this processor's products widen bf16 weights, which takes bytes of its own";

// 11 bytes: neither the type (14) nor the update in the backward (12) is enough, both are (10).
TEST(MemoryAlternatives, TypesAndUpdateInBackwardCombine) {
  if (widens_weights()) GTEST_SKIP() << kWidens;
  const Alternatives found = with_bytes_a_parameter(11, {}, {.keeps_optimizer = true});
  EXPECT_EQ(flags_of(found.fitting),
            (std::vector<std::string>{"--bf16 --master_weights none --max_grad_norm 0 --update_in_backward",
                                      "--lora_rank 8"}));
  EXPECT_EQ(found.fitting[0].change, MathsChange::kNumerics);
  EXPECT_EQ(found.fitting[1].change, MathsChange::kAdapters);
}

// Adafactor takes 8 bytes, bf16 without masters and with 8-bit states 8, 8-bit states in the backward 6.
TEST(MemoryAlternatives, OptimizersAreTriedAloneAndTogether) {
  const Alternatives found = with_bytes_a_parameter(9, {}, {});
  EXPECT_EQ(flags_of(found.fitting),
            (std::vector<std::string>{"--optim adafactor", "--bf16 --master_weights none --optim adamw_8bit",
                                      "--optim adamw_8bit --max_grad_norm 0 --update_in_backward",
                                      "--lora_rank 8"}));
  if (widens_weights()) GTEST_SKIP() << kWidens;
  // 2 bytes of the weights, and the gradient of the largest tensor or of the adapters.
  const Alternatives tight = with_bytes_a_parameter(3.5, {}, {});
  EXPECT_EQ(flags_of(tight.fitting),
            (std::vector<std::string>{
                "--bf16 --master_weights none --optim adafactor --max_grad_norm 0 --update_in_backward",
                "--bf16 --lora_rank 8"}));
}

TEST(MemoryAlternatives, OptimizersThatTakeLessThanTheOneAskedFor) {
  const auto tried = [](const OptimizerSettings& settings, const AlternativeScope& scope = {}) {
    StepOptions step;
    step.optimizer.settings = settings;
    std::vector<std::string> optimizers;
    for (const std::string& flags : with_bytes_a_parameter(1, step, scope).tried) {
      if (flags.starts_with("--optim")) optimizers.push_back(flags);
    }
    return optimizers;
  };
  using Flags = std::vector<std::string>;
  EXPECT_EQ(tried(AdamWSettings{}), (Flags{"--optim adamw_8bit", "--optim adafactor"}));
  EXPECT_EQ(tried(LionSettings{}), (Flags{"--optim lion_8bit", "--optim adafactor"}));
  EXPECT_EQ(tried(AdamW8bitSettings{}), Flags{"--optim adafactor"});
  EXPECT_EQ(tried(SgdSettings{.momentum = 0.9}, {.has_optim_args = true}),
            Flags{"--optim adafactor --optim_args {}"});
  EXPECT_EQ(tried(SgdSettings{}), Flags{});
  EXPECT_EQ(tried(AdafactorSettings{}), Flags{});
  EXPECT_EQ(tried(AdamWSettings{}, {.keeps_optimizer = true}), Flags{});
}

// Without clipping, updates in the backward change no bit.
TEST(MemoryAlternatives, UpdateInBackwardIsExactWithoutClipping) {
  StepOptions step;
  step.max_grad_norm = 0;
  const Alternatives found = with_bytes_a_parameter(13, step, {.keeps_optimizer = true});
  ASSERT_FALSE(found.fitting.empty());
  EXPECT_EQ(found.fitting[0].flags, "--update_in_backward");
  EXPECT_EQ(found.fitting[0].change, MathsChange::kExact);
}

// Precision, optimizer and adapters of a checkpoint stay; the micro-batch and what is recomputed may change.
TEST(MemoryAlternatives, AResumedRunKeepsItsState) {
  EXPECT_TRUE(with_bytes_a_parameter(9, {}, {.keeps_state = true}).fitting.empty());
  const BertForSequenceClassification model(tiny_bert());
  const SessionOptions options = training(kWide);
  const std::vector<Alternative> found =
      alternatives(model, options, arenas_of(model, options) / 4,
                   {.micro_batch_size = kWideSequences, .keeps_state = true});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].change, MathsChange::kRounding);
  EXPECT_TRUE(contains(found[0].flags, "--gradient_accumulation_steps"));
}

// The largest divisor that fits, as trying all of them one after the other would find it.
TEST(MemoryAlternatives, TheLargestMicroBatchThatFits) {
  const BertForSequenceClassification model(tiny_bert());
  SessionOptions options = training(kWide);
  options.step.recompute_every_n_layers = 1;
  for (const int64_t size : {4, 2, 1}) {
    SessionOptions split = training({size * kPaddedLength, size, 24});
    split.step.recompute_every_n_layers = 1;
    split.step.gradient_accumulation_steps = kWideSequences / size;
    const std::vector<Alternative> found =
        alternatives(model, options, arenas_of(model, split) + kOwnSession / 2,
                     {.micro_batch_size = kWideSequences, .keeps_state = true});
    ASSERT_EQ(found.size(), 1U) << size;
    const std::string flag = "--per_device_train_batch_size ";
    ASSERT_TRUE(found[0].flags.starts_with(flag));
    EXPECT_GE(std::stoll(found[0].flags.substr(flag.size())), size);
  }
}

TEST(MemoryAlternatives, FitAndCostLeastFirst) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  const SessionOptions options = training(kWide);
  Session session(model, options);
  for (const double share : {0.9, 0.5, 0.3}) {
    const auto budget = static_cast<int64_t>(share * static_cast<double>(session.plan().arena_bytes()));
    const MemoryForecast forecast = forecast_of(session, budget);
    const std::vector<Alternative> found =
        find_alternatives(model, options, forecast, {kWideSequences}).fitting;
    ASSERT_FALSE(found.empty()) << share;
    EXPECT_LE(found[0].change, MathsChange::kRounding);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(found[i].process_peak_bytes, forecast.budget_bytes) << found[i].flags;
      EXPECT_TRUE(found[i].flags.starts_with("--")) << found[i].flags;
      EXPECT_TRUE(i == 0 || found[i - 1].change <= found[i].change) << found[i].flags;
    }
  }
}

TEST(MemoryRefusal, SaysByHowMuchAndWhatWouldFit) {
  const BertForSequenceClassification model(tiny_bert(0.1F));
  const SessionOptions options = training(kWide);
  Session session(model, options);
  MemoryForecast forecast = forecast_of(session, session.plan().arena_bytes() / 2);
  forecast.limit = {MemoryLimitKind::kBudget, {}, forecast.budget_bytes, forecast.budget_bytes};
  const std::string refusal =
      format_refusal(forecast, find_alternatives(model, options, forecast, {kWideSequences}));
  for (const char* part :
       {"[memory] expected a plan of at most", "(--memory_budget)", "too much; nothing was reserved",
        "Fits, with the same sums in another order:", "Fits, with other numbers:"}) {
    EXPECT_TRUE(contains(refusal, part));
  }
  forecast.budget_bytes = 1 << 20;
  const Alternatives none = find_alternatives(model, options, forecast, {kWideSequences});
  EXPECT_TRUE(none.fitting.empty());
  ASSERT_TRUE(none.least.has_value());
  const std::string in_vain = format_refusal(forecast, none);
  for (const char* part :
       {"Nothing that was tried fits", "--optim adamw_8bit", "--optim adafactor", "--lora_rank 8",
        "--bf16 --master_weights none", "--update_in_backward", "--gradient_checkpointing",
        "--per_device_train_batch_size down to 1", "The least was "}) {
    EXPECT_TRUE(contains(in_vain, part));
  }
  EXPECT_TRUE(contains(none.least->flags, "--per_device_train_batch_size 1 ")) << none.least->flags;
}

// Other processes are named where the plan would fit without them.
TEST(MemoryRefusal, OtherProcessesOnlyWhereTheyBind) {
  const std::string others = "Other processes that hold memory:";
  MemoryForecast forecast;
  forecast.process_overhead_bytes = 1000;
  forecast.budget_bytes = 900;
  const auto refusal = [&](MemoryLimitKind kind, int64_t limit_bytes) {
    forecast.limit = {kind, {}, limit_bytes, 900};
    return format_refusal(forecast, {});
  };
  EXPECT_TRUE(contains(refusal(MemoryLimitKind::kMachine, 1000), others));
  EXPECT_FALSE(contains(refusal(MemoryLimitKind::kMachine, 999), others)) << "alone it would not fit either";
  for (const MemoryLimitKind kind :
       {MemoryLimitKind::kBudget, MemoryLimitKind::kAddressSpace, MemoryLimitKind::kDataSegment})
    EXPECT_FALSE(contains(refusal(kind, 1000), others)) << memory_limit_name(kind);
}

}  // namespace
}  // namespace shoehorn
