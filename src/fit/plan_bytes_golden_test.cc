// The bytes of 70 plans, as tests/golden/plan_bytes.json has them: a change of a pass, an op or the packer that moves a
// plan shows here. The plans are for a made-up machine, so that this one's processor and library do not matter.
//
// To rewrite the file: SHOEHORN_REWRITE_GOLDEN=1 build/src/fit/fit_test --gtest_filter='PlanBytes*'
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "arguments/step_settings.h"
#include "exec/backends.h"
#include "io/json_file.h"
#include "model/task.h"
#include "models/registry.h"
#include "train/planned_run.h"

namespace shoehorn {
namespace {

using nlohmann::json;

std::shared_ptr<const Backend> made_up_machine() {
  return make_backend_for(
      {.profile = {.backend = "cpu", .cpu = "made up", .isa = "AVX2", .products = "made up", .threads = 4},
       .limits = {.fp32_flops = 1e11, .bf16_flops = 1e11, .bytes_per_second = 1e10},
       .available_memory_bytes = int64_t{1} << 40});
}

struct Setting {
  const char* name;
  std::function<void(TrainingArguments&)> change;
};

std::vector<Setting> settings() {
  return {
      {"fp32", [](TrainingArguments&) {}},
      {"bf16", [](TrainingArguments& args) { args.bf16 = true; }},
      {"bf16 without masters",
       [](TrainingArguments& args) {
         args.bf16 = true;
         args.master_weights = "none";
       }},
      {"recomputed", [](TrainingArguments& args) { args.gradient_checkpointing = true; }},
      {"accumulated",
       [](TrainingArguments& args) {
         args.per_device_train_batch_size = 1;
         args.gradient_accumulation_steps = 4;
       }},
      {"layer-major, update in the backward",
       [](TrainingArguments& args) {
         args.per_device_train_batch_size = 1;
         args.gradient_accumulation_steps = 4;
         args.accumulation_order = "layer_major";
         args.update_in_backward = true;
         args.max_grad_norm = 0;
       }},
      {"8-bit AdamW, recomputed in pairs",
       [](TrainingArguments& args) {
         args.optim = "adamw_8bit";
         args.gradient_checkpointing = true;
         args.gradient_checkpointing_kwargs = {{"every_n_layers", int64_t{2}}};
       }},
      {"LoRA", [](TrainingArguments& args) { args.lora_rank = 8; }},
      {"fp16", [](TrainingArguments& args) { args.fp16 = true; }},
      {"Adafactor", [](TrainingArguments& args) { args.optim = "adafactor"; }},
      {"one of 4 ranks", [](TrainingArguments& args) { args.world_size = 4; }},
      {"one of 4 ranks, ZeRO 1, Adafactor, update in the backward",
       [](TrainingArguments& args) {
         args.world_size = 4;
         args.zero_stage = 1;
         args.optim = "adafactor";
         args.update_in_backward = true;
         args.max_grad_norm = 0;
       }},
      {"one of 4 ranks, ZeRO 2, accumulated",
       [](TrainingArguments& args) {
         args.world_size = 4;
         args.zero_stage = 2;
         args.per_device_train_batch_size = 1;
         args.gradient_accumulation_steps = 4;
       }},
      {"one of 4 ranks, ZeRO 3, bf16",
       [](TrainingArguments& args) {
         args.world_size = 4;
         args.zero_stage = 3;
         args.bf16 = true;
       }},
  };
}

json bytes_of(const Model& model, const Setting& setting, const std::shared_ptr<const Backend>& backend) {
  TrainingArguments args;
  args.per_device_train_batch_size = 4;
  args.max_seq_length = 128;
  setting.change(args);
  args = resolved(std::move(args));
  validate(args);
  Dataset data =
      Dataset::alike(args.per_device_train_batch_size, args.max_seq_length, model.task().label_shape());
  SessionOptions options = session_options_of(model, args, {.train = &data});
  options.backend = backend;
  const Session session(model, std::move(options));
  json arenas = json::object();
  for (const ArenaForecast& arena : forecast_least_memory(session, int64_t{1} << 40).arenas)
    arenas[arena.name] = arenas.value(arena.name, int64_t{0}) + arena.bytes;
  return arenas;
}

TEST(PlanBytesGolden, AreThoseOfTheFile) {
  const std::filesystem::path file =
      std::filesystem::path(SHOEHORN_SOURCE_DIR) / "tests/golden/plan_bytes.json";
  const std::shared_ptr<const Backend> backend = made_up_machine();
  json found = json::object();
  for (const char* name : {"bert-mini", "bert-base", "distilbert-base", "gpt2", "llama-135m"}) {
    const std::unique_ptr<Model> model = model_of_shape(name);
    for (const Setting& setting : settings()) found[name][setting.name] = bytes_of(*model, setting, backend);
  }
  if (std::getenv("SHOEHORN_REWRITE_GOLDEN") != nullptr) {
    write_json_atomic(file, found);
    GTEST_SKIP() << "wrote " << file;
  }
  const json golden = read_json(file);
  EXPECT_EQ(golden.size(), found.size());
  for (const auto& [model, plans] : found.items()) {
    for (const auto& [setting, arenas] : plans.items()) {
      EXPECT_EQ(arenas, golden[model][setting])
          << model << ", " << setting
          << ": if the plans are meant to change, SHOEHORN_REWRITE_GOLDEN=1 rewrites the file";
    }
  }
}

}  // namespace
}  // namespace shoehorn
