#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/process.h"
#include "io/checkpoint_directory.h"
#include "io/test_directory.h"
#include "session/batching.h"
#include "tasks/confusion_counts.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr int64_t kMebibyte = int64_t{1} << 20;

// Weights and log of a run over 28 samples.
struct Trained {
  NamedWeights weights;
  std::vector<double> losses;
  std::vector<double> norms;
};

Trained train(const TrainingArguments& args, float dropout = 0.1F) {
  const BertForSequenceClassification model(tiny_bert(dropout));
  Trainer trainer(model, args, tiny_samples(28, 5));
  trainer.train();
  return {weights_of(trainer.session()), logged(trainer.state(), "loss"),
          logged(trainer.state(), "grad_norm")};
}

TrainingArguments six_steps() {
  TrainingArguments args = quiet_arguments(8);
  args.max_steps = 6;
  return args;
}

TEST(Trainer, SameSeedSameRun) {
  const Trained first = train(six_steps());
  const Trained second = train(six_steps());
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_TRUE(first.weights == second.weights);
  TrainingArguments other = six_steps();
  other.seed = 43;
  EXPECT_NE(first.losses, train(other).losses);
}

TEST(Trainer, WorkerGivesTheSameBytes) {
  TrainingArguments args = six_steps();
  args.gradient_accumulation_steps = 2;
  const Trained without = train(args);
  args.dataloader_num_workers = 1;
  const Trained with = train(args);
  EXPECT_EQ(without.losses, with.losses);
  EXPECT_EQ(without.norms, with.norms);
  EXPECT_TRUE(without.weights == with.weights);
}

// Weights and samples stay as they are: what changes from step to step is the masks.
TEST(Trainer, EachStepDropsOthers) {
  TrainingArguments args = six_steps();
  args.learning_rate = 0;
  args.per_device_train_batch_size = 8;
  args.train_sampling_strategy = "sequential";  // a mask is of a sample's place in its batch
  args.max_steps = 4;
  const BertForSequenceClassification model(tiny_bert(0.3F));
  Trainer trainer(model, args, tiny_samples(8, 5));
  trainer.train();
  const std::vector<double> losses = logged(trainer.state(), "loss");
  EXPECT_EQ(std::set<double>(losses.begin(), losses.end()).size(), 4U);
}

// Three effective batches of two micro-batches, planned and held where the plan says.
TEST(Trainer, BatchesAheadLieInAnArenaOfTheirOwn) {
  TrainingArguments args = six_steps();
  args.gradient_accumulation_steps = 2;
  const auto arena_bytes = [&args](const char* space) {
    const BertForSequenceClassification model(tiny_bert());
    Trainer trainer(model, args, tiny_samples(48, 5));
    trainer.train();
    EXPECT_EQ(trainer.session().executor().resident_arena_bytes(), trainer.forecast().arena_bytes());
    int64_t bytes = 0;
    for (const ArenaForecast& arena : trainer.forecast().arenas) {
      if (arena.space == space) bytes += arena.bytes;
    }
    return bytes;
  };
  EXPECT_EQ(arena_bytes("pinned host"), 0);
  args.dataloader_num_workers = 1;
  args.dataloader_prefetch_factor = 3;
  const Dataset samples = tiny_samples(48, 5);
  const BatchCapacity capacity = micro_batch_capacity(samples, batch_options(args));
  const int64_t staged = 3 * 2 * micro_batch_bytes(capacity, {LabelKind::kClass});
  EXPECT_EQ(arena_bytes("pinned host"), staged);
  args.dataloader_pin_memory = false;
  EXPECT_EQ(arena_bytes("pinned host"), 0);
  EXPECT_EQ(arena_bytes("pageable host"), staged);
}

// Padding slots belong to no sequence: only the grouping of sums changes. SGD, because AdamW makes whole steps of
// gradients that are rounding alone.
TEST(Trainer, PaddedEqualsPacked) {
  TrainingArguments args = six_steps();
  args.optim = "sgd";
  args.learning_rate = 0.1;
  const Trained packed = train(args, 0);
  args.pad_to_max_length = true;
  args.max_seq_length = 24;
  const Trained padded = train(args, 0);
  ASSERT_EQ(packed.losses.size(), padded.losses.size());
  for (size_t i = 0; i < packed.losses.size(); ++i) {
    // A gradient has the roundings of the forward, of the backward, and of a sum over the tokens of 8 samples;
    // a step adds no more than its own to those that the weights have.
    const double roundings = 2 * kTinyBertRoundings + 8 * 20;
    const auto steps = static_cast<double>(i + 1);
    EXPECT_NEAR(packed.losses[i], padded.losses[i], rounding_error(steps * roundings, packed.losses[i]))
        << "step " << i + 1;
    EXPECT_NEAR(packed.norms[i], padded.norms[i], rounding_error(steps * roundings, packed.norms[i]))
        << "step " << i + 1;
  }
}

