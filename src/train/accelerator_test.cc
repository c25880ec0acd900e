#include "train/accelerator.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/process.h"
#include "io/test_directory.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

constexpr int64_t kSamples = 28;

// What a run leaves: loss and norm of each step, the weights, and the bytes it took.
struct LoopRun {
  std::vector<double> losses = {};
  std::vector<double> norms = {};
  NamedWeights weights = {};
  int64_t arena_bytes = 0;
  int64_t measured_arena_bytes = 0;
};

LoopRun by_trainer(const Model& model, const TrainingArguments& args) {
  Trainer trainer(model, args, tiny_samples(kSamples, 5));
  trainer.train();
  return {logged(trainer.state(), "loss"), logged(trainer.state(), "grad_norm"),
          weights_of(trainer.session()), trainer.forecast().arena_bytes(),
          trainer.session().executor().resident_arena_bytes()};
}

int64_t steps_of_run(const TrainingArguments& args) {
  const BertForSequenceClassification model(tiny_bert());
  return Trainer(model, args, tiny_samples(kSamples, 5)).steps().max_steps;
}

// The loop that leaves accumulation to the accelerator.
LoopRun by_accumulate(const Model& model, const TrainingArguments& args, int64_t epochs) {
  Accelerator accelerator(args);
  auto [prepared, optimizer, loader, scheduler] =
      accelerator.prepare(model, create_optimizer(args),
                          DataLoader(tiny_samples(kSamples, 5),
                                     {.batch_size = args.per_device_train_batch_size, .shuffle = true}),
                          get_scheduler(args, steps_of_run(args)));
  LoopRun trained{.arena_bytes = accelerator.forecast().arena_bytes()};
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (const Batch& batch : loader) {
      const auto scope = accelerator.accumulate(prepared);
      accelerator.backward(prepared(batch).loss);
      if (args.max_grad_norm > 0) accelerator.clip_grad_norm(args.max_grad_norm);
      if (args.max_grad_value > 0) accelerator.clip_grad_value(args.max_grad_value);
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
      if (!accelerator.sync_gradients()) continue;
      trained.losses.push_back(accelerator.loss());
      if (args.max_grad_norm > 0) trained.norms.push_back(accelerator.grad_norm());
    }
  }
  trained.weights = weights_of(accelerator.session());
  trained.measured_arena_bytes = accelerator.session().executor().resident_arena_bytes();
  return trained;
}

void expect_same(const LoopRun& loop, const LoopRun& trainer) {
  EXPECT_EQ(loop.losses, trainer.losses);
  EXPECT_EQ(loop.norms, trainer.norms);
  EXPECT_TRUE(loop.weights == trainer.weights);
  EXPECT_EQ(loop.arena_bytes, trainer.arena_bytes);
  EXPECT_EQ(loop.measured_arena_bytes, trainer.measured_arena_bytes);
  EXPECT_FALSE(loop.losses.empty());
}

TrainingArguments two_epochs(int64_t batch_size = 4, int64_t accumulation = 3) {
  TrainingArguments args = quiet_arguments(batch_size);
  args.num_train_epochs = 2;
  args.gradient_accumulation_steps = accumulation;
  return args;
}

// 28 samples in micro-batches of 4, three to a step: the last effective batch of each epoch is short.
TEST(Accelerator, LoopIsTheTrainersRun) {
  std::vector<std::pair<const char*, TrainingArguments>> settings = {
      {"micro-batch order", two_epochs()},   {"layer order", two_epochs()},
      {"one micro-batch", two_epochs(8, 1)}, {"bf16, recompute", two_epochs()},
      {"no clipping", two_epochs()},         {"adafactor, cosine", two_epochs()},
      {"cut gradients", two_epochs()}};
  settings[1].second.accumulation_order = "layer_major";
  settings[3].second.bf16 = settings[3].second.gradient_checkpointing = true;
  settings[4].second.max_grad_norm = 0;
  settings[4].second.accumulation_order = "layer_major";
  settings[4].second.update_in_backward = true;
  settings[5].second.optim = "adafactor";
  settings[5].second.lr_scheduler_type = "cosine";
  settings[6].second.max_grad_value = 1e-3;
  settings[5].second.weight_decay = 0.1;
  for (const auto& [name, args] : settings) {
    SCOPED_TRACE(name);
    const BertForSequenceClassification model(tiny_bert(0.1F));
    expect_same(by_accumulate(model, args, 2), by_trainer(model, args));
  }
}

