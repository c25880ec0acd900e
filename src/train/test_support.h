// Shared by the tests of training: a small BERT, samples that it can learn, and a trainer's weights and log.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/sanitizer_testing.h"
#include "data/dataset.h"
#include "models/bert.h"
#include "state/weights.h"
#include "train/trainer.h"

namespace shoehorn::test_support {

inline BertConfig tiny_bert(float dropout = 0) {
  BertConfig config;
  config.vocab_size = 61;
  config.hidden_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 3;
  config.intermediate_size = 40;
  config.max_position_embeddings = 24;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = config.classifier_dropout = dropout;
  config.labels = classes(3);
  return config;
}

// The number of fp32 roundings behind a logit of tiny_bert(): the lengths of the sums that follow each other.
// A layer has sums for values (24), scores (8), attention (24 tokens), its output (24), two norms (24 each)
// and the feed-forward (24 and 40); the embeddings have a norm; pooler and classifier have sums of 24.
inline constexpr double kTinyBertRoundings = 24 + 2 * (24 + 8 + 24 + 24 + 2 * 24 + 24 + 40) + 2 * 24;

// The number of roundings to half precision, if that is what is stored and sums are fp32: 8 results and 4
// matrices per layer, 5 results and 3 matrices around the layers.
inline constexpr double kTinyBertHalfRoundings = 2 * (8 + 4) + 5 + 3;

// How far `roundings` roundings to `dtype` move a value of `magnitude`. Each is off by at most half an
// epsilon, in either direction: the standard deviation of their sum is sqrt(roundings / 3) halves, and this
// is five times that.
inline double rounding_error(double roundings, double magnitude, DType dtype = DType::kF32) {
  return 5 * std::sqrt(roundings / 3) * dtype_epsilon(dtype) / 2 * std::abs(magnitude);
}

// For a loss over `samples` samples with 3 classes, from given logits: an exponential and a sum per class, a
// logarithm and a difference, then the mean.
inline double loss_rounding_error(int64_t samples, double loss) {
  return rounding_error(2 * 3 + 2 + static_cast<double>(samples), loss);
}

// Samples of 1 to `longest` random tokens. The first token determines the label; those that are silent have none.
inline Dataset tiny_samples(int64_t count, uint32_t seed, int64_t longest = 20,
                            const std::function<bool(int64_t sample)>& is_silent = {}) {
  std::mt19937 random(seed);
  Dataset::Rows ids;
  Dataset::Rows types;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = 1 + static_cast<int64_t>(random()) % longest;
    std::vector<int64_t>& row = ids.emplace_back();
    for (int64_t t = 0; t < length; ++t) row.push_back(1 + static_cast<int64_t>(random()) % 60);
    std::vector<int64_t>& segments = types.emplace_back();
    for (int64_t t = 0; t < length; ++t) segments.push_back(2 * t < length ? 0 : 1);
    labels.push_back(is_silent && is_silent(i) ? -100 : row[0] % 3);
  }
  return Dataset::from_columns({{"input_ids", ids}, {"token_type_ids", types}, {"labels", labels}});
}

// Arguments of a run that logs every step and writes nothing.
inline TrainingArguments quiet_arguments(int64_t batch_size = 4) {
  TrainingArguments args;
  args.per_device_train_batch_size = batch_size;
  args.save_strategy = "no";
  args.logging_steps = 1;
  args.learning_rate = 1e-3;
  return args;
}

using NamedWeights = std::map<std::string, std::vector<float>>;

inline NamedWeights weights_of(Session& session) {
  NamedWeights weights;
  for (const Parameter& parameter : session.state().parameters()) {
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<size_t>(parameter.local_elements()));
    read_parameter(session.executor(), parameter, 0, values);
  }
  return weights;
}

// The values of `key` in the log, in order.
inline std::vector<double> logged(const TrainerState& state, const std::string& key) {
  std::vector<double> values;
  for (const Metrics& entry : state.log_history) {
    if (const auto found = entry.find(key); found != entry.end())
      values.push_back(metric_number(found->second));
  }
  return values;
}

// The steps of the entries of the log that have `key`, in order.
inline std::vector<int64_t> steps_with(const TrainerState& state, const std::string& key) {
  std::vector<int64_t> steps;
  for (const Metrics& entry : state.log_history) {
    if (entry.contains(key)) steps.push_back(static_cast<int64_t>(metric_number(entry.at("step"))));
  }
  return steps;
}

}  // namespace shoehorn::test_support
