// Programs for several capacities: who runs, that the numbers are those of the largest alone, and that the smaller ones
// take no memory of their own.
#include <gtest/gtest.h>

#include <map>

#include "arguments/step_settings.h"
#include "graph/program_kind.h"
#include "passes/pipeline.h"
#include "session/batching.h"
#include "state/weights.h"
#include "train/evaluation.h"
#include "train/step_runner.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

TEST(BatchBuckets, TheSmallestThatFits) {
  const BatchBuckets buckets({64, 4, 20}, {{32, 4, 20}, {32, 4, 8}, {16, 1, 16}});
  EXPECT_EQ(buckets.size(), 4);
  EXPECT_EQ(buckets.smallest_for({64, 4, 20}), 0);
  EXPECT_EQ(buckets.smallest_for({48, 1, 1}), 0) << "tokens";
  EXPECT_EQ(buckets.smallest_for({32, 4, 9}), 1) << "a sequence is longer";
  EXPECT_EQ(buckets.smallest_for({32, 4, 8}), 2);
  EXPECT_EQ(buckets.smallest_for({16, 2, 8}), 2) << "sequences";
  EXPECT_EQ(buckets.smallest_for({16, 1, 16}), 3);
  EXPECT_EQ(BatchBuckets(BatchCapacity{64, 4, 20}).smallest_for({1, 1, 1}), 0);
  EXPECT_EQ(BatchBuckets().size(), 0) << "no such programs";
}

TEST(BatchBuckets, NoneIsLargerThanTheFirst) {
  for (const BatchCapacity& too_large : {BatchCapacity{80, 4, 20}, {64, 5, 20}, {64, 4, 21}, {16, 0, 16}}) {
    EXPECT_THROW(build_programs(BertForSequenceClassification(tiny_bert()), RunKind::kTrain,
                                BatchBuckets({64, 4, 20}, {too_large}), {}, {}),
                 InternalError);
  }
}

struct BucketSetting {
  const char* name;
  void (*set)(TrainingArguments&);
};

void PrintTo(const BucketSetting& setting, std::ostream* out) {
  *out << setting.name;
}

struct BucketRun {
  std::vector<float> losses;
  NamedWeights weights, first_weights;
  double evaluation_loss = 0;
  std::vector<float> outputs;
  std::map<std::string, int64_t> runs;  // of each program
  int64_t transient_bytes = 0;
  double flops = 0;
};

class Buckets : public testing::TestWithParam<BucketSetting> {
 protected:
  // Four steps, then an evaluation.
  BucketRun train(std::vector<BatchCapacity> smaller_train,
                  std::vector<BatchCapacity> smaller_evaluation) const {
    TrainingArguments args = quiet_arguments(3);
    GetParam().set(args);
    const BertForSequenceClassification model(tiny_bert(0.1F));
    const Dataset dataset = tiny_samples(40, 3);
    const auto windows = make_windows(args, dataset);
    SessionOptions options;
    options.step = step_options_of(args);
    make_room_for(window_needs_of(args, dataset), args, options);
    options.evaluation = batch_capacity_of(dataset, 4, 0);
    options.smaller_train = std::move(smaller_train);
    options.smaller_evaluation = std::move(smaller_evaluation);
    options.executor.poison = true;
    Session session(model, options);
    session.reserve();
    initialize_weights(session.state(), session.executor(), 4);
    BucketRun trained;
    trained.first_weights = weights_of(session);
    trained.transient_bytes = session.plan().device().transient_bytes;
    trained.flops = session.step_flops();
    session.executor().set_observer([&](ProgramId id, size_t node, std::span<const int64_t>) {
      if (node == 0) ++trained.runs[std::string(session.family().program(id).name())];
    });
    StepRunner runner(session);
    Window window;
    windows->start_epoch(0);
    for (int64_t step = 0; step < 4; ++step) {
      EXPECT_TRUE(windows->next_window(window));
      runner.begin({.step = step, .applied_updates = step, .target_weight = window.target_weight});
      for (int64_t m = 0; m < window.micro_batches; ++m) runner.run_micro_batch(*windows, window, m);
      trained.losses.push_back(runner.finish(1e-3).loss);
    }
    trained.weights = weights_of(session);
    trained.evaluation_loss =
        evaluate(session, dataset, model.task(),
                 {.batch_size = 4,
                  .on_outputs =
                      [&](std::span<const float> rows) {
                        trained.outputs.insert(trained.outputs.end(), rows.begin(), rows.end());
                      }})
            .loss.mean;
    return trained;
  }
};

TEST_P(Buckets, HaveTheBitsAndTheMemoryOfTheLargestAlone) {
  const BucketRun one = train({}, {});
  const BucketRun several = train({{48, 3, 20}, {32, 3, 18}}, {{64, 4, 20}, {32, 4, 18}});
  EXPECT_NE(one.weights, one.first_weights) << "no gradient reached a weight";
  EXPECT_EQ(several.losses, one.losses);
  EXPECT_EQ(several.weights, one.weights);
  EXPECT_EQ(several.evaluation_loss, one.evaluation_loss);
  EXPECT_EQ(several.outputs, one.outputs);
  EXPECT_EQ(several.transient_bytes, one.transient_bytes);
  EXPECT_EQ(several.flops, one.flops) << "of a step as large as any";
  // As often, each in programs of its own size.
  std::map<std::string, int64_t> runs;
  int64_t trained = 0, evaluated = 0;  // in smaller programs
  const ProgramTraits& evaluate = traits_of(ProgramKind::kEvaluate);
  for (const auto& [name, times] : several.runs) {
    const std::string kind = name.substr(0, name.find('.'));
    runs[kind] += times;
    if (kind != name) (kind == evaluate.name ? evaluated : trained) += times;
  }
  EXPECT_EQ(runs, one.runs);
  EXPECT_GT(trained, 0);
  EXPECT_GT(evaluated, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Buckets,
    testing::Values(BucketSetting{"fp32", [](TrainingArguments&) {}},
                    BucketSetting{"fp32_unfused", [](TrainingArguments& args) { args.skip_pass = {"fuse"}; }},
                    BucketSetting{"bf16_accumulated",
                                  [](TrainingArguments& args) {
                                    args.bf16 = true;
                                    args.gradient_accumulation_steps = 3;
                                  }},
                    BucketSetting{"fp16_accumulated",
                                  [](TrainingArguments& args) {
                                    args.fp16 = true;
                                    args.loss_scale = 128;
                                    args.gradient_accumulation_steps = 3;
                                  }},
                    BucketSetting{"layer_major_recompute_in_backward",
                                  [](TrainingArguments& args) {
                                    args.gradient_accumulation_steps = 2;
                                    args.accumulation_order = "layer_major";
                                    args.gradient_checkpointing = true;
                                    args.update_in_backward = true;
                                    args.max_grad_norm = 0;
                                  }},
                    BucketSetting{"adapters_8bit",
                                  [](TrainingArguments& args) {
                                    args.lora_rank = 2;
                                    args.lora_dropout = 0.1;
                                    args.optim = "adamw_8bit";
                                    args.neftune_noise_alpha = 5;
                                  }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace shoehorn
