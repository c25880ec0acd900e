#include "state/starting_weights.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"
#include "train/accelerator.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// Weights without a classifier and with another head, as a base model's, whose config says bfloat16.
void write_base_model(const std::filesystem::path& directory) {
  const TestDirectory whole;
  const BertForSequenceClassification model(tiny_bert());
  Trainer(model, quiet_arguments(), tiny_samples(8, 3)).save_model(whole.path());
  const SafetensorsModel files = SafetensorsModel::open(whole.path());
  std::vector<TensorSpec> specs;
  for (const std::string& name : files.names()) {
    if (!name.starts_with("classifier")) specs.push_back({name, DType::kF32, files.tensor(name).shape});
  }
  // Of the head that it was trained with.
  specs.push_back({"cls.predictions.bias", DType::kF32, {61}});
  SafetensorsWriter writer(directory / "model.safetensors", specs);
  std::array<std::byte, 4096> staging{};
  for (const TensorSpec& spec : specs) {
    writer.append_filled(spec.name, staging, [&](int64_t offset, std::span<std::byte> chunk) {
      if (files.find(spec.name) != nullptr) files.read_range(spec.name, offset, chunk);
    });
  }
  writer.commit();
  const nlohmann::json config = {{"model_type", "bert"}, {"dtype", "bfloat16"}};
  write_json_atomic(directory / "config.json", config);
}

TEST(RunStart, AnAcceleratorSaysWhatATrainerSays) {
  const TestDirectory directory;
  write_base_model(directory.path());
  const BertForSequenceClassification model(tiny_bert());
  for (const bool fp16 : {false, true}) {
    TrainingArguments args = quiet_arguments();
    args.fp16 = fp16;
    args.logging_strategy = "no";
    std::vector<std::string> of_trainer;
    Trainer trainer(model, args, tiny_samples(8, 3), tiny_samples(8, 4),
                    {.weights = directory.path(),
                     .on_line = [&](const std::string& line) { of_trainer.push_back(line); }});
    trainer.evaluate();
    std::vector<std::string> of_loop;
    Accelerator accelerator(args, {.weights = directory.path(),
                                   .on_line = [&](const std::string& line) { of_loop.push_back(line); }});
    auto [prepared, optimizer, loader] =
        accelerator.prepare(model, create_optimizer(args), DataLoader(tiny_samples(8, 3), {.batch_size = 4}));
    EXPECT_TRUE(of_loop.empty());
    loader.begin();
    EXPECT_EQ(of_loop, of_trainer);
    ASSERT_EQ(of_loop.size(), fp16 ? 4U : 3U);
    EXPECT_EQ(of_loop[of_loop.size() - 2],
              "not used, the model has no such parameters: cls.predictions.bias");
    EXPECT_EQ(of_loop[of_loop.size() - 3],
              directory.path().string() + ": no checksum of model.safetensors, taken as read");
    EXPECT_EQ(of_loop.back(), "new weights, to be trained: classifier.weight, classifier.bias");
    if (fp16) {
      EXPECT_TRUE(contains(of_loop[0], "trained in bfloat16"));
    }
  }
}

TEST(RunStart, WhatIsNewAndFrozenIsRefused) {
  const TestDirectory directory;
  write_base_model(directory.path());
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = quiet_arguments();
  args.freeze = {"classifier"};
  Trainer trainer(model, args, tiny_samples(8, 3), {}, {.weights = directory.path()});
  const std::string message = message_of<UserError>([&] { trainer.train(); });
  EXPECT_TRUE(contains(message, directory.path().string())) << message;
  EXPECT_TRUE(contains(message, "'classifier.weight', which is frozen")) << message;
  EXPECT_TRUE(contains(message, "--lora_modules_to_save")) << message;
}

}  // namespace
}  // namespace shoehorn
