#include "train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>

#include "analysis/step_profile.h"
#include "base/error.h"
#include "data/class_weights.h"
#include "session/batch_feed.h"
#include "train/results.h"

namespace shoehorn {

BatchCapacity batch_capacity_of(const Dataset& dataset, int64_t batch_size, int64_t pad_to_max_length) {
  BatchOptions options;
  options.micro_batch_size = batch_size;
  options.pad_to_max_length = pad_to_max_length;
  return micro_batch_capacity(dataset, options);
}

EvaluationResult evaluate(Session& session, const Dataset& dataset, const Task& task,
                          const EvaluationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  EvaluationResult result{.score = task.make_score()};
  const ProgramFamily& family = session.family();
  CHECK(family.find(ProgramKind::kEvaluate).valid(), "the session has no evaluation program");
  Executor& executor = session.executor();
  StepProfile* const profile = options.profile;
  MicroBatchInputs inputs(executor, family.evaluation_batch);
  MicroBatch& batch = inputs.batch();
  BatchOptions packing;
  packing.micro_batch_size = options.batch_size;
  packing.pad_to_max_length = options.pad_to_max_length;
  std::vector<int64_t> order(static_cast<size_t>(dataset.size()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> counts;
  double loss_sum = 0;
  double loss_of_samples = 0;
  double weight_sum = 0;
  const std::optional<std::string> scored = task.scored_output();
  const std::vector<float>& class_weights = session.options().step.class_weights;
  const std::span<std::byte> memory = session.score_memory();
  if (std::ssize(memory) >= task.score_bytes(dataset.size())) result.score->keep_in(memory);
  for (int64_t from = 0; from < dataset.size(); from += options.batch_size) {
    const auto size = static_cast<size_t>(std::min(options.batch_size, dataset.size() - from));
    const double begin = now_seconds();
    // The first batch meets cold caches and untouched code: it is not profiled.
    if (profile != nullptr && result.batches > 0) profile->begin_step(result.batches + 1, begin);
    const auto samples = std::span<const int64_t>(order).subspan(static_cast<size_t>(from), size);
    inputs.wait_until_free();
    pack_micro_batch(dataset, samples, 0, packing, batch);
    inputs.send();
    if (profile != nullptr) profile->host_work(HostWork::kDataWait, begin, now_seconds());
    int64_t targets = 0;
    double weight = 0;
    for (const int64_t sample : samples) {
      targets += dataset.target_items(sample);
      weight += target_weight(dataset, sample, class_weights);
    }
    counts.clear();
    append_counts(batch, counts);
    executor.write_scalar(family.scalars.target_count, weight > 0 ? static_cast<float>(weight) : 1.0F);
    const ProgramId program =
        family.find(ProgramKind::kEvaluate, family.evaluation_buckets.smallest_for(needed_capacity(batch)));
    if (profile != nullptr) profile->begin_run(program, counts);
    executor.run(program, counts);
    if (profile != nullptr) profile->end_run();
    const auto loss = executor.read_scalar<float>(program, family.program(program).result("loss"));
    std::optional<ReadView> outputs;
    if (scored) {
      outputs.emplace(executor, program, family.program(program).result(*scored), 0,
                      static_cast<int64_t>(size * sizeof(float)) * task.num_labels());
    }
    const std::span<const float> rows = outputs ? outputs->as<float>() : std::span<const float>();
    if (task.counts_right_targets()) {
      const ValueId count = family.program(program).result("right");
      result.loss.right += std::llround(executor.read_scalar<float>(program, count));
    }
    loss_sum += static_cast<double>(loss) * weight;
    loss_of_samples += static_cast<double>(loss) * static_cast<double>(size);
    result.loss.targets += targets;
    weight_sum += weight;
    if (dataset.label_kind() != LabelKind::kNone) result.score->add(rows, batch);
    if (options.on_outputs) options.on_outputs(rows);
    result.samples += static_cast<int64_t>(size);
    ++result.batches;
    if (profile != nullptr) profile->end_step();
    if (options.on_progress) options.on_progress(result.samples);
  }
  if (result.loss.targets > 0) {
    result.loss.mean = weight_sum > 0 ? loss_sum / weight_sum : 0;
    result.loss.mean_of_batches = loss_of_samples / static_cast<double>(result.samples);
    result.loss_metrics = task.loss_metrics(result.loss);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
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