// The guides' loop: the loss is divided, and a step is taken every third micro-batch.
TEST(Accelerator, GuidesLoopIsTheTrainersRun) {
  TrainingArguments args = two_epochs(4, 7);  // one effective batch an epoch
  args.lr_scheduler_type = "constant";
  const BertForSequenceClassification model(tiny_bert(0.1F));
  Accelerator accelerator(args);
  auto [prepared, optimizer, loader] =
      accelerator.prepare(model, create_optimizer(args),
                          DataLoader(tiny_samples(kSamples, 5), {.batch_size = 4, .shuffle = true}));
  EXPECT_EQ(loader.size(), 7);
  LoopRun trained{.arena_bytes = accelerator.forecast().arena_bytes()};
  for (int epoch = 0; epoch < 2; ++epoch) {
    int64_t step = 0;
    for (const Batch& batch : loader) {
      EXPECT_EQ(batch.size(), 4);
      Loss loss = prepared(batch).loss;
      loss = loss / args.gradient_accumulation_steps;
      accelerator.backward(loss);
      if (++step % args.gradient_accumulation_steps == 0) {
        accelerator.clip_grad_norm(args.max_grad_norm);
        optimizer.step();
        optimizer.zero_grad();
        trained.losses.push_back(accelerator.loss());
        trained.norms.push_back(accelerator.grad_norm());
      }
    }
    EXPECT_EQ(step, 7);
  }
  trained.weights = weights_of(accelerator.session());
  trained.measured_arena_bytes = accelerator.session().executor().resident_arena_bytes();
  expect_same(trained, by_trainer(model, args));
}

TEST(Accelerator, OwnOptimizerScheduleAndOrder) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = quiet_arguments();
  args.max_grad_norm = 0;
  Optimizer sgd{.options = {.settings = SgdSettings{.momentum = 0.9}, .weight_decay = 0.5F},
                .learning_rate = 0.25,
                .groups = {{[](const std::string& name) { return name.ends_with("bias"); }, 0.125F}}};
  Accelerator accelerator(args);
  std::vector<int64_t> sizes;
  auto [prepared, optimizer, loader, scheduler] =
      accelerator.prepare(model, sgd, DataLoader(tiny_samples(11, 5), {.batch_size = 4}),
                          [](int64_t step) { return step == 0 ? 0.0 : 0.5; });
  EXPECT_EQ(optimizer.learning_rate(), 0);
  NamedWeights after_first;
  for (const Batch& batch : loader) {
    sizes.push_back(batch.size());
    accelerator.backward(prepared(batch).loss);
    optimizer.step();
    optimizer.zero_grad();
    scheduler.step();
    if (sizes.size() == 1) after_first = weights_of(accelerator.session());
  }
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
  EXPECT_EQ(sizes, (std::vector<int64_t>{4, 4, 3}));
  const StateTable& state = accelerator.session().state();
  EXPECT_TRUE(state.find_storage("classifier.weight.momentum_buffer").valid());
  EXPECT_EQ(state.parameter(state.find_parameter("classifier.bias")).weight_decay, 0.125F);
  EXPECT_EQ(state.parameter(state.find_parameter("classifier.weight")).weight_decay, 0.5F);
  // A first learning rate of 0 leaves the weights as they were initialized.
  Trainer untrained(model, args, {}, tiny_samples(11, 5));
  untrained.evaluate();
  EXPECT_TRUE(after_first == weights_of(untrained.session()));
  EXPECT_FALSE(weights_of(accelerator.session()) == after_first);
}

