#include "fit/memory_alternatives.h"

#include <gtest/gtest.h>

#include "arguments/argument_table.h"
#include "arguments/flag_words.h"
#include "exec/backends.h"
#include "fit/memory_refusal.h"
#include "io/test_directory.h"
#include "train/planned_run.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// Long padded sequences of a small model: activations are most of it, and a share of them far more than the
// rest of a session. Nothing is reserved.
constexpr int64_t kWideSequences = 8;
constexpr const char* kPaddedLength = "16384";

// A run of a model, to be planned.
class AskedRun {
 public:
  // `training` and `evaluation`: sequences, and their tokens.
  struct Samples {
    int64_t count = 0, length = 0;
  };

  AskedRun(const BertConfig& config, Samples training, Samples evaluation, std::vector<std::string> flags)
      : model_(config) {
    if (training.count > 0) training_ = Dataset::alike(training.count, training.length);
    if (evaluation.count > 0) evaluation_ = Dataset::alike(evaluation.count, evaluation.length);
    flags.insert(flags.begin(), {"--model_name_or_path", "bert"});
    args_ = parse_arguments(Command::kPlan, flags).arguments;
  }

  TrainingArguments& args() { return args_; }

  SessionOptions options() const { return options_of(args_); }
  int64_t arena_bytes() const { return Session(model_, options()).plan().arena_bytes(); }
  int64_t parameters() const { return Session(model_, options()).parameter_count(); }

  // A forecast whose arenas may take `budget` bytes, of a process that holds little else.
  MemoryForecast forecast(int64_t budget) const {
    Session session(model_, options());
    MemoryForecast forecast = forecast_memory(session, std::nullopt);
    forecast.process_overhead_bytes = int64_t{4} << 20;
    forecast.budget_bytes = forecast.process_overhead_bytes + budget;
    return forecast;
  }

  Alternatives alternatives(int64_t budget, const AlternativeScope& scope = {}) const {
    return alternatives(forecast(budget), scope);
  }
  Alternatives alternatives(const MemoryForecast& forecast, const AlternativeScope& scope = {}) const {
    return find_alternatives(
        model_, [this](const TrainingArguments& args) { return options_of(args); }, args_, forecast, scope);
  }

 private:
  SessionOptions options_of(const TrainingArguments& args) const {
    return session_options_of(model_, args, {&training_, &evaluation_});
  }

  BertForSequenceClassification model_;
  Dataset training_, evaluation_;
  TrainingArguments args_;
};

using Flags = std::vector<std::string>;

// Trains wide batches.
AskedRun wide(const BertConfig& config, const Flags& flags = {}) {
  return {config,
          {kWideSequences, 24},
          {},
          joined({"--per_device_train_batch_size", std::to_string(kWideSequences), "--pad_to_max_length",
                  "--max_seq_length", kPaddedLength},
                 flags)};
}

// What an alternative's session, and the allowance for its code, take besides its arenas: more than any of
// these small models has.
constexpr int64_t kOwnSession = int64_t{12} << 20;

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

// Values between layers are most of it.
BertConfig deep_bert() {
  BertConfig config = tiny_bert(0.1F);
  config.num_hidden_layers = 6;
  return config;
}

AskedRun heavy(const Flags& flags = {}, int64_t sequences = 1) {
  return {heavy_bert(), {sequences, 16}, {}, joined({"--per_device_train_batch_size", "1"}, flags)};
}

Flags flags_of(const std::vector<Alternative>& found) {
  Flags flags;
  for (const Alternative& one : found) flags.push_back(one.flags);
  return flags;
}

// What fits a heavy model where every parameter may take so many bytes, of 16 with AdamW in fp32: 4 of the
// weight, 4 of the gradient, 8 of the states.
Alternatives with_bytes_a_parameter(double bytes, const Flags& flags = {},
                                    const AlternativeScope& scope = {}) {
  const AskedRun run = heavy(flags);
  return run.alternatives(static_cast<int64_t>(bytes * static_cast<double>(run.parameters())), scope);
}

// Stages below that of the run hold more; those above it hold less.
TEST(MemoryAlternatives, OnlyStagesThatShareMoreAreLookedInto) {
  constexpr double kStateOfTwoRanksAndMore = 10.5;  // of the 16 bytes: with the states of AdamW shared by two
  const Alternatives found =
      with_bytes_a_parameter(kStateOfTwoRanksAndMore, {"--world_size", "2", "--zero_stage", "2"});
  const auto tries = [&](const std::string& flag) {
    return std::ranges::any_of(found.tried,
                               [&](const std::string& flags) { return flags.starts_with(flag); });
  };
  EXPECT_TRUE(tries("--zero_stage 3"));
  EXPECT_FALSE(tries("--zero_stage 1"));
  EXPECT_FALSE(any_has(found.fitting, "--zero_stage 1"));
  const Alternatives of_all = with_bytes_a_parameter(kStateOfTwoRanksAndMore, {"--world_size", "2"});
  EXPECT_TRUE(any_has(of_all.fitting, "--zero_stage 1"));
}

