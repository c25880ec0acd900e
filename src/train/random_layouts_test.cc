// Training on ranks whose layout is drawn: how many there are, what they share within which groups, and how each of them steps.
// Every one holds the bytes that were planned and sends those that the step says, all log the same, and those whose sums have
// the order of data parallel have its bits.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "train/rank_runs_testing.h"

namespace shoehorn {
namespace {

using namespace testing;

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
  int64_t samples = 0;
  TrainingArguments args = {};
  std::string text = {};
};

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
  if (args.optim.ends_with("8bit")) args.optim_args = {{"min_8bit_size", 500.0}};
}

void draw_accumulation(Draw& draw, TrainingArguments& args) {
  args.gradient_accumulation_steps = draw.of<int64_t>({1, 2, 3});
  args.accumulation_order = draw.of<std::string>({"micro_batch", "layer_major"});
  if (draw.one_in(3)) args.max_grad_norm = 0;
  const bool is_complete = args.gradient_accumulation_steps == 1 || args.accumulation_order == "layer_major";
  args.update_in_backward = args.max_grad_norm == 0 && is_complete && !args.fp16 && draw.one_in(2);
}

void draw_sharing(Draw& draw, int32_t size, TrainingArguments& args) {
  args.zero_stage = draw.of<int64_t>({1, 2, 2, 3, 3, 3});
  args.zero_persistence_threshold = draw.of<int64_t>({0, 50, 1000});
  args.zero_prefetch_layers = draw.of<int64_t>({0, 1, 3});
  if (size % 2 == 0 && size > 2 && draw.one_in(3)) args.zero_group_size = draw.of<int64_t>({2, size / 2});
}

bool sums_once_a_step(const TrainingArguments& args) {
  const bool is_one = args.gradient_accumulation_steps == 1 || args.accumulation_order == "layer_major";
  return is_one || args.zero_stage == 1;
}

// Fewer than ranks have rows, some that leave an epoch's last window short, or whole windows. Where each micro-batch is summed,
// short windows send less, so that all are whole.
int64_t draw_samples(Draw& draw, int32_t size, const TrainingArguments& args) {
  const int64_t window = args.per_device_train_batch_size * size * args.gradient_accumulation_steps;
  return sums_once_a_step(args) ? draw.of<int64_t>({3, 28, window}) : 2 * window;
}

Layout drawn(uint32_t seed) {
  Draw draw(seed);
  Layout layout{.size = draw.of<int32_t>({2, 3, 4, 5, 8}), .args = rank_arguments()};
  TrainingArguments& args = layout.args;
  draw_precision(draw, args);
  draw_optimizer(draw, args);
  draw_accumulation(draw, args);
  draw_sharing(draw, layout.size, args);
  if (draw.one_in(4)) args.lora_rank = 2;
  args.gradient_checkpointing = draw.one_in(3);
  if (!args.gradient_checkpointing && draw.one_in(3)) args.activation_budget = "0.5";
  layout.samples = draw_samples(draw, layout.size, args);
  layout.text = fmt::format(
      "seed {}: {} ranks, {} samples, stage {} in groups of {}, threshold {}, {} layers ahead; {}{}{}, {}, {} micro-batches "
      "{}{}{}{}{}",
      seed, layout.size, layout.samples, args.zero_stage, args.zero_group_size.value_or(layout.size),
      *args.zero_persistence_threshold, *args.zero_prefetch_layers, args.bf16 ? "bf16" : "",
      args.fp16 ? "fp16" : "", args.master_weights == "none" ? " alone" : "", args.optim,
      args.gradient_accumulation_steps, args.accumulation_order,
      args.update_in_backward ? ", update in the backward" : "", args.lora_rank > 0 ? ", adapters" : "",
      args.gradient_checkpointing ? ", every layer recomputed" : "",
      args.activation_budget.empty() ? "" : ", recomputed under a budget");
  return layout;
}

// Sums over ranks in the order of data parallel: over all ranks at once, and of all micro-batches together. Adafactor's own sums
// are over parts.
bool has_order_of_data_parallel(const TrainingArguments& args) {
  return args.optim != "adafactor" && !args.zero_group_size && sums_once_a_step(args);
}

void expect_layout(uint32_t seed) {
  const Layout layout = drawn(seed);
  SCOPED_TRACE(layout.text);
  const Dataset samples = tiny_samples(layout.samples, 5);
  const std::vector<RankRun> runs = expect_sends_as_planned(layout.size, layout.args, samples, "as drawn");
  for (const RankRun& run : runs) {
    EXPECT_EQ(run.measured_bytes, run.planned_bytes);
    EXPECT_EQ(run.losses, runs[0].losses);
    expect_same_weights(runs[0].weights, run.weights, "ranks");
  }
  if (!has_order_of_data_parallel(layout.args)) return;
  TrainingArguments whole = layout.args;
  whole.zero_stage = 0;
  whole.max_steps = static_cast<int64_t>(runs[0].losses.size());
  const RankRun expected = train_on(layout.size, whole, samples)[0];
  EXPECT_EQ(runs[0].losses, expected.losses);
  expect_same_weights(expected.weights, runs[0].weights, "data parallel");
}

TEST_F(RandomLayouts, HoldSendAndTrainWhatIsPlanned) {
  for (uint32_t seed = 1; seed <= 24; ++seed) expect_layout(seed);
}

}  // namespace
}  // namespace shoehorn