TEST(Accelerator, ModelAsksForCheckpointing) {
  TrainingArguments args = two_epochs();
  args.gradient_checkpointing = true;
  BertConfig config = tiny_bert(0.1F);
  config.num_hidden_layers = 6;
  BertForSequenceClassification model(config);
  const LoopRun asked_by_arguments = by_trainer(model, args);
  args.gradient_checkpointing = false;
  const LoopRun plain = by_trainer(model, args);
  model.gradient_checkpointing_enable();
  expect_same(by_accumulate(model, args, 2), asked_by_arguments);
  EXPECT_LT(asked_by_arguments.arena_bytes, plain.arena_bytes);
  model.gradient_checkpointing_disable();
  EXPECT_EQ(by_trainer(model, args).arena_bytes, plain.arena_bytes);
  EXPECT_THROW(model.gradient_checkpointing_enable(0), UserError);
}

// A prepared loop over 12 samples, two micro-batches of 3 to a step, to go wrong in.
struct Loop {
  explicit Loop(double max_grad_norm = 0)
      : args(arguments(max_grad_norm)),
        accelerator(args),
        handles(accelerator.prepare(model, create_optimizer(args),
                                    DataLoader(tiny_samples(12, 5), {.batch_size = 3}),
                                    get_scheduler(args, 2))) {}

  static TrainingArguments arguments(double max_grad_norm) {
    TrainingArguments args = quiet_arguments();
    args.gradient_accumulation_steps = 2;
    args.max_grad_norm = max_grad_norm;
    return args;
  }

  const BertForSequenceClassification model{tiny_bert()};
  TrainingArguments args;
  Accelerator accelerator;
  std::tuple<AcceleratedModel, AcceleratedOptimizer, AcceleratedDataLoader, AcceleratedScheduler> handles;
  AcceleratedModel& prepared = std::get<0>(handles);
  AcceleratedOptimizer& optimizer = std::get<1>(handles);
  AcceleratedDataLoader& loader = std::get<2>(handles);
  AcceleratedScheduler& scheduler = std::get<3>(handles);
};