TEST(MemoryAlternatives, RecomputeOfFewerLayersBecomesThatOfAll) {
  BertConfig config = tiny_bert(0.1F);
  config.num_hidden_layers = 4;
  const AskedRun all = wide(config, {"--gradient_checkpointing"});
  const int64_t least = all.arena_bytes();
  for (const char* layers : {"every_n_layers=2", "every_n_layers=3"}) {
    const AskedRun run =
        wide(config, {"--gradient_checkpointing", "--gradient_checkpointing_kwargs", layers});
    ASSERT_GT(run.arena_bytes(), least + kOwnSession);
    const std::vector<Alternative> found = run.alternatives(least + kOwnSession).fitting;
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].flags, "--gradient_checkpointing_kwargs every_n_layers=1") << layers;
    EXPECT_EQ(found[0].change, MathsChange::kExact);
  }
  const std::vector<Alternative> found = all.alternatives(least - 1).fitting;
  EXPECT_FALSE(found.empty());
  EXPECT_FALSE(any_has(found, "gradient_checkpointing")) << "it is on already";
}

TEST(MemoryAlternatives, OrderIsNamedOnce) {
  const AskedRun run(heavy_bert(), {4, 24}, {},
                     {"--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2",
                      "--pad_to_max_length", "--max_seq_length", "1024"});
  const int64_t whole = run.arena_bytes();
  int64_t ordered = 0;
  for (const int64_t eighths : {3, 4, 5, 6, 7}) {
    for (const Alternative& one : run.alternatives(whole * eighths / 8).fitting) {
      EXPECT_EQ(one.flags.find("--accumulation_order"), one.flags.rfind("--accumulation_order")) << one.flags;
      ordered += contains(one.flags, "--accumulation_order layer_major --update_in_backward") ? 1 : 0;
    }
  }
  EXPECT_GT(ordered, 0) << "what has both is among them";
}

TEST(MemoryAlternatives, AnEvaluationIsMadeSmallerByItsOwnFlags) {
  const AskedRun run(
      tiny_bert(), {}, {kWideSequences, 24},
      {"--per_device_eval_batch_size", "8", "--pad_to_max_length", "--max_seq_length", kPaddedLength});
  const std::vector<Alternative> found = run.alternatives(run.arena_bytes() * 3 / 5).fitting;
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].flags, "--per_device_eval_batch_size 4");
  EXPECT_EQ(found[0].change, MathsChange::kRounding);
  EXPECT_FALSE(found[0].relative_seconds.has_value()) << "there is no step";
  for (const Alternative& one : found) {
    for (const char* flag : {"train", "gradient", "max_grad_norm", "update", "master_weights"})
      EXPECT_FALSE(contains(one.flags, flag)) << one.flags;
  }
  const Alternatives none = run.alternatives(1);
  EXPECT_TRUE(none.fitting.empty());
  ASSERT_TRUE(none.least.has_value());
  EXPECT_TRUE(contains(none.least->flags, "--per_device_eval_batch_size 1")) << none.least->flags;
}

// Padded to more than the longest sequence, a batch of half the sequences takes half the tokens and not
// fewer.
TEST(MemoryAlternatives, APaddedEvaluationStaysPadded) {
  const auto padded = [](const char* sequences) {
    return AskedRun(
        tiny_bert(), {}, {65536, 3},
        {"--per_device_eval_batch_size", sequences, "--pad_to_max_length", "--max_seq_length", "24"});
  };
  const AskedRun whole = padded("65536");
  const int64_t enough = padded("32768").arena_bytes();
  ASSERT_LT(padded("16384").arena_bytes() + kOwnSession, enough - 1);
  EXPECT_EQ(whole.alternatives(enough + kOwnSession).fitting[0].flags, "--per_device_eval_batch_size 32768");
  EXPECT_EQ(whole.alternatives(enough - 1).fitting[0].flags, "--per_device_eval_batch_size 16384");
}

