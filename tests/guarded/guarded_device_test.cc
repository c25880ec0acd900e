// What the guarded device is, and training runs on it: the bits of the CPU's own, with checkpoints that either
// goes on from. The toy programs of the conformance tests run on it too, in this program.
#include "guarded_device.h"

#include <gtest/gtest.h>

#include "exec/backends.h"
#include "exec/executor_testing.h"
#include "exec/host_view.h"
#include "io/file.h"
#include "io/test_directory.h"
#include "ops/op_builder.h"
#include "train/accelerator.h"
#include "train/test_support.h"
#include "train/text_data.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

std::byte read_byte(const std::byte* address) {
  return *const_cast<const volatile std::byte*>(address);
}

void write_byte(std::byte* address) {
  *const_cast<volatile std::byte*>(address) = std::byte{1};
}

TEST(GuardedDeviceDeathTest, TheHostFaultsOnTheDevicesMemory) {
  const GuardedDevice device(1);
  const auto arena = device.reserve(AddressSpace::kDevice, 10000);
  EXPECT_EQ(arena->host(), nullptr);
  EXPECT_EQ(arena->resident_bytes(), 10000);
  for (const int64_t at : {0, 4096, 9999}) {
    EXPECT_DEATH(read_byte(arena->address() + at), "");
    EXPECT_DEATH(write_byte(arena->address() + at), "");
  }
  const auto pinned = device.reserve(AddressSpace::kPinnedHost, 100);
  ASSERT_EQ(pinned->host(), pinned->address());
  write_byte(pinned->host());
}

TEST(GuardedDeviceDeathTest, CopiesReachItWhenTheyAreWaitedFor) {
  const GuardedDevice device(1);
  const auto arena = device.reserve(AddressSpace::kDevice, 100);
  const auto stream = device.make_stream();
  const auto done = device.make_event();
  done->wait();  // never recorded: nothing to wait for
  std::vector<std::byte> there(100, std::byte{7});
  std::vector<std::byte> back(100);
  device.copy_from_host(there, arena->address(), *stream);
  device.fill(arena->address() + 50, 50, std::byte{9}, *stream);
  device.copy_to_host(arena->address(), back, *stream);
  stream->record(*done);
  EXPECT_EQ(back[0], std::byte{0}) << "nothing runs before somebody waits";
  done->wait();
  EXPECT_EQ(back[49], std::byte{7});
  EXPECT_EQ(back[50], std::byte{9});
  EXPECT_DEATH(read_byte(arena->address()), "") << "closed again";
}

TEST(GuardedDevice, AStreamThatWaitsForAnotherMakesItRun) {
  const GuardedDevice device(1);
  const auto arena = device.reserve(AddressSpace::kDevice, 10);
  const auto first = device.make_stream();
  const auto second = device.make_stream();
  const auto filled = device.make_event();
  const auto done = device.make_event();
  std::vector<std::byte> back(10);
  device.fill(arena->address(), 10, std::byte{3}, *first);
  first->record(*filled);
  device.fill(arena->address(), 10, std::byte{4}, *first);
  second->wait(*filled);
  device.copy_to_host(arena->address(), back, *second);
  second->record(*done);
  done->wait();
  EXPECT_EQ(back[0], std::byte{3}) << "what comes behind the event has not run";
}

// A copy of another lane that would begin at once reads what lane 0 has yet to make.
TEST(GuardedLanes, ACopyBeginsWhenLane0HasDoneWhatStandsBeforeIt) {
  const GuardedDevice device(1, GuardedStreams::kEager);
  const TensorType vector = {DType::kF32, {48}};
  StateTable state;
  const StorageId input = state.add_storage({"input", vector, Role::kInput, {}, {}});
  std::vector<Program> programs;
  programs.emplace_back(ProgramKind::kTrainStep, &state);
  OpBuilder builder(programs[0]);
  const ValueId x = programs[0].read_state(input);
  const ValueId sum = builder.value(OpKind::kAdd, {x, x}, {}, "sum");
  const NodeId copy = builder.add(OpKind::kCopy, {sum}, CopyAttributes{AddressSpace::kHost}, "copy");
  programs[0].node(copy).lane = 1;
  const ValueId sent = programs[0].node(copy).outputs[0];
  programs[0].add_result("sent", sent);
  const MemoryPlan plan = plan_memory(state, programs, device);
  Executor executor(state, programs, plan, device);
  set_values(executor, input, std::vector<float>(48, 1));
  executor.run(ProgramId{0}, {});
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, sent), std::vector<float>(48, 2));
}