TEST(Accelerator, ALoopThatIsNotThePlannedOneIsRefused) {
  const auto refusal = [](auto body, double max_grad_norm = 0) {
    return message_of<UserError>([&] {
      Loop loop(max_grad_norm);
      int64_t number = 0;
      for (const Batch& batch : loop.loader) body(loop, batch, ++number);
    });
  };
  const auto backward = [](Loop& loop, const Batch& batch) {
    loop.accelerator.backward(loop.prepared(batch).loss / 2);
  };
  const std::vector<std::pair<const char*, std::string>> refusals = {
      {"divided by 2",
       refusal([](Loop& l, const Batch& b, int64_t) { l.accelerator.backward(l.prepared(b).loss); })},
      {"because accumulate() divides", refusal([&](Loop& l, const Batch& b, int64_t) {
         const auto scope = l.accelerator.accumulate(l.prepared);
         backward(l, b);
       })},
      {"got micro-batch 1 of 2 again", refusal([&](Loop& l, const Batch& b, int64_t) {
         backward(l, b);
         backward(l, b);
       })},
      {"expected micro-batch 1 of 2, got 2", refusal([&](Loop& l, const Batch& b, int64_t number) {
         if (number == 2) backward(l, b);
       })},
      {"expected optimizer.step() after the 2 micro-batches",
       refusal([&](Loop& l, const Batch& b, int64_t) { backward(l, b); })},
      {"expected backward of 2 micro-batches, got 1", refusal([&](Loop& l, const Batch& b, int64_t) {
         backward(l, b);
         l.optimizer.step();
       })},
      {"[optimizer.step] expected accelerator.backward()",
       refusal([&](Loop& l, const Batch&, int64_t) { l.optimizer.step(); })},
      {"expected optimizer.zero_grad()", refusal([&](Loop& l, const Batch& b, int64_t number) {
         backward(l, b);
         if (number % 2 == 0) l.optimizer.step();
       })},
      {"[optimizer.zero_grad] expected optimizer.step()", refusal([&](Loop& l, const Batch& b, int64_t) {
         backward(l, b);
         l.optimizer.zero_grad();
       })},
      {"[scheduler.step] expected optimizer.step()", refusal([&](Loop& l, const Batch& b, int64_t) {
         backward(l, b);
         l.scheduler.step();
       })},
      {"expected accelerator.clip_grad_norm(1)", refusal(
                                                     [&](Loop& l, const Batch& b, int64_t number) {
                                                       backward(l, b);
                                                       if (number == 2) l.optimizer.step();
                                                     },
                                                     1)},
      {"expected max_grad_norm 1, which was prepared, got 2", refusal(
                                                                  [&](Loop& l, const Batch& b, int64_t) {
                                                                    backward(l, b);
                                                                    l.accelerator.clip_grad_norm(2);
                                                                  },
                                                                  1)},
      {"expected max_grad_value 0, which was prepared, got 0.5",
       refusal([&](Loop& l, const Batch& b, int64_t) {
         backward(l, b);
         l.accelerator.clip_grad_value(0.5);
       })},
      {"got 1 of 2 micro-batches", refusal(
                                       [&](Loop& l, const Batch& b, int64_t) {
                                         backward(l, b);
                                         l.accelerator.clip_grad_norm(1);
                                       },
                                       1)},
      {"divisor of 1 or more",
       refusal([&](Loop& l, const Batch& b, int64_t) { l.accelerator.backward(l.prepared(b).loss / 0); })},
      {"before its loss", refusal([&](Loop& l, const Batch&, int64_t) { l.accelerator.loss(); })},
      {"called once", refusal([&](Loop& l, const Batch&, int64_t) {
         l.accelerator.prepare(l.model, create_optimizer(l.args), DataLoader(tiny_samples(4, 1)));
       })},
  };
  for (const auto& [expected, message] : refusals) EXPECT_TRUE(contains(message, expected)) << message;
}

TEST(Accelerator, ALossOfAnotherBatchIsRefused) {
  Loop loop;
  std::optional<Loss> first;
  const std::string message = message_of<UserError>([&] {
    for (const Batch& batch : loop.loader) {
      if (first) loop.accelerator.backward(*first / 2);
      first = loop.prepared(batch).loss;
    }
  });
  EXPECT_TRUE(contains(message, "loader's current batch")) << message;
  const std::string early = message_of<UserError>([&] { Accelerator(loop.args).backward(*first); });
  EXPECT_TRUE(contains(early, "prepare() first")) << early;
  loop.args.auto_find_batch_size = true;
  EXPECT_THROW(Accelerator{loop.args}, UserError);
  loop.args.auto_find_batch_size = false;
  loop.args.batch_size_ramp = {"0:" + std::to_string(effective_batch_size(loop.args))};
  const std::string ramp = message_of<UserError>([&] { Accelerator{loop.args}; });
  EXPECT_TRUE(contains(ramp, "[batch_size_ramp] expected none")) << ramp;
}

// Whole effective batches may be passed over, and a loop may be left between two of them.
TEST(Accelerator, EffectiveBatchesMayBeSkipped) {
  Loop loop;
  int64_t number = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const Batch& batch : loop.loader) {
      if (++number <= 2) continue;
      loop.accelerator.backward(loop.prepared(batch).loss / 2);
      if (number % 2 == 1) continue;
      loop.optimizer.step();
      loop.scheduler.step();
      loop.optimizer.zero_grad();
      if (number == 6) break;
    }
  }
  EXPECT_EQ(number, 6);
  EXPECT_GT(loop.accelerator.loss(), 0);
  EXPECT_EQ(loop.optimizer.learning_rate(), 0);  // linear, at its end after two steps
}

