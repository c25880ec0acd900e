// Training on ranks whose layout is drawn: how many there are, how they share a step and within which groups, what they train
// and how each of them steps. Every one holds the bytes that were planned and sends those that the step says, all log the same,
// and those whose sums have the order of data parallel have its bits.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "train/rank_runs_testing.h"
#include "train/tiny_decoder_testing.h"

namespace shoehorn {
namespace {

using namespace test_support;

using RandomLayouts = Ranks;

// std::uniform_int_distribution is another one in each library.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  template <typename T>
  T of(const std::vector<T>& values) {
    return values[random_() % values.size()];
  }
  bool one_in(uint32_t count) { return random_() % count == 0; }

 private:
  std::mt19937 random_;
};

struct Layout {
  int32_t size = 1;
  bool is_decoder = false;
  bool is_tied = false;
  int64_t samples = 0;
  TrainingArguments args = {};
};

// A table of such a vocabulary is larger than the smallest bucket there is, 1 MiB.
constexpr int64_t kWideVocabulary = 12'000;

std::unique_ptr<Model> model_of(const Layout& layout) {
  if (layout.is_decoder) return std::make_unique<CausalLanguageModel>(tiny_llama(layout.is_tied));
  BertConfig config = tiny_bert(0.1F);
  if (layout.args.ddp_bucket_cap_mb) config.vocab_size = kWideVocabulary;
  return std::make_unique<BertForSequenceClassification>(config);
}

void draw_precision(Draw& draw, TrainingArguments& args) {
  const std::string precision = draw.of<std::string>({"fp32", "fp32", "bf16", "bf16 alone", "fp16"});
  args.bf16 = precision.starts_with("bf16");
  args.fp16 = precision == "fp16";
  if (precision == "bf16 alone") args.master_weights = "none";
}

void draw_optimizer(Draw& draw, TrainingArguments& args) {
  args.optim = draw.of<std::string>(
      {"sgd", "adamw_torch", "adamw_bnb_8bit", "lion_32bit", "lion_8bit", "rmsprop", "adagrad", "adafactor"});
  args.learning_rate = args.optim == "sgd" ? 0.1 : 1e-3;
  // Of all projections, since those of queries, keys and values are joined.
  if (args.optim.ends_with("8bit")) args.optim_args = {{"min_8bit_size", 150.0}};
}

void draw_accumulation(Draw& draw, TrainingArguments& args) {
  args.gradient_accumulation_steps = draw.of<int64_t>({1, 2, 3});
  args.accumulation_order = draw.of<std::string>({"micro_batch", "layer_major"});
  if (draw.one_in(3)) args.max_grad_norm = 0;
  const bool is_complete = args.gradient_accumulation_steps == 1 || args.accumulation_order == "layer_major";
  args.update_in_backward = args.max_grad_norm == 0 && is_complete && !args.fp16 && draw.one_in(2);
}

void draw_stage(Draw& draw, int32_t size, TrainingArguments& args) {
  args.zero_stage = draw.of<int64_t>({1, 2, 2, 3, 3, 3});
  args.zero_persistence_threshold = draw.of<int64_t>({0, 50, 1000});
  args.zero_prefetch_layers = draw.of<int64_t>({0, 1, 3});
  if (size % 2 == 0 && size > 2 && draw.one_in(2)) args.zero_group_size = draw.of<int64_t>({2, size / 2});
}

void draw_local_sgd(Draw& draw, TrainingArguments& args) {
  args.local_sgd_steps = draw.of<int64_t>({1, 3});
  if (draw.one_in(2)) {
    args.outer_learning_rate = 0.7;
    args.outer_momentum = 0.9;
  }
  args.fp16 = false;
  args.master_weights = "fp32";
}

void use_replicas(TrainingArguments& args) {
  args.parallel_mode = "dp";
  args.gradient_accumulation_steps = 1;
  args.update_in_backward = false;
  args.fp16 = false;
}

void draw_method(Draw& draw, int32_t size, TrainingArguments& args) {
  const std::string method = draw.of<std::string>(
      {"stages", "stages", "local SGD", "stages", "stages", "replicas", "data parallel"});
  if (method == "stages") draw_stage(draw, size, args);
  if (method == "local SGD") draw_local_sgd(draw, args);
  if (method == "replicas") use_replicas(args);
}

void draw_trained_weights(Draw& draw, TrainingArguments& args) {
  if (draw.one_in(4)) {
    args.lora_rank = 2;
  } else if (draw.one_in(4)) {
    args.freeze = {"\\.0\\."};  // the first layer
  }
}

bool sums_once_a_step(const TrainingArguments& args) {
  const bool is_one = args.gradient_accumulation_steps == 1 || args.accumulation_order == "layer_major";
  return is_one || args.zero_stage <= 1;
}

// Fewer than ranks have rows, some that leave an epoch's last window short, or whole windows. Where each micro-batch is summed,
// short windows send less, so that all are whole.
int64_t draw_samples(Draw& draw, int32_t size, const TrainingArguments& args) {
  const int64_t window = args.effective_batch_size.value_or(args.per_device_train_batch_size * size *
                                                            args.gradient_accumulation_steps);
  return sums_once_a_step(args) ? draw.of<int64_t>({3, 28, window}) : 2 * window;
}

Layout drawn(uint32_t seed) {
  Draw draw(seed);
  Layout layout{.size = draw.of<int32_t>({2, 3, 4, 5, 8}), .args = rank_arguments()};
  TrainingArguments& args = layout.args;
  layout.is_decoder = draw.one_in(3);
  layout.is_tied = layout.is_decoder && draw.one_in(2);
  draw_precision(draw, args);
  draw_optimizer(draw, args);
  draw_accumulation(draw, args);
  draw_method(draw, layout.size, args);
  if (!layout.is_decoder && draw.one_in(2)) args.ddp_bucket_cap_mb = 1;
  draw_trained_weights(draw, args);
  args.gradient_checkpointing = draw.one_in(3);
  if (!args.gradient_checkpointing && draw.one_in(3)) args.activation_budget = "0.5";
  // A rank has one micro-batch less than the others.
  if (draw.one_in(3))
    args.effective_batch_size =
        (layout.size * args.gradient_accumulation_steps - 1) * args.per_device_train_batch_size;
  layout.samples = draw_samples(draw, layout.size, args);
  return layout;
}

std::string method_text(const Layout& layout) {
  const TrainingArguments& args = layout.args;
  if (args.parallel_mode == "dp") return "replicas";
  if (args.local_sgd_steps > 0)
    return fmt::format("{} steps alone with an outer momentum of {}", args.local_sgd_steps,
                       args.outer_momentum);
  if (args.zero_stage == 0) return "data parallel";
  return fmt::format("stage {} in groups of {}, threshold {}, {} layers ahead", args.zero_stage,
                     args.zero_group_size.value_or(layout.size), *args.zero_persistence_threshold,
                     *args.zero_prefetch_layers);
}

std::string precision_text(const TrainingArguments& args) {
  if (args.fp16) return "fp16";
  if (!args.bf16) return "fp32";
  return args.master_weights == "none" ? "bf16 alone" : "bf16";
}

std::string text_of(const Layout& layout) {
  const TrainingArguments& args = layout.args;
  std::vector<std::string> parts = {
      fmt::format("{} ranks", layout.size),
      fmt::format("{} samples", layout.samples),
      layout.is_decoder ? "a decoder" : "an encoder",
      method_text(layout),
      precision_text(args),
      args.optim,
      fmt::format("{} micro-batches {}", args.gradient_accumulation_steps, args.accumulation_order)};
  const auto add = [&](bool has_it, const std::string& part) {
    if (has_it) parts.push_back(part);
  };
  add(layout.is_tied, "a tied head");
  add(args.effective_batch_size.has_value(), "of a rank one less");
  add(args.ddp_bucket_cap_mb.has_value(), "small buckets");
  add(args.update_in_backward, "update in the backward");
  add(args.lora_rank > 0, "adapters");
  add(!args.freeze.empty(), "a frozen layer");
  add(args.gradient_checkpointing, "every layer recomputed");
  add(!args.activation_budget.empty(), "recomputed under a budget");
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Whether all ranks that send all gradients at once have the same bits. They sum over all ranks at once, and all micro-batches
// together; Adafactor's own sums are over parts, and along the chain of replicas only two terms have one sum.
bool has_bits_of_data_parallel(const Layout& layout) {
  const TrainingArguments& args = layout.args;
  if (args.local_sgd_steps > 0) return false;
  if (args.parallel_mode == "dp") return layout.size == 2;
  if (args.zero_stage == 0) return args.ddp_bucket_cap_mb.has_value();  // else it is that itself
  return args.optim != "adafactor" && !args.zero_group_size && sums_once_a_step(args);
}

TrainingArguments as_data_parallel(TrainingArguments args) {
  args.zero_stage = 0;
  args.parallel_mode = "ddp";
  args.ddp_bucket_cap_mb.reset();
  return args;
}

void expect_layout(const Layout& layout) {
  SCOPED_TRACE(text_of(layout));
  const TrainingArguments& args = layout.args;
  const std::unique_ptr<Model> model = model_of(layout);
  const Dataset samples = layout.is_decoder ? tiny_texts(layout.samples, 5) : tiny_samples(layout.samples, 5);
  const int64_t told = args.local_sgd_steps > 0 ? (layout.size - 1) * kToldLossesBytes : 0;
  const std::vector<RankRun> runs =
      expect_model_sends_as_planned(*model, layout.size, args, samples, "as drawn", told);
  for (const RankRun& run : runs) {
    EXPECT_EQ(run.measured_bytes, run.planned_bytes);
    EXPECT_EQ(run.losses, runs[0].losses);
    // The others of replicas have the weights of the last step's beginning.
    if (args.parallel_mode != "dp") expect_same_weights(runs[0].weights, run.weights, "ranks");
  }
  if (!has_bits_of_data_parallel(layout)) return;
  TrainingArguments whole = as_data_parallel(args);
  whole.max_steps = static_cast<int64_t>(runs[0].losses.size());
  const RankRun expected = train_model_on(*model, layout.size, whole, samples)[0];
  EXPECT_EQ(runs[0].losses, expected.losses);
  expect_same_weights(expected.weights, runs[0].weights, "data parallel");
}

// What the layouts are to have between them, and whether one has it.
std::vector<std::pair<std::string, bool>> kinds_of(const Layout& layout) {
  const TrainingArguments& args = layout.args;
  const bool is_local = args.local_sgd_steps > 0;
  const bool are_replicas = args.parallel_mode == "dp";
  const bool is_plain = args.zero_stage == 0 && !is_local && !are_replicas;
  return {{"data parallel in one bucket", is_plain && !args.ddp_bucket_cap_mb},
          {"data parallel in small buckets", is_plain && args.ddp_bucket_cap_mb},
          {"local SGD", is_local && args.outer_momentum == 0},
          {"local SGD with momentum", is_local && args.outer_momentum > 0},
          {"several steps alone", args.local_sgd_steps > 1},
          {"two replicas", are_replicas && layout.size == 2},
          {"more replicas", are_replicas && layout.size > 2},
          {"stage 1", args.zero_stage == 1},
          {"stage 2", args.zero_stage == 2},
          {"stage 3", args.zero_stage == 3},
          {"groups", args.zero_group_size.has_value()},
          {"uneven batches", args.effective_batch_size.has_value()},
          {"frozen weights", !args.freeze.empty()},
          {"adapters", args.lora_rank > 0},
          {"an encoder", !layout.is_decoder},
          {"a decoder", layout.is_decoder && !layout.is_tied},
          {"a tied head", layout.is_tied},
          {"bf16", args.bf16 && args.master_weights == "fp32"},
          {"bf16 without masters", args.master_weights == "none"},
          {"fp16", args.fp16},
          {"update in the backward", args.update_in_backward},
          {"adafactor", args.optim == "adafactor"},
          {"8 bits", args.optim.ends_with("8bit")}};
}

TEST_F(RandomLayouts, HoldSendAndTrainWhatIsPlanned) {
  std::map<std::string, int64_t> seen;
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    const Layout layout = drawn(seed);
    expect_layout(layout);
    for (const auto& [kind, has_it] : kinds_of(layout)) seen[kind] += has_it ? 1 : 0;
  }
  for (const auto& [kind, layouts] : seen) EXPECT_GT(layouts, 0) << kind << " was not drawn";
}

}  // namespace
}  // namespace shoehorn