// Two states of 16 numbers on a device whose streams run nothing before somebody waits.
class GuardedWrites : public testing::Test {
 protected:
  static constexpr int64_t kBytes = 64;

  GuardedWrites() {
    for (const char* name : {"a", "b"})
      storages_.push_back(state_.add_storage({name, {DType::kF32, {16}}, Role::kWeight, {}, {}}));
    const StorageId staging = add_host_staging(state_, device_.machine(), 4 * kBytes);
    plan_ = plan_memory(state_, programs_, device_);
    executor_.emplace(state_, programs_, plan_, device_, ExecutorOptions{.host_staging = staging});
  }
  static void fill(std::span<float> values, float value) { std::fill(values.begin(), values.end(), value); }
  std::vector<float> values(size_t i) { return values_of<float>(*executor_, storages_[i]); }

  const GuardedDevice device_{1};
  StateTable state_;
  std::vector<StorageId> storages_;
  std::vector<Program> programs_;
  MemoryPlan plan_;
  std::optional<Executor> executor_;
};

TEST_F(GuardedWrites, SendingDoesNotWait) {
  WriteView view(*executor_, storages_[0], 0, kBytes);
  fill(view.as<float>(), 1);
  view.send();
  fill(view.as<float>(), 2);  // too early: the copy has not begun
  EXPECT_EQ(values(0), std::vector<float>(16, 2));
  fill(view.as<float>(), 3);
  view.send();
  view.wait_until_free();
  fill(view.as<float>(), 4);
  EXPECT_EQ(values(0), std::vector<float>(16, 3));
}

TEST_F(GuardedWrites, APieceIsHandedOutAgainWhenItsCopyIsDone) {
  for (size_t i = 0; i < 2; ++i) {
    WriteView view(*executor_, storages_[i], 0, kBytes);
    fill(view.as<float>(), static_cast<float>(i) + 1);
    view.send();
  }
  EXPECT_EQ(values(0), std::vector<float>(16, 1));
  EXPECT_EQ(values(1), std::vector<float>(16, 2));
}

// More of them than there are pieces, and than copies may be under way.
TEST_F(GuardedWrites, WhatIsWrittenIsTheCallersAgain) {
  std::vector<float> value(1);
  for (int i = 0; i < 100; ++i) {
    value[0] = static_cast<float>(i);
    executor_->write(storages_[static_cast<size_t>(i) % 2], i % 16 * 4, std::as_bytes(std::span(value)));
  }
  value[0] = -1;
  for (size_t i = 0; i < 100; ++i) {
    if (i + 16 < 100) continue;  // overwritten since
    EXPECT_EQ(values(i % 2)[i % 16], static_cast<float>(i)) << i;
  }
}

TEST_F(GuardedWrites, WithoutRoomTheWriterWaits) {
  const WriteView all(*executor_, storages_[0], 0, kBytes);
  const WriteView more(*executor_, storages_[0], 0, kBytes);
  const WriteView most(*executor_, storages_[0], 0, kBytes);
  const WriteView rest(*executor_, storages_[0], 0, kBytes);
  std::vector<float> value(16, 7);
  executor_->write(storages_[1], 0, std::as_bytes(std::span(value)));
  std::fill(value.begin(), value.end(), 8.0F);
  EXPECT_EQ(values(1), std::vector<float>(16, 7));
}

