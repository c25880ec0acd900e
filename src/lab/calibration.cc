#include "lab/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "base/plural.h"
#include "base/stop_request.h"
#include "lab/random_tokens.h"
#include "models/small_models.h"
#include "ops/op_info.h"
#include "train/trainer.h"

namespace shoehorn {

namespace {

constexpr int64_t kRecordedSteps = 3;
constexpr int64_t kAnchorSteps = 4;
constexpr double kUnanchored = 0.1;
// A clock that differs from the usual one by less, or by no more than the usual spread, is taken for it.
constexpr double kLeastDifference = 0.05;
// Steps that spread by more while they are calibrated were disturbed: something else used the processors.
constexpr double kDisturbed = 0.15;

using SharedModel = std::shared_ptr<const Model>;

TrainingArguments batch_of(int64_t batch, int64_t length) {
  TrainingArguments args;
  args.per_device_train_batch_size = batch;
  args.max_seq_length = length;
  return args;
}

// Both precisions of a model.
void add_precisions(std::vector<CalibrationStep>& steps, const std::string& name, const SharedModel& model,
                    const TrainingArguments& args) {
  steps.push_back({name, model, args});
  TrainingArguments half = args;
  half.bf16 = true;
  steps.push_back({name + ", bfloat16", model, half});
}

// What differs from a plain step of AdamW in the kinds of its nodes.
void add_variants(std::vector<CalibrationStep>& steps, const std::string& shape, const SharedModel& model,
                  int64_t length) {
  const auto add = [&](const std::string& name, const std::function<void(TrainingArguments&)>& change) {
    TrainingArguments args = batch_of(2, length);
    change(args);
    steps.push_back({fmt::format("{}, {}", shape, name), model, std::move(args)});
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

// Small, and with more weights than a processor's caches hold.
CalibrationStep anchor_step() {
  return {"encoder 512, 2 x 128", small_encoder(2, 512, 1024), batch_of(2, 128)};
}

// The anchor's times ÷ what they are predicted to be.
struct AnchorRatios {
  double products = 1;
  double memory = 1;
  double all = 1;
  double error = 0;  // of the prediction: standard deviation, as a share
};

AnchorRatios anchor_ratios(const OpCosts& costs, const std::vector<OpSample>& nodes) {
  StepSums measured;
  StepSums predicted;
  double variance = 0;
  for (const OpSample& node : nodes) {
    const OpEstimate estimate = costs.estimate(node.work);
    measured.add(node.work, node.seconds);
    predicted.add(node.work, estimate.seconds);
    variance += std::pow(estimate.seconds * estimate.error, 2);
  }
  const auto ratio = [](double times, double of) { return of > 0 ? times / of : 1; };
  return {.products = ratio(measured.products, predicted.products),
          .memory = ratio(measured.memory, predicted.memory),
          .all = ratio(measured.all(), predicted.all()),
          .error = predicted.all() > 0 ? std::sqrt(variance) / predicted.all() : kUnanchored};
}

// The one whose `all` is the median.
AnchorRatios middle_of(std::vector<AnchorRatios> ratios) {
  const auto middle = ratios.begin() + std::ssize(ratios) / 2;
  std::ranges::nth_element(ratios, middle, {}, &AnchorRatios::all);
  return *middle;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Of the nodes of a step that is timed several times. Other programs and a slower clock only add to a time, and last longer than
// a step does, so that the least of times that lie apart counts.
class LeastTimes {
 public:
  explicit LeastTimes(const CalibrationStep& step) : step_(step) {}

  const CalibrationStep& step() const { return step_; }

  // Nodes with the same work count as one, with their mean time.
  void add(const TimedStep& timed) {
    std::map<OpWork, std::vector<double>> times;
    StepSums sums;
    for (const OpSample& node : timed.nodes) {
      times[node.work].push_back(node.seconds);
      sums.add(node.work, node.seconds);
    }
    sums_.push_back(sums);
    for (const auto& [work, seconds] : times) {
      const double mean =
          std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
      const auto [kept, is_new] = nodes_.emplace(work, Least{mean, std::ssize(seconds)});
      if (!is_new) kept->second.seconds = std::min(kept->second.seconds, mean);
    }
  }

  void append_to(std::vector<OpSample>& samples) const {
    for (const auto& [work, least] : nodes_) samples.push_back({work, least.seconds});
  }

  // Of a step that was timed more than once.
  std::optional<RepeatedStep> repeated() const {
    if (sums_.size() < 2) return std::nullopt;
    RepeatedStep repeated{.timed = sums_};
    for (const auto& [work, least] : nodes_)
      repeated.least.add(work, least.seconds * static_cast<double>(least.nodes));
    return repeated;
  }

 private:
  struct Least {
    double seconds = 0;  // of a node
    int64_t nodes = 0;
  };

  const CalibrationStep& step_;
  std::map<OpWork, Least> nodes_;
  std::vector<StepSums> sums_;  // each time
};

std::vector<RepeatedStep> repeated_steps(const std::vector<LeastTimes>& timed) {
  std::vector<RepeatedStep> repeated;
  for (const LeastTimes& step : timed) {
    if (std::optional<RepeatedStep> times = step.repeated()) repeated.push_back(*std::move(times));
  }
  return repeated;
}

bool is_disturbed(const MachineClock& clock) {
  return clock.error > kDisturbed;
}

// Of all times over the steps those that count: of three the slowest does not, for something may have run beside it, and of
// more a quarter of them. Those of which time ended before all steps had come are none.
std::vector<size_t> quietest_times(const std::vector<RepeatedStep>& steps) {
  std::vector<double> seconds(steps.at(0).timed.size());
  for (const RepeatedStep& step : steps) seconds.resize(std::min(seconds.size(), step.timed.size()));
  for (size_t time = 0; time < seconds.size(); ++time) {
    for (const RepeatedStep& step : steps) seconds[time] += step.timed[time].all();
  }
  std::vector<size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t time) { return seconds[time]; });
  if (order.size() > 2) order.resize(order.size() - std::max<size_t>(1, order.size() / 4));
  return order;
}

}  // namespace

std::vector<CalibrationStep> calibration_steps(bool is_quick) {
  // The anchor is timed here too: an error of its estimate would be one of every clock.
  std::vector<CalibrationStep> steps = {anchor_step()};
  const SharedModel small = small_encoder(2, 256, 4096);
  add_precisions(steps, "encoder 256, 4 x 64", small, batch_of(4, 64));
  if (is_quick) return steps;
  add_precisions(steps, "encoder 256, 16 x 128", small, batch_of(16, 128));
  const SharedModel base = small_encoder(2, 768, 16384);
  add_precisions(steps, "encoder 768, 1 x 128", base, batch_of(1, 128));
  // Without it steps of so few tokens would be predicted a fifth too long.
  add_precisions(steps, "encoder 768, 1 x 64", base, batch_of(1, 64));
  add_precisions(steps, "gpt2 768, 1 x 256", one_layer_gpt2(768, 8192), batch_of(1, 256));
  add_precisions(steps, "llama 576, 1 x 512", one_layer_llama({576, 1536, 9, 3}, 16384), batch_of(1, 512));
  const SharedModel large = small_encoder(2, 1024, 4096);
  add_precisions(steps, "encoder 1024, 1 x 128", large, batch_of(1, 128));
  add_precisions(steps, "encoder 768, 2 x 512", base, batch_of(2, 512));
  add_precisions(steps, "encoder 1024, 4 x 256", large, batch_of(4, 256));
  add_variants(steps, "encoder 256, 2 x 64", small_encoder(1, 256, 4096), 64);
  add_variants(steps, "encoder 768, 2 x 128", small_encoder(1, 768, 16384), 128);
  return steps;
}

TimedStep time_step(const CalibrationStep& step, int64_t steps,
                    const std::shared_ptr<const Backend>& backend) {
  const Model& model = *step.model;
  TrainingArguments args = without_files(step.arguments);
  args.max_steps = 1 + steps;
  args.profile = steps;  // begins after the first step
  args = resolved(std::move(args));
  validate(args);
  Trainer trainer(model, args, random_steps(args, model, args.max_steps), {},
                  {.backend = backend, .write_profile = false});
  trainer.train();
  throw_if_stop_requested();  // the steps of a run that was stopped are too few

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
  const auto is_late = [&] { return seconds_since(begin) > options.most_seconds; };
  const auto time_where_it_fits = [&](const CalibrationStep& step) -> std::optional<TimedStep> {
    try {
      return time_step(step, kRecordedSteps, backend);
    } catch (const UserError& error) {
      say(fmt::format("  {:<60} left out: {}", step.name, error.what()));
      return std::nullopt;
    }
  };
  const std::vector<CalibrationStep> steps = calibration_steps(options.is_quick);
  std::vector<LeastTimes> timed;  // of the steps that fit
  for (size_t at = 0; at < steps.size(); ++at) {
    const CalibrationStep& step = steps[at];
    if (at > 0 && is_late()) {
      say(fmt::format("  {} of {} left out: {:.0f} s are over; --max_seconds gives more", steps.size() - at,
                      plural(std::ssize(steps), "step"), options.most_seconds));
      break;
    }
    if (const std::optional<TimedStep> first = time_where_it_fits(step)) {
      say(fmt::format("  {:<60}{:>9.4f} s a step", step.name, first->step_seconds));
      timed.emplace_back(step).add(*first);
    }
  }
  if (timed.empty())
    throw user_error("[calibrate] expected a step that fits this machine's memory, got none");
  const auto time_all_again = [&] {
    bool is_timed = false;
    for (LeastTimes& step : timed) {
      if (is_late()) break;
      const std::optional<TimedStep> again = time_where_it_fits(step.step());
      if (again) step.add(*again);
      is_timed |= again.has_value();
    }
    return is_timed;
  };
  if (!options.is_quick && !is_late())
    say("  all of them again as long as time lasts: the least time of each counts");
  while (!options.is_quick && !is_late() && time_all_again()) {
  }
  const MachineClock clock = usual_clock(repeated_steps(timed));
  if (is_disturbed(clock))
    say(fmt::format(
        "  times spread by {:.0f}%: the least of each counts as usual; calibrate again when nothing else runs",
        100 * clock.error));
  std::vector<OpSample> samples;
  for (const LeastTimes& step : timed) step.append_to(samples);
  OpCosts costs(limits, std::move(samples));
  costs.set_clock(clock);
  return costs;
}

MachineClock usual_clock(const std::vector<RepeatedStep>& steps) {
  constexpr double kDeviationsOfAMedian = 1.4826;  // of a normal distribution
  if (steps.empty()) return {};
  double products = 0, memory = 0;  // mean times ÷ least ones, over all that was timed
  std::vector<double> differences;  // of each two times of a step
  double times = 0;
  const std::vector<size_t> quietest = quietest_times(steps);
  for (const RepeatedStep& step : steps) {
    for (size_t at = 0; at < quietest.size(); ++at) {
      const StepSums& one = step.timed[quietest[at]];
      products += step.least.products > 0 ? one.products / step.least.products : 1;
      memory += step.least.memory > 0 ? one.memory / step.least.memory : 1;
      ++times;
      for (size_t other = 0; other < at; ++other)
        differences.push_back(std::abs(std::log(one.all() / step.timed[quietest[other]].all())));
    }
  }
  // Two that spread alike differ by the root of two times as much.
  const double spread = kDeviationsOfAMedian * median(std::move(differences)) / std::numbers::sqrt2;
  const MachineClock clock = {
      .products = products / times, .memory = memory / times, .spread = spread, .error = spread};
  return is_disturbed(clock) ? MachineClock{.error = spread} : clock;
}

MachineClock anchored_clock(const OpCosts& costs, const std::shared_ptr<const Backend>& backend) {
  constexpr size_t kTimes = 3;
  MachineClock clock = costs.clock();
  const double least_difference = std::max(kLeastDifference, clock.spread);
  const auto is_usual = [&](const AnchorRatios& now) {
    return std::abs(std::log(now.all)) <= least_difference;
  };
  std::vector<AnchorRatios> timed;
  try {
    do {
      timed.push_back(anchor_ratios(costs, time_step(anchor_step(), kAnchorSteps, backend).nodes));
    } while (timed.size() < kTimes && !is_usual(timed.front()));
  } catch (const UserError&) {
    clock.error = std::max(clock.error, kUnanchored);
    return clock;
  }
  const AnchorRatios now = middle_of(std::move(timed));
  clock.error = std::hypot(now.error, clock.spread);
  if (is_usual(now)) return clock;
  clock.products *= now.products;
  clock.memory *= now.memory;
  return clock;
}

}  // namespace shoehorn
