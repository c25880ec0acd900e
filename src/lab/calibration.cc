#include "lab/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "io/json_file.h"
#include "lab/random_tokens.h"
#include "models/registry.h"
#include "ops/op_info.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

constexpr int64_t kRecordedSteps = 3;
constexpr int64_t kAnchorSteps = 4;
constexpr double kUnanchored = 0.1;

std::string encoder(int64_t width, int64_t layers, int64_t vocabulary) {
  return fmt::format(
      R"({{"model_type": "bert", "vocab_size": {}, "hidden_size": {}, "num_hidden_layers": {}, )"
      R"("num_attention_heads": {}, "intermediate_size": {}, "max_position_embeddings": 512}})",
      vocabulary, width, layers, width / 64, 4 * width);
}

std::string llama(int64_t width, int64_t feed_forward, int64_t heads, int64_t key_value_heads,
                  int64_t vocabulary) {
  return fmt::format(
      R"({{"model_type": "llama", "vocab_size": {}, "hidden_size": {}, "num_hidden_layers": 1, )"
      R"("intermediate_size": {}, "num_attention_heads": {}, "num_key_value_heads": {}, )"
      R"("max_position_embeddings": 2048, "tie_word_embeddings": true}})",
      vocabulary, width, feed_forward, heads, key_value_heads);
}

std::string gpt2(int64_t width, int64_t vocabulary) {
  return fmt::format(
      R"({{"model_type": "gpt2", "vocab_size": {}, "n_embd": {}, "n_layer": 1, "n_head": {}, "n_positions": 1024}})",
      vocabulary, width, width / 64);
}

TrainingArguments batch_of(int64_t batch, int64_t length) {
  TrainingArguments args;
  args.per_device_train_batch_size = batch;
  args.max_seq_length = length;
  return args;
}

// Both precisions of a model.
void add_precisions(std::vector<CalibrationStep>& steps, const std::string& name, const std::string& config,
                    bool is_language_model, const TrainingArguments& args) {
  steps.push_back({name, config, is_language_model, args});
  TrainingArguments half = args;
  half.bf16 = true;
  steps.push_back({name + ", bfloat16", config, is_language_model, half});
}

// What differs from a plain step of AdamW in the kinds of its nodes.
void add_variants(std::vector<CalibrationStep>& steps, const std::string& config, int64_t length) {
  const auto add = [&](const std::string& name, const std::function<void(TrainingArguments&)>& change) {
    TrainingArguments args = batch_of(2, length);
    change(args);
    steps.push_back({name, config, false, std::move(args)});
  };
  for (const char* optim : {"adamw_8bit", "adafactor", "sgd", "rmsprop", "adagrad", "lion_32bit"}) {
    add(optim, [&](TrainingArguments& args) { args.optim = optim; });
    add(fmt::format("{}, bfloat16", optim), [&](TrainingArguments& args) {
      args.optim = optim;
      args.bf16 = true;
    });
  }
  add("no masters", [](TrainingArguments& args) {
    args.bf16 = true;
    args.master_weights = "none";
  });
  for (const bool bf16 : {false, true}) {
    const char* precision = bf16 ? ", bfloat16" : "";
    add(fmt::format("layer-major accumulation{}", precision), [&](TrainingArguments& args) {
      args.gradient_accumulation_steps = 2;
      args.accumulation_order = "layer_major";
      args.gradient_checkpointing = true;
      args.bf16 = bf16;
    });
    add(fmt::format("accumulation{}", precision), [&](TrainingArguments& args) {
      args.gradient_accumulation_steps = 2;
      args.bf16 = bf16;
    });
    add(fmt::format("update in the backward{}", precision), [&](TrainingArguments& args) {
      args.update_in_backward = true;
      args.max_grad_norm = 0;
      args.bf16 = bf16;
    });
    add(fmt::format("adapters{}", precision), [&](TrainingArguments& args) {
      args.lora_rank = 8;
      args.bf16 = bf16;
    });
  }
}

std::unique_ptr<Model> model_of(const CalibrationStep& step) {
  return model_from_json(parse_json(step.config, step.name), step.name,
                         step.is_language_model ? Head::kCausalLanguageModel : Head::kSequenceClassification);
}