// The lines of a text, labelled by their length.
std::string rows_of_text(int64_t first, int64_t count) {
  const std::vector<std::string> lines = {"the ship lay in the harbour",  "rain fell on the roofs all night",
                                          "she counted the coins twice",  "nobody answered the door",
                                          "the road bends to the north",  "two boys carried a ladder",
                                          "a lamp burned in the kitchen", "the letter came on a monday"};
  std::string text = "text,label\n";
  for (int64_t i = first; i < first + count; ++i) {
    const std::string& a = lines[static_cast<size_t>(i) % lines.size()];
    const std::string& b = lines[static_cast<size_t>(i / 3) % lines.size()];
    const std::string line = i % 2 == 0 ? a : a + " and " + b;
    text += line + (line.size() % 3 == 0 ? ",long\n" : ",short\n");
  }
  return text;
}

struct Setting {
  std::string name;
  void (*set)(TrainingArguments&);
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.name;
}

struct Trained {
  std::vector<double> losses, evaluation_losses, accuracies;
  NamedWeights weights;
  int64_t device_bytes = 0;
};

class GuardedTraining : public testing::TestWithParam<Setting> {
 protected:
  TrainingArguments arguments(const std::string& name) const {
    TrainingArguments args = quiet_arguments(4);
    args.output_dir = (directory_.path() / name).string();
    args.gradient_accumulation_steps = 2;
    args.max_steps = 6;
    args.save_strategy = "steps";
    args.save_steps = 3;
    args.eval_strategy = "steps";
    args.eval_steps = 2;
    args.weight_decay = 0.01;
    GetParam().set(args);
    return args;
  }
  Trained train(const TrainingArguments& args, std::shared_ptr<const Backend> backend) const {
    const auto tokenizer = Tokenizer::load(golden("tokenizer_small"));
    BertConfig config = tiny_bert(0.1F);
    config.vocab_size = tokenizer->vocab_size();
    config.labels = classes(2);
    const BertForSequenceClassification model(config);
    const auto data = [&](const char* name, int64_t first, int64_t count) {
      return load_dataset(directory_.write(name, rows_of_text(first, count)), *tokenizer, 20);
    };
    Trainer trainer(model, args, data("train.csv", 0, 28).dataset, data("dev.csv", 28, 9).dataset,
                    {.backend = std::move(backend)});
    EXPECT_EQ(trainer.train().global_step, args.max_steps);
    EXPECT_EQ(trainer.session().executor().resident_arena_bytes(), trainer.session().plan().arena_bytes());
    trainer.save_model(fs::path(args.output_dir) / "model");
    const TrainerState& state = trainer.state();
    return {.losses = logged(state, "loss"),
            .evaluation_losses = logged(state, "eval_loss"),
            .accuracies = logged(state, "eval_accuracy"),
            .weights = weights_of(trainer.session()),
            .device_bytes = trainer.session().plan().device().bytes()};
  }

  TestDirectory directory_;
};

void expect_same(const Trained& a, const Trained& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.evaluation_losses, b.evaluation_losses);
  EXPECT_EQ(a.accuracies, b.accuracies);
  EXPECT_EQ(a.weights, b.weights);
}

void expect_same_files(const fs::path& a, const fs::path& b, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    EXPECT_TRUE(read_text_file(a / name) == read_text_file(b / name)) << name << " of " << a << " and " << b;
}

