#include "train/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "analysis/step_profile.h"
#include "base/error.h"
#include "data/class_weights.h"
#include "ranks/agreement.h"
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
  session_.replicate();
  order_.resize(static_cast<size_t>(samples.size()));
  std::iota(order_.begin(), order_.end(), 0);
  for (int64_t from = 0; from < samples.size();) {
    if (options_.ranks != nullptr) {
      add_round(samples, from);
      from += options_.batch_size * options_.ranks->size();
    } else {
      add_batch(samples, from, std::min(options_.batch_size, samples.size() - from));
      from += options_.batch_size;
    }
  }
  result_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The batch of these samples is in the program's inputs then.
std::span<const int64_t> Evaluation::pack(const Dataset& dataset, int64_t from, int64_t size) {
  const auto samples =
      std::span<const int64_t>(order_).subspan(static_cast<size_t>(from), static_cast<size_t>(size));
  inputs_.wait_until_free();
  pack_micro_batch(dataset, samples, 0,
                   {.micro_batch_size = options_.batch_size, .pad_to_max_length = options_.pad_to_max_length},
                   inputs_.batch());
  return samples;
}

void Evaluation::run_batch(const Dataset& dataset, int64_t from, int64_t size,
                           const std::function<void(const BatchResult&)>& use) {
  const ProgramFamily& family = session_.family();
  Executor& executor = session_.executor();
  StepProfile* const profile = options_.profile;
  const double begin = now_seconds();
  // The first batch meets cold caches and untouched code: it is not profiled.
  if (profile != nullptr && result_.batches > 0) profile->begin_step(result_.batches + 1, begin);
  const std::span<const int64_t> samples = pack(dataset, from, size);
  inputs_.send();
  if (profile != nullptr) profile->host_work(HostWork::kDataWait, begin, now_seconds());
  const double weight = weight_of(dataset, samples);
  const MicroBatch& batch = inputs_.batch();
  counts_.clear();
  append_counts(batch, counts_);
  executor.write_scalar(family.scalars.target_count, weight > 0 ? static_cast<float>(weight) : 1.0F);
  const ProgramId program =
      family.find(ProgramKind::kEvaluate, family.evaluation_buckets.smallest_for(needed_capacity(batch)));
  std::span<NodeTimes> times;
  if (profile != nullptr) times = profile->begin_run(program, counts_);
  executor.run(program, counts_, times);
  BatchResult result{.loss = executor.read_scalar<float>(program, family.program(program).result("loss"))};
  if (task_.counts_right_targets()) {
    const ValueId count = family.program(program).result("right");
    result.right = std::llround(executor.read_scalar<float>(program, count));
  }
  std::optional<ReadView> outputs;
  if (scored_) {
    outputs.emplace(executor, program, family.program(program).result(*scored_), 0,
                    size * static_cast<int64_t>(sizeof(float)) * task_.num_labels());
    result.rows = outputs->as<float>();
  }
  use(result);
}

double Evaluation::weight_of(const Dataset& dataset, std::span<const int64_t> samples) const {
  double weight = 0;
  for (const int64_t sample : samples)
    weight += target_weight(dataset, sample, session_.options().step.class_weights);
  return weight;
}

// The labels of the samples are in the inputs.
void Evaluation::count_batch(const Dataset& dataset, std::span<const int64_t> samples,
                             const BatchResult& batch) {
  if (dataset.label_kind() != LabelKind::kNone) {
    const double weight = weight_of(dataset, samples);
    for (const int64_t sample : samples) result_.loss.targets += dataset.target_items(sample);
    result_.loss.right += batch.right;
    loss_sum_ += static_cast<double>(batch.loss) * weight;
    loss_of_samples_ += static_cast<double>(batch.loss) * static_cast<double>(samples.size());
    weight_sum_ += weight;
    samples_with_labels_ += std::ssize(samples);
    result_.score->add(batch.rows, inputs_.batch());
  }
  if (options_.on_outputs) options_.on_outputs(batch.rows);
  result_.samples += std::ssize(samples);
  ++result_.batches;
  if (options_.profile != nullptr) options_.profile->end_step();
  if (options_.on_progress) options_.on_progress(result_.samples);
}

void Evaluation::add_batch(const Dataset& dataset, int64_t from, int64_t size) {
  const auto samples =
      std::span<const int64_t>(order_).subspan(static_cast<size_t>(from), static_cast<size_t>(size));
  run_batch(dataset, from, size, [&](const BatchResult& result) { count_batch(dataset, samples, result); });
}

// A batch of each rank, from sample `from` on.
void Evaluation::add_round(const Dataset& dataset, int64_t from) {
  Communicator& ranks = *options_.ranks;
  agree_on_stop(ranks);
  const auto from_of = [&](int32_t rank) { return from + rank * options_.batch_size; };
  const auto size_of = [&](int32_t rank) {
    return std::clamp<int64_t>(dataset.size() - from_of(rank), 0, options_.batch_size);
  };
  const size_t row = scored_ ? sizeof(float) * static_cast<size_t>(task_.num_labels()) : 0;
  constexpr size_t kNumbers = sizeof(float) + sizeof(int64_t);
  std::vector<std::byte> message(kNumbers + row * static_cast<size_t>(options_.batch_size));
  if (size_of(ranks.rank()) > 0) {
    run_batch(dataset, from_of(ranks.rank()), size_of(ranks.rank()), [&](const BatchResult& own) {
      std::memcpy(message.data(), own.rows.data(), own.rows.size_bytes());
      std::memcpy(message.data() + message.size() - kNumbers, &own.loss, sizeof(own.loss));
      std::memcpy(message.data() + message.size() - sizeof(own.right), &own.right, sizeof(own.right));
    });
  }
  // Where weights are gathered within the program all ranks run it: one without a batch runs the first's.
  const auto& shards = session_.family().shards;
  const bool gathers =
      std::any_of(shards.begin(), shards.end(), [](const ShardedStorage& shard) { return !shard.is_kept; });
  if (size_of(ranks.rank()) == 0 && gathers) run_batch(dataset, from, size_of(0), [](const BatchResult&) {});
  const std::vector<std::vector<std::byte>> messages = gather_bytes(ranks, message);
  for (int32_t rank = 0; rank < ranks.size() && size_of(rank) > 0; ++rank) {
    const std::vector<std::byte>& told = messages[static_cast<size_t>(rank)];
    BatchResult result;
    result.rows = {reinterpret_cast<const float*>(told.data()),
                   static_cast<size_t>(size_of(rank)) * row / sizeof(float)};
    std::memcpy(&result.loss, told.data() + told.size() - kNumbers, sizeof(result.loss));
    std::memcpy(&result.right, told.data() + told.size() - sizeof(result.right), sizeof(result.right));
    count_batch(dataset, pack(dataset, from_of(rank), size_of(rank)), result);
  }
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