TEST(Accelerator, SavesWhatItTrained) {
  const TestDirectory directory;
  TrainingArguments args = quiet_arguments(8);
  const BertForSequenceClassification model(tiny_bert());
  Accelerator accelerator(args);
  auto [prepared, optimizer, loader] =
      accelerator.prepare(model, create_optimizer(args), DataLoader(tiny_samples(16, 5), {.batch_size = 8}));
  for (const Batch& batch : loader) {
    const auto scope = accelerator.accumulate(prepared);
    accelerator.backward(prepared(batch).loss);
    accelerator.clip_grad_norm(1);
    optimizer.step();
    optimizer.zero_grad();
  }
  accelerator.save_model(directory.path() / "saved");
  Accelerator loaded(args, {.weights = directory.path() / "saved"});
  loaded.prepare(model, create_optimizer(args), DataLoader(tiny_samples(16, 5), {.batch_size = 8}));
  loaded.save_model(directory.path() / "again");
  EXPECT_TRUE(weights_of(loaded.session()) == weights_of(accelerator.session()));
}

TEST(AcceleratorMemory, IsBackAfterAnAccelerator) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  BertConfig wide = tiny_bert();
  wide.vocab_size = 20000;
  wide.hidden_size = 120;
  const BertForSequenceClassification model(wide);
  const TrainingArguments args = quiet_arguments(4);
  const int64_t before = process_resident_bytes();
  for (int run = 0; run < 2; ++run) {
    {
      Accelerator accelerator(args);
      auto [prepared, optimizer, loader] = accelerator.prepare(
          model, create_optimizer(args), DataLoader(tiny_samples(8, 5), {.batch_size = 4}));
      for (const Batch& batch : loader) {
        const auto scope = accelerator.accumulate(prepared);
        accelerator.backward(prepared(batch).loss);
        accelerator.clip_grad_norm(1);
        optimizer.step();
        optimizer.zero_grad();
      }
      EXPECT_GT(process_resident_bytes(), before + (int64_t{30} << 20));
    }
    EXPECT_LE(process_resident_bytes(), before + (int64_t{8} << 20));
  }
}

TEST(AcceleratorMemory, WhatDoesNotFitIsRefused) {
  TrainingArguments args = quiet_arguments();
  args.memory_budget = 1 << 20;
  const BertForSequenceClassification model(tiny_bert());
  Accelerator accelerator(args);
  auto [prepared, optimizer, loader] =
      accelerator.prepare(model, create_optimizer(args), DataLoader(tiny_samples(8, 5), {.batch_size = 4}));
  EXPECT_FALSE(accelerator.forecast().fits());
  EXPECT_TRUE(contains(message_of<UserError>([&] { loader.begin(); }), "nothing was reserved"));
}

TEST(DataLoader, DefaultsAreTorchsAndBadOptionsAreRefused) {
  const DataLoader loader(tiny_samples(7, 5));
  EXPECT_EQ(loader.size(), 7);
  EXPECT_EQ(DataLoader(tiny_samples(7, 5), {.batch_size = 3}).size(), 3);
  EXPECT_EQ(DataLoader(tiny_samples(7, 5), {.batch_size = 3, .drop_last = true}).size(), 2);
  EXPECT_THROW(DataLoader(Dataset{}), UserError);
  EXPECT_THROW(DataLoader(tiny_samples(7, 5), {.batch_size = 0}), UserError);
  EXPECT_THROW(DataLoader(tiny_samples(7, 5), {.num_workers = -1}), UserError);
  EXPECT_THROW(DataLoader(tiny_samples(7, 5), {.batch_size = 8, .drop_last = true}), UserError);
}

}  // namespace
}  // namespace shoehorn