TEST(Trainer, LastWindowOfAnEpochMayBeShort) {
  TrainingArguments args = quiet_arguments(8);
  args.num_train_epochs = 2;
  args.gradient_accumulation_steps = 3;
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, args, tiny_samples(28, 5));
  EXPECT_EQ(trainer.train().global_step, 4);  // micro-batches of 8, 8, 8 | 4 an epoch
  EXPECT_EQ(logged(trainer.state(), "epoch"), (std::vector<double>{0.75, 1, 1.75, 2, 2}));
  EXPECT_EQ(trainer.step_seconds().size(), 4U);
  ASSERT_EQ(trainer.step_sizes().size(), 4U);
  EXPECT_EQ(trainer.step_sizes()[0].samples, 24);
  EXPECT_EQ(trainer.step_sizes()[1].samples, 4);
  EXPECT_EQ(trainer.step_sizes()[0].tokens + trainer.step_sizes()[1].tokens,
            tiny_samples(28, 5).token_count());
  args.gradient_accumulation_steps = 1;
  args.dataloader_drop_last = true;
  Trainer dropping(model, args, tiny_samples(28, 5));
  EXPECT_EQ(dropping.train().global_step, 6);
}

TEST(Trainer, LearnsASeparableTask) {
  TrainingArguments args = quiet_arguments(16);
  args.max_steps = 150;
  args.learning_rate = 5e-3;
  args.train_sampling_strategy = "group_by_length";
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Trainer trainer(model, args, tiny_samples(400, 7), tiny_samples(100, 8));
  const double before = metric_number(trainer.evaluate().at("eval_accuracy"));
  const TrainOutput output = trainer.train();
  const Metrics after = trainer.evaluate();
  EXPECT_LT(before, 0.7);
  EXPECT_GT(metric_number(after.at("eval_accuracy")), 0.9);
  EXPECT_LT(logged(trainer.state(), "loss").back(), output.training_loss);
  EXPECT_GT(trainer.seconds_to_first_step(), 0);
}

TEST(Trainer, OwnOptimizerAndGroups) {
  TrainerOptions options;
  options.optimizer = OptimizerOptions{.settings = SgdSettings{.momentum = 0.9}, .weight_decay = 0.5F};
  options.optimizer_groups = {{[](const std::string& name) { return name.starts_with("classifier"); }, 0.25F},
                              {[](const std::string& name) { return name.ends_with("bias"); }, 0.125F}};
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, six_steps(), tiny_samples(28, 5), {}, std::move(options));
  trainer.train();
  for (const Parameter& parameter : trainer.session().state().parameters()) {
    // A parameter of no group keeps what the two standard ones say.
    const float standard = is_decayed(parameter) ? 0.5F : 0.0F;
    const float expected = parameter.name.starts_with("classifier") ? 0.25F
                           : parameter.name.ends_with("bias")       ? 0.125F
                                                                    : standard;
    EXPECT_EQ(parameter.weight_decay, expected) << parameter.name;
  }
  const StateTable& state = trainer.session().state();
  EXPECT_TRUE(state.find_storage("classifier.weight.momentum_buffer").valid());
  EXPECT_FALSE(state.find_storage("classifier.weight.exp_avg").valid());
}

TEST(Trainer, OwnMetrics) {
  TrainerOptions options;
  options.compute_metrics = [](const Score& score) {
    const auto& counts = score_as<ConfusionCounts>(score);
    return Metrics{{"share_of_first", counts.recall(0)}, {"seen", counts.total()}};
  };
  TrainingArguments args = six_steps();
  args.eval_strategy = "steps";
  args.eval_steps = 3;
  args.eval_on_start = true;
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, args, tiny_samples(28, 5), tiny_samples(11, 6), std::move(options));
  trainer.train();
  EXPECT_EQ(logged(trainer.state(), "eval_seen"), (std::vector<double>{11, 11, 11}));
  EXPECT_EQ(logged(trainer.state(), "eval_share_of_first").size(), 3U);
  EXPECT_EQ(logged(trainer.state(), "eval_loss").size(), 3U);
}