TEST(MemoryAlternatives, TrainingBesideALargeEvaluation) {
  const AskedRun::Samples training = {4, 16};
  const Flags flags = {"--per_device_train_batch_size", "4"};
  const int64_t least = AskedRun(tiny_bert(), training, {}, flags).arena_bytes();
  const AskedRun run(tiny_bert(), training, {1 << 15, 24},
                     joined(flags, {"--per_device_eval_batch_size", std::to_string(1 << 15)}));
  const int64_t all = run.arena_bytes();
  ASSERT_LT(2 * least, all) << "evaluation is what needs most";
  const std::vector<Alternative> found = run.alternatives((all + least) / 2).fitting;
  ASSERT_FALSE(found.empty());
  EXPECT_TRUE(found[0].flags.starts_with("--per_device_eval_batch_size ")) << found[0].flags;
  EXPECT_FALSE(contains(found[0].flags, "train_batch"));
}

TEST(MemoryAlternatives, TheDumpIsOfTheRunThatWasAskedFor) {
  const TestDirectory directory;
  const AskedRun asked = wide(tiny_bert());
  const MemoryForecast forecast = asked.forecast(asked.arena_bytes() - 1);
  const std::filesystem::path dump = directory.path() / "dump";
  const AskedRun dumping = wide(tiny_bert(), {"--dump_program", dump.string()});
  EXPECT_FALSE(dumping.alternatives(forecast).fitting.empty());
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
            (Flags{"--bf16 --master_weights none --update_in_backward --max_grad_norm 0", "--lora_rank 8"}));
  EXPECT_EQ(found.fitting[0].change, MathsChange::kNumerics);
  EXPECT_EQ(found.fitting[1].change, MathsChange::kAdapters);
}

// Adafactor takes 8 bytes, bf16 without masters and with 8-bit states 8, 8-bit states in the backward 6.
TEST(MemoryAlternatives, OptimizersAreTriedAloneAndTogether) {
  const Alternatives found = with_bytes_a_parameter(9);
  EXPECT_EQ(flags_of(found.fitting),
            (Flags{"--optim adamw_8bit --update_in_backward --max_grad_norm 0", "--optim adafactor",
                   "--bf16 --master_weights none --optim adamw_8bit", "--lora_rank 8"}));
  if (widens_weights()) GTEST_SKIP() << kWidens;
  // 2 bytes of the weights, and the gradient of the largest tensor or of the adapters.
  const Alternatives tight = with_bytes_a_parameter(3.5);
  EXPECT_EQ(flags_of(tight.fitting),
            (Flags{"--bf16 --master_weights none --optim adafactor --update_in_backward --max_grad_norm 0",
                   "--bf16 --lora_rank 8"}));
}

TEST(MemoryAlternatives, OptimizersThatTakeLessThanTheOneAskedFor) {
  const auto tried = [](const Flags& flags, const AlternativeScope& scope = {}) {
    Flags optimizers;
    for (const std::string& one : with_bytes_a_parameter(1, flags, scope).tried) {
      if (one.starts_with("--optim")) optimizers.push_back(one);
    }
    return optimizers;
  };
  EXPECT_EQ(tried({}), (Flags{"--optim adamw_8bit", "--optim adafactor"}));
  EXPECT_EQ(tried({"--optim", "lion_32bit"}), (Flags{"--optim lion_8bit", "--optim adafactor"}));
  EXPECT_EQ(tried({"--optim", "adamw_8bit"}), Flags{"--optim adafactor"});
  EXPECT_EQ(tried({"--optim", "sgd", "--optim_args", "momentum=0.9"}),
            Flags{"--optim adafactor --optim_args '{}'"});
  EXPECT_EQ(tried({"--optim", "sgd"}), Flags{});
  EXPECT_EQ(tried({"--optim", "adafactor"}), Flags{});
  EXPECT_EQ(tried({}, {.keeps_optimizer = true}), Flags{});
}

// Without clipping, updates in the backward change no bit.
TEST(MemoryAlternatives, UpdateInBackwardIsExactWithoutClipping) {
  const Alternatives found = with_bytes_a_parameter(13, {"--max_grad_norm", "0"}, {.keeps_optimizer = true});
  ASSERT_FALSE(found.fitting.empty());
  EXPECT_EQ(found.fitting[0].flags, "--update_in_backward");
  EXPECT_EQ(found.fitting[0].change, MathsChange::kExact);
}

