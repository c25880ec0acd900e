#include "train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "train/batch_feed.h"
#include "train/run_report.h"
#include "train/step_profile.h"

namespace shoehorn {

BatchCapacity batch_capacity_of(const Dataset& dataset, int64_t batch_size, int64_t pad_to_max_length) {
  BatchOptions options;
  options.micro_batch_size = batch_size;
  options.pad_to_max_length = pad_to_max_length;
  return micro_batch_capacity(dataset, options);
}

EvaluationResult evaluate(Session& session, const Dataset& dataset, int64_t num_labels,
                          const EvaluationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  EvaluationResult result{.counts = ConfusionCounts(num_labels)};
  const ProgramFamily& family = session.family();
  const ProgramId program = family.find(ProgramKind::kEvaluate);
  CHECK(program.valid(), "the session has no evaluation program");
  const ValueId logits_value = family.program(program).result("logits");
  const ValueId loss_value = family.program(program).result("loss");
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
  int64_t labelled = 0;
  for (int64_t from = 0; from < dataset.size(); from += options.batch_size) {
    const auto size = static_cast<size_t>(std::min(options.batch_size, dataset.size() - from));
    const double begin = now_seconds();
    // The first batch meets cold caches and untouched code: it is not profiled.
    if (profile != nullptr && result.batches > 0) profile->begin_step(result.batches + 1, begin);
    pack_micro_batch(dataset, std::span<const int64_t>(order).subspan(static_cast<size_t>(from), size), 0,
                     packing, batch);
    inputs.send();
    if (profile != nullptr) profile->host_work(HostWork::kDataWait, begin, now_seconds());
    const auto labels = batch.ints(BatchColumn::kClassLabels).first(size);
    const auto targets = std::ssize(labels) - std::ranges::count(labels, kIgnoredLabel);
    counts.clear();
    append_counts(batch, counts);
    executor.write_scalar(family.scalars.target_count, static_cast<float>(std::max<int64_t>(1, targets)));
    if (profile != nullptr) profile->begin_run(program, counts);
    executor.run(program, counts);
    if (profile != nullptr) profile->end_run();
    const auto loss = executor.read_scalar<float>(program, loss_value);
    const ReadView logits(executor, program, logits_value, 0,
                          static_cast<int64_t>(size * sizeof(float)) * num_labels);
    const std::span<const float> rows = logits.as<float>();
    loss_sum += static_cast<double>(loss) * static_cast<double>(targets);
    labelled += targets;
    result.counts.add_batch(rows, labels);
    if (options.on_logits) options.on_logits(rows);
    result.samples += static_cast<int64_t>(size);
    ++result.batches;
    if (profile != nullptr) profile->end_step();
    if (options.on_progress) options.on_progress(result.samples);
  }
  result.loss = labelled > 0 ? loss_sum / static_cast<double>(labelled) : 0;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

Metrics evaluation_metrics(const EvaluationResult& result, const std::string& prefix) {
  Metrics metrics;
  if (result.counts.total() > 0) {
    metrics = result.counts.metrics(prefix);
    metrics[prefix + "loss"] = result.loss;
  }
  const std::string split = prefix.substr(0, prefix.size() - 1);
  metrics.merge(speed_metrics(split, result.seconds, result.samples, result.batches));
  return metrics;
}

}  // namespace shoehorn