TEST(Trainer, EvaluationWithoutTraining) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = quiet_arguments();
  args.per_device_eval_batch_size = 4;
  const Dataset data = tiny_samples(11, 6);
  Trainer trainer(model, args, {}, tiny_samples(11, 6));
  std::vector<float> logits;
  trainer.predict(
      [&](std::span<const float> rows) { logits.insert(logits.end(), rows.begin(), rows.end()); });
  ASSERT_EQ(logits.size(), 33U);
  double loss = 0;
  int64_t right = 0;
  for (int64_t i = 0; i < 11; ++i) {
    const std::span<const float> row = std::span(logits).subspan(static_cast<size_t>(3 * i), 3);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    loss += (std::log(sum) - row[static_cast<size_t>(data.class_label(i))]) / 11;
    right += predicted_class(row) == data.class_label(i) ? 1 : 0;
  }
  const Metrics metrics = trainer.evaluate();
  EXPECT_NEAR(metric_number(metrics.at("eval_loss")), loss, loss_rounding_error(11, loss));
  EXPECT_EQ(metric_number(metrics.at("eval_accuracy")), static_cast<double>(right) / 11);
}

TEST(Trainer, BestModelIsLoadedAtTheEnd) {
  const TestDirectory directory;
  TrainingArguments args = quiet_arguments(8);
  args.output_dir = directory.path().string();
  args.max_steps = 12;
  args.learning_rate = 0.03;  // unsteady, so that the last model is not the best one
  args.eval_strategy = args.save_strategy = "steps";
  args.eval_steps = args.save_steps = 2;
  args.save_total_limit = 1;
  args.load_best_model_at_end = true;
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Trainer trainer(model, args, tiny_samples(28, 5), tiny_samples(20, 6));
  trainer.train();
  const std::vector<double> losses = logged(trainer.state(), "eval_loss");
  ASSERT_EQ(losses.size(), 6U);
  const auto best = std::min_element(losses.begin(), losses.end());
  ASSERT_TRUE(trainer.state().best_metric && trainer.state().best_model_checkpoint);
  EXPECT_EQ(*trainer.state().best_metric, *best);
  const int64_t step = 2 * (best - losses.begin() + 1);
  EXPECT_LT(step, 12) << "the setting should make the last model worse than the best";
  EXPECT_EQ(*trainer.state().best_model_checkpoint,
            (directory.path() / fmt::format("checkpoint-{}", step)).string());
  EXPECT_EQ(metric_number(trainer.evaluate().at("eval_loss")), *best);
  EXPECT_LE(list_checkpoints(directory.path()).size(), 2U);  // the best one and the last
}

TEST(Trainer, SaveTotalLimitKeepsTheNewest) {
  const TestDirectory directory;
  TrainingArguments args = six_steps();
  args.output_dir = directory.path().string();
  args.save_strategy = "steps";
  args.save_steps = 1;
  args.save_total_limit = 2;
  train(args);
  const std::vector<fs::path> left = list_checkpoints(directory.path());
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].filename(), "checkpoint-5");
  EXPECT_EQ(left[1].filename(), "checkpoint-6");
}

TEST(Trainer, SavedModelIsTheTrainedOne) {
  const TestDirectory directory;
  const fs::path companion = directory.write("vocab.txt", "words");
  TrainerOptions options;
  options.companions = {companion};
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, six_steps(), tiny_samples(28, 5), tiny_samples(11, 6), std::move(options));
  trainer.train();
  trainer.save_model(directory.path() / "saved");
  Trainer loaded(model, quiet_arguments(), {}, tiny_samples(11, 6), {.weights = directory.path() / "saved"});
  EXPECT_EQ(metric_number(loaded.evaluate().at("eval_loss")),
            metric_number(trainer.evaluate().at("eval_loss")));
  EXPECT_TRUE(weights_of(loaded.session()) == weights_of(trainer.session()));
  EXPECT_EQ(read_text_file(directory.path() / "saved/vocab.txt"), "words");
}