CalibrationStep anchor_step() {
  return {"anchor", encoder(512, 1, 1024), false, batch_of(2, 128)};
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::vector<CalibrationStep> calibration_steps(bool is_quick) {
  std::vector<CalibrationStep> steps;
  const std::string small = encoder(256, 1, 4096);
  add_precisions(steps, "bert 256, 4 x 64", small, false, batch_of(4, 64));
  if (is_quick) return steps;
  add_precisions(steps, "bert 256, 16 x 128", small, false, batch_of(16, 128));
  const std::string base = encoder(768, 1, 16384);
  add_precisions(steps, "bert 768, 1 x 128", base, false, batch_of(1, 128));
  add_precisions(steps, "gpt2 768, 1 x 256", gpt2(768, 8192), true, batch_of(1, 256));
  add_precisions(steps, "llama 576, 1 x 512", llama(576, 1536, 9, 3, 16384), true, batch_of(1, 512));
  add_precisions(steps, "bert 1024, 1 x 128", encoder(1024, 1, 4096), false, batch_of(1, 128));
  add_precisions(steps, "bert 768, 2 x 512", base, false, batch_of(2, 512));
  add_precisions(steps, "bert 1024, 4 x 256", encoder(1024, 1, 4096), false, batch_of(4, 256));
  add_precisions(steps, "bert 1024, 4 x 512", encoder(1024, 1, 1024), false, batch_of(4, 512));
  add_variants(steps, small, 64);
  add_variants(steps, base, 128);
  return steps;
}

TimedStep time_step(const CalibrationStep& step, int64_t steps,
                    const std::shared_ptr<const Backend>& backend) {
  const std::unique_ptr<Model> model = model_of(step);
  TrainingArguments args = without_files(step.arguments);
  args.max_steps = 1 + steps;
  args.profile = steps;  // begins after the first step
  args = resolved(std::move(args));
  validate(args);
  Trainer trainer(*model, args, random_steps(args, *model, args.max_steps), {},
                  {.backend = backend, .write_profile = false});
  trainer.train();

  struct Times {
    OpWork work;
    std::vector<double> seconds;
  };
  std::map<const Node*, Times> nodes;
  trainer.profile()->each_node([&](const OpContext& context, const Cost& cost, double seconds) {
    Times& times = nodes[&context.node];
    if (times.seconds.empty()) times.work = op_work(context, cost);
    times.seconds.push_back(seconds);
  });
  TimedStep timed;
  for (auto& [node, times] : nodes) {
    if (times.work.flops == 0 && times.work.bytes == 0) continue;  // a view
    timed.nodes.push_back({std::move(times.work), std::max(1e-7, median(std::move(times.seconds)))});
  }
  std::vector<double> step_seconds = trainer.step_seconds();
  step_seconds.erase(step_seconds.begin());
  timed.step_seconds = median(std::move(step_seconds));
  return timed;
}

OpCosts calibrate(const CalibrationOptions& options, const std::shared_ptr<const Backend>& backend) {
  const auto say = [&](const std::string& line) {
    if (options.on_line) options.on_line(line);
  };
  const MachineLimits limits = backend->measure_limits();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<OpSample> samples;
  for (const CalibrationStep& step : calibration_steps(options.is_quick)) {
    if (seconds_since(begin) > options.most_seconds) {
      say(fmt::format("  {:<38} left out: {:.0f} s are over", step.name, options.most_seconds));
      continue;
    }
    try {
      TimedStep timed = time_step(step, kRecordedSteps, backend);
      say(fmt::format("  {:<38}{:>9.4f} s a step", step.name, timed.step_seconds));
      samples.insert(samples.end(), std::make_move_iterator(timed.nodes.begin()),
                     std::make_move_iterator(timed.nodes.end()));
    } catch (const UserError& error) {
      say(fmt::format("  {:<38} left out: {}", step.name, error.what()));
    }
  }
  if (samples.empty())
    throw user_error(
        "[calibrate] expected a step that fits this machine's memory and time, got none; see --max_seconds");
  return OpCosts(limits, std::move(samples));
}

MachineClock anchored_clock(const OpCosts& costs, const std::shared_ptr<const Backend>& backend) {
  std::vector<OpSample> nodes;
  try {
    nodes = time_step(anchor_step(), kAnchorSteps, backend).nodes;
  } catch (const UserError&) {
    return {.error = kUnanchored};
  }
  struct Sums {
    double measured = 0;
    double predicted = 0;
    double variance = 0;
  };
  Sums products;
  Sums memory;
  for (const OpSample& node : nodes) {
    const OpEstimate estimate = costs.estimate(node.work);
    Sums& sums = node.work.op_class == OpClass::kContraction ? products : memory;
    sums.measured += node.seconds;
    sums.predicted += estimate.seconds;
    sums.variance += std::pow(estimate.seconds * estimate.error, 2);
  }
  const auto ratio = [](const Sums& sums) { return sums.predicted > 0 ? sums.measured / sums.predicted : 1; };
  const double all = products.predicted + memory.predicted;
  return {.products = ratio(products),
          .memory = ratio(memory),
          .error = all > 0 ? std::sqrt(products.variance + memory.variance) / all : kUnanchored};
}

}  // namespace shoehorn
