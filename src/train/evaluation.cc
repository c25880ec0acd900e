#include "train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "analysis/step_profile.h"
#include "base/error.h"
#include "data/class_weights.h"
#include "train/results.h"

namespace shoehorn {

BatchCapacity batch_capacity_of(const Dataset& dataset, int64_t batch_size, int64_t pad_to_max_length) {
  BatchOptions options;
  options.micro_batch_size = batch_size;
  options.pad_to_max_length = pad_to_max_length;
  return micro_batch_capacity(dataset, options);
}

Evaluation::Evaluation(Session& session, const Task& task, EvaluationOptions options)
    : session_(session),
      task_(task),
      options_(std::move(options)),
      scored_(task.scored_output()),
      inputs_(session.executor(), session.family().evaluation_batch),
      result_{.score = task.make_score()} {
  CHECK(session.family().find(ProgramKind::kEvaluate).valid(), "the session has no evaluation program");
}

void Evaluation::lend_memory(int64_t samples) {
  const std::span<std::byte> memory = session_.score_memory();
  if (std::ssize(memory) >= task_.score_bytes(samples)) result_.score->keep_in(memory);
}

void Evaluation::add(const Dataset& samples) {
  const auto start = std::chrono::steady_clock::now();
  order_.resize(static_cast<size_t>(samples.size()));
  std::iota(order_.begin(), order_.end(), 0);
  for (int64_t from = 0; from < samples.size(); from += options_.batch_size)
    add_batch(samples, from, std::min(options_.batch_size, samples.size() - from));
  result_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Evaluation::add_batch(const Dataset& dataset, int64_t from, int64_t size) {
  const ProgramFamily& family = session_.family();
  Executor& executor = session_.executor();
  StepProfile* const profile = options_.profile;
  const double begin = now_seconds();
  // The first batch meets cold caches and untouched code: it is not profiled.
  if (profile != nullptr && result_.batches > 0) profile->begin_step(result_.batches + 1, begin);
  const auto samples =
      std::span<const int64_t>(order_).subspan(static_cast<size_t>(from), static_cast<size_t>(size));
  MicroBatch& batch = inputs_.batch();
  inputs_.wait_until_free();
  pack_micro_batch(dataset, samples, 0,
                   {.micro_batch_size = options_.batch_size, .pad_to_max_length = options_.pad_to_max_length},
                   batch);
  inputs_.send();
  if (profile != nullptr) profile->host_work(HostWork::kDataWait, begin, now_seconds());
  const std::vector<float>& class_weights = session_.options().step.class_weights;
  int64_t targets = 0;
  double weight = 0;
  for (const int64_t sample : samples) {
    targets += dataset.target_items(sample);
    weight += target_weight(dataset, sample, class_weights);
  }
  counts_.clear();
  append_counts(batch, counts_);
  executor.write_scalar(family.scalars.target_count, weight > 0 ? static_cast<float>(weight) : 1.0F);
  const ProgramId program =
      family.find(ProgramKind::kEvaluate, family.evaluation_buckets.smallest_for(needed_capacity(batch)));
  if (profile != nullptr) profile->begin_run(program, counts_);
  executor.run(program, counts_);
  if (profile != nullptr) profile->end_run();
  const auto loss = executor.read_scalar<float>(program, family.program(program).result("loss"));
  std::optional<ReadView> outputs;
  if (scored_) {
    outputs.emplace(executor, program, family.program(program).result(*scored_), 0,
                    size * static_cast<int64_t>(sizeof(float)) * task_.num_labels());
  }
  const std::span<const float> rows = outputs ? outputs->as<float>() : std::span<const float>();
  if (dataset.label_kind() != LabelKind::kNone) {
    if (task_.counts_right_targets()) {
      const ValueId count = family.program(program).result("right");
      result_.loss.right += std::llround(executor.read_scalar<float>(program, count));
    }
    loss_sum_ += static_cast<double>(loss) * weight;
    loss_of_samples_ += static_cast<double>(loss) * static_cast<double>(size);
    weight_sum_ += weight;
    result_.loss.targets += targets;
    samples_with_labels_ += size;
    result_.score->add(rows, batch);
  }
  if (options_.on_outputs) options_.on_outputs(rows);
  result_.samples += size;
  ++result_.batches;
  if (profile != nullptr) profile->end_step();
  if (options_.on_progress) options_.on_progress(result_.samples);
}

EvaluationResult Evaluation::finish() {
  EvaluationLoss& loss = result_.loss;
  if (loss.targets > 0) {
    loss.mean = weight_sum_ > 0 ? loss_sum_ / weight_sum_ : 0;
    loss.mean_of_batches = loss_of_samples_ / static_cast<double>(samples_with_labels_);
    result_.loss_metrics = task_.loss_metrics(loss);
  }
  return std::move(result_);
}

EvaluationResult evaluate(Session& session, const Dataset& dataset, const Task& task,
                          const EvaluationOptions& options) {
  Evaluation evaluation(session, task, options);
  evaluation.lend_memory(dataset.size());
  evaluation.add(dataset);
  return evaluation.finish();
}

std::vector<std::string> evaluation_metric_names(const Task& task, bool loss_only,
                                                 const std::string& prefix) {
  std::vector<std::string> names = {"runtime", "samples_per_second", "steps_per_second"};
  for (const auto& [name, value] : task.loss_metrics({})) names.push_back(name);
  if (!loss_only) {
    const std::unique_ptr<Score> score = task.make_score();
    for (std::string& name : score->metric_names()) names.push_back(std::move(name));
    for (const auto& [name, value] : score->details(task.label_map().names).averages) names.push_back(name);
  }
  for (std::string& name : names) name = prefix + name;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string common_metric_name(const std::string& metric) {
  const std::string prefix = metric.starts_with("eval_") ? "eval_" : "";
  const std::string name = metric.substr(prefix.size());
  if (name == "mcc") return prefix + "matthews_correlation";
  if (name == "spearman") return prefix + "spearmanr";
  return metric;
}

Metrics evaluation_metrics(const EvaluationResult& result, bool loss_only, const std::string& prefix) {
  Metrics metrics;
  if (result.score->total() > 0) {
    if (!loss_only) {
      for (const auto& [name, value] : result.score->metrics()) metrics[prefix + name] = value;
    }
    for (const auto& [name, value] : result.loss_metrics) metrics[prefix + name] = value;
  }
  const std::string split = prefix.substr(0, prefix.size() - 1);
  metrics.merge(speed_metrics(split, result.seconds, result.samples, result.batches));
  return metrics;
}

}  // namespace shoehorn