TEST(Trainer, DataThatIsNotTheModels) {
  const BertForSequenceClassification model(tiny_bert());
  const auto refusal = [&](const Dataset::NamedColumns& columns) {
    return message_of<UserError>(
        [&] { Trainer trainer(model, quiet_arguments(), Dataset::from_columns(columns)); });
  };
  const Dataset::Rows ids = {{1, 2}, {3}};
  EXPECT_TRUE(
      contains(refusal({{"input_ids", Dataset::Rows{{1, 61}, {3}}}, {"labels", std::vector<int64_t>{0, 1}}}),
               "below 61"));
  EXPECT_TRUE(contains(refusal({{"input_ids", ids}, {"labels", std::vector<int64_t>{0, 3}}}), "from 0 to 2"));
  EXPECT_TRUE(
      contains(refusal({{"input_ids", ids}, {"labels", std::vector<double>{0.5, 3}}}),
               "expected one class a sample as label, for single_label_classification, got one number"));
  EXPECT_TRUE(contains(refusal({{"input_ids", Dataset::Rows{std::vector<int64_t>(25, 1)}},
                                {"labels", std::vector<int64_t>{0}}}),
                       "24 tokens"));
  EXPECT_TRUE(contains(refusal({{"input_ids", ids}}), "got samples without labels"));
  EXPECT_NO_THROW(Trainer(model, quiet_arguments(), {}, Dataset::from_columns({{"input_ids", ids}})));
  TrainingArguments args = quiet_arguments();
  args.eval_strategy = "epoch";
  EXPECT_TRUE(contains(message_of<UserError>([&] { Trainer trainer(model, args, tiny_samples(4, 1)); }),
                       "evaluation set"));
}

TEST(Trainer, SummaryAsTheGuidesPrintIt) {
  const BertForSequenceClassification model(tiny_bert());
  Trainer trainer(model, six_steps(), tiny_samples(28, 5));
  std::ostringstream printed;
  print_summary(trainer.train(), printed);
  const std::string summary = printed.str();
  EXPECT_EQ(summary.rfind("Time: ", 0), 0U) << summary;
  EXPECT_TRUE(contains(summary, "\nSamples/second: "));
  EXPECT_TRUE(contains(summary, "\nMemory occupied: "));
  EXPECT_TRUE(summary.ends_with(" MB.\n")) << summary;
}

// About 40 MiB of weights, gradients and optimizer state.
BertConfig wide_bert() {
  BertConfig config = tiny_bert();
  config.vocab_size = 20000;
  config.hidden_size = 120;
  return config;
}

// Lets the kernel count the peak anew, so that earlier tests of this process are not in it.
bool reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
  return process_peak_bytes() < process_resident_bytes() + kMebibyte;
}

TEST(TrainerMemory, PredictedIsMeasured) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  if (!reset_peak()) GTEST_SKIP() << "the peak of a process cannot be reset here";
  const BertForSequenceClassification model(wide_bert());
  Trainer trainer(model, six_steps(), tiny_samples(28, 5));
  EXPECT_LT(process_peak_bytes(),
            trainer.forecast().process_overhead_bytes + trainer.forecast().arena_bytes() / 4)
      << "planning reserves nothing";
  const Metrics metrics = trainer.train().metrics;
  EXPECT_EQ(metrics.at("memory_arena_predicted_bytes"), metrics.at("memory_arena_measured_bytes"));
  const double predicted = metric_number(metrics.at("memory_process_predicted_bytes"));
  EXPECT_NEAR(metric_number(metrics.at("memory_process_measured_bytes")), predicted,
              std::max(0.02 * predicted, 8.0 * kMebibyte));
}

TEST(TrainerMemory, IsBackAfterATrainer) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const BertForSequenceClassification model(wide_bert());
  // The first runs of a process leave pages of libraries and kernels, which are not to count below.
  int64_t before = std::numeric_limits<int64_t>::max() / 2;
  for (const bool is_first : {true, false}) {
    for (const bool bf16 : {false, true}) {
      TrainingArguments args = six_steps();
      args.bf16 = bf16;
      {
        Trainer trainer(model, args, tiny_samples(28, 5));
        trainer.train();
        if (!is_first) {
          EXPECT_GT(process_resident_bytes(), before + 30 * kMebibyte);
        }
      }
      EXPECT_LE(process_resident_bytes(), before + 8 * kMebibyte);
    }
    before = process_resident_bytes();
  }
}

TEST(TrainerMemory, WhatDoesNotFitIsRefused) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const BertForSequenceClassification model(wide_bert());
  TrainingArguments args = six_steps();
  // The first planning of a process leaves pages of libraries and kernels, which are not to count below.
  Trainer(model, args, tiny_samples(28, 5));
  args.memory_budget = process_resident_bytes() + 10 * kMebibyte;
  const int64_t before = process_resident_bytes();
  Trainer trainer(model, args, tiny_samples(28, 5));
  EXPECT_FALSE(trainer.forecast().fits());
  EXPECT_TRUE(contains(message_of<UserError>([&] { trainer.train(); }), "nothing was reserved"));
  EXPECT_FALSE(trainer.session().is_reserved());
  EXPECT_LT(process_resident_bytes(), before + 10 * kMebibyte);
}

}  // namespace
}  // namespace shoehorn