TEST_P(GuardedTraining, HasTheBitsOfTheCpu) {
  const std::vector<std::string> state_files = {"model.safetensors", "optimizer.safetensors",
                                                "shoehorn_state.json"};
  const TrainingArguments on_cpu = arguments("cpu");
  const TrainingArguments on_device = arguments("device");
  const Trained cpu = train(on_cpu, make_backend(kDefaultBackend, 2));
  const Trained device = train(on_device, std::make_shared<GuardedDevice>(2));
  ASSERT_EQ(cpu.losses.size(), 6U);
  ASSERT_EQ(cpu.evaluation_losses.size(), 3U);
  expect_same(device, cpu);
  EXPECT_EQ(device.device_bytes, cpu.device_bytes);
  for (const char* checkpoint : {"checkpoint-3", "checkpoint-6"})
    expect_same_files(fs::path(on_device.output_dir) / checkpoint, fs::path(on_cpu.output_dir) / checkpoint,
                      state_files);
  expect_same_files(fs::path(on_device.output_dir) / "model", fs::path(on_cpu.output_dir) / "model",
                    {"model.safetensors"});

  // On the device from the checkpoint of the CPU.
  TrainingArguments resumed = arguments("resumed");
  fs::create_directories(resumed.output_dir);
  fs::copy(fs::path(on_cpu.output_dir) / "checkpoint-3", fs::path(resumed.output_dir) / "checkpoint-3",
           fs::copy_options::recursive);
  resumed.resume_from_checkpoint = "true";
  const Trained again = train(resumed, std::make_shared<GuardedDevice>(2));
  EXPECT_EQ(again.losses, cpu.losses) << "the log goes on";
  EXPECT_EQ(again.weights, cpu.weights);
  expect_same_files(fs::path(resumed.output_dir) / "checkpoint-6",
                    fs::path(on_cpu.output_dir) / "checkpoint-6", state_files);
}

INSTANTIATE_TEST_SUITE_P(Settings, GuardedTraining,
                         testing::Values(Setting{"fp32", [](TrainingArguments&) {}},
                                         Setting{"bf16_checkpointing",
                                                 [](TrainingArguments& args) {
                                                   args.bf16 = true;
                                                   args.gradient_checkpointing = true;
                                                 }},
                                         Setting{"fp16_layer_major",
                                                 [](TrainingArguments& args) {
                                                   args.fp16 = true;
                                                   args.accumulation_order = "layer_major";
                                                 }},
                                         Setting{"adamw_8bit_with_worker",
                                                 [](TrainingArguments& args) {
                                                   args.optim = "adamw_8bit";
                                                   args.optim_args = {{"min_8bit_size", int64_t{64}}};
                                                   args.dataloader_num_workers = 1;
                                                 }},
                                         Setting{"frozen_without_masters_and_anomalies",
                                                 [](TrainingArguments& args) {
                                                   args.bf16 = true;
                                                   args.master_weights = "none";
                                                   args.freeze = {R"(layer\.0\.)"};
                                                   args.detect_anomaly = true;
                                                 }}),
                         [](const auto& info) { return info.param.name; });

// A host access around the interface, in the middle of a program that trains.
TEST(GuardedTrainingDeathTest, TheWeightsOfARunAreOutOfReach) {
  const auto device = std::make_shared<const GuardedDevice>(1);
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = quiet_arguments();
  args.max_steps = 2;
  Trainer trainer(model, args, tiny_samples(8, 1), {}, {.backend = device});
  trainer.train();
  ASSERT_EQ(device->device_arenas().size(), 2U);
  for (const Arena* arena : device->device_arenas()) EXPECT_DEATH(read_byte(arena->address()), "");
}

// A loop of one's own.
TEST(GuardedLoop, HasTheBitsOfTheCpu) {
  const auto losses_on = [](std::shared_ptr<const Backend> backend) {
    TrainingArguments args = quiet_arguments(2);
    args.gradient_accumulation_steps = 2;
    args.max_grad_norm = 0;
    const BertForSequenceClassification model(tiny_bert());
    Accelerator accelerator(args, {.backend = std::move(backend)});
    auto [prepared, optimizer, loader] = accelerator.prepare(
        model, create_optimizer(args), DataLoader(tiny_samples(12, 1), {.batch_size = 2}));
    std::vector<double> losses;
    for (const Batch& batch : loader) {
      const auto scope = accelerator.accumulate(prepared);
      accelerator.backward(prepared(batch).loss);
      optimizer.step();
      optimizer.zero_grad();
      if (accelerator.sync_gradients()) losses.push_back(accelerator.loss());
    }
    return losses;
  };
  const std::vector<double> cpu = losses_on(make_backend());
  EXPECT_EQ(cpu.size(), 3U);
  EXPECT_EQ(losses_on(std::make_shared<GuardedDevice>(0)), cpu);
}

}  // namespace
}  // namespace shoehorn