// Precision, optimizer and adapters of a checkpoint stay; the micro-batch and what is recomputed may change.
TEST(MemoryAlternatives, AResumedRunKeepsItsState) {
  EXPECT_TRUE(with_bytes_a_parameter(9, {}, {.keeps_state = true}).fitting.empty());
  const AskedRun run = wide(tiny_bert());
  const std::vector<Alternative> found =
      run.alternatives(run.arena_bytes() / 4, {.keeps_state = true}).fitting;
  ASSERT_FALSE(found.empty());
  for (const Alternative& one : found) EXPECT_LE(one.change, MathsChange::kRounding) << one.flags;
  for (const char* flag : {"bf16", "optim", "lora", "master_weights", "update_in_backward"})
    EXPECT_FALSE(any_has(found, flag)) << flag;
  EXPECT_TRUE(any_has(found, "--gradient_accumulation_steps"));
}

// The largest divisor that fits, as trying all of them one after the other would find it.
TEST(MemoryAlternatives, TheLargestMicroBatchThatFits) {
  const AskedRun run = wide(tiny_bert(), {"--gradient_checkpointing"});
  for (const int64_t size : {4, 2, 1}) {
    const AskedRun split =
        wide(tiny_bert(), {"--gradient_checkpointing", "--per_device_train_batch_size", std::to_string(size),
                           "--gradient_accumulation_steps", std::to_string(kWideSequences / size)});
    const std::vector<Alternative> found =
        run.alternatives(split.arena_bytes() + kOwnSession / 2, {.keeps_state = true}).fitting;
    ASSERT_EQ(found.size(), 1U) << size;
    const std::string flag = "--per_device_train_batch_size ";
    ASSERT_TRUE(found[0].flags.starts_with(flag));
    EXPECT_GE(std::stoll(found[0].flags.substr(flag.size())), size);
  }
}

TEST(MemoryAlternatives, FitAndCostLeastFirst) {
  const AskedRun run = wide(tiny_bert(0.1F));
  for (const double share : {0.9, 0.5, 0.3}) {
    const auto budget = static_cast<int64_t>(share * static_cast<double>(run.arena_bytes()));
    const MemoryForecast forecast = run.forecast(budget);
    ASSERT_FALSE(forecast.fits());
    const std::vector<Alternative> found = run.alternatives(forecast).fitting;
    ASSERT_FALSE(found.empty()) << share;
    EXPECT_LE(found[0].change, MathsChange::kRounding);
    for (size_t i = 0; i < found.size(); ++i) {
      // Its own process may hold a little more than this one besides its arenas.
      EXPECT_LE(found[i].process_peak_bytes, forecast.budget_bytes - forecast.process_overhead_bytes / 8)
          << found[i].flags;
      EXPECT_TRUE(found[i].flags.starts_with("--")) << found[i].flags;
      EXPECT_TRUE(i == 0 || found[i - 1].change <= found[i].change) << found[i].flags;
      EXPECT_GT(found[i].relative_seconds.value_or(0), 0.1) << found[i].flags;
    }
  }
}

// What a refusal offers first is what `fit` chooses with the same changes allowed.
TEST(MemoryAlternatives, AreThoseOfTheSearchOfFit) {
  const AskedRun run = wide(deep_bert());
  const MemoryForecast forecast = run.forecast(run.arena_bytes() * 3 / 4);
  const std::vector<Alternative> found = run.alternatives(forecast).fitting;
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].change, MathsChange::kExact);
  EXPECT_TRUE(contains(found[0].flags, "--activation_budget")) << found[0].flags;
}

TEST(MemoryRefusal, SaysByHowMuchAndWhatWouldFit) {
  const AskedRun run = wide(deep_bert());
  MemoryForecast forecast = run.forecast(run.arena_bytes() * 3 / 4);
  forecast.limit = {MemoryLimitKind::kBudget, {}, forecast.budget_bytes, forecast.budget_bytes};
  const std::string refusal = format_refusal(forecast, run.alternatives(forecast));
  for (const char* part :
       {"[memory] expected a plan of at most", "(--memory_budget)", "too much; nothing was reserved",
        "\nMost is alive in train, at ",
        " of train_step; `shoehorn fit --why` with the same flags says what.",
        "Fits, with the same numbers:", "Fits, with other numbers:", "%  --", "as asked for"}) {
    EXPECT_TRUE(contains(refusal, part)) << refusal;
  }
  forecast.budget_bytes = 1 << 20;
  const Alternatives none = run.alternatives(forecast);
  EXPECT_TRUE(none.fitting.empty());
  ASSERT_TRUE(none.least.has_value());
  const std::string in_vain = format_refusal(forecast, none);
  for (const char* part :
       {"Nothing that was tried fits", "--optim adamw_8bit", "--optim adafactor", "--lora_rank 8",
        "--bf16 --master_weights none", "--update_in_backward", "--gradient_checkpointing",
        "--per_device_train_batch_size down to 1", "The least was "}) {
    EXPECT_TRUE(contains(in_vain, part)) << in_vain;
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
