// Helpers of the tests that cross rooms: small models, random samples, and runs of a few optimizer steps
// whose losses and weights are compared.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "conformance_backend.h"
#include "models/bert.h"
#include "session/batch_feed.h"
#include "session/loss_scale_state.h"
#include "session/session.h"
#include "state/weights.h"
#include "tasks/single_label_classification.h"

namespace shoehorn::test_support {

// A model from a function; what only checkpoints and data ask for is made up.
class ToyModel final : public Model {
 public:
  explicit ToyModel(std::function<Tensor(ModelBuilder&)> forward) : forward_(std::move(forward)) {}
  Outputs forward(ModelBuilder& builder) const override { return forward_(builder); }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 32; }
  int64_t vocab_size() const override { return kVocabulary; }

  static constexpr int64_t kVocabulary = 53;

 private:
  std::function<Tensor(ModelBuilder&)> forward_;
  SingleLabelClassification task_{2};
};

inline constexpr int64_t kVocabulary = ToyModel::kVocabulary;
inline constexpr int64_t kHidden = 24;  // of the encoder below, and of most toy models

inline BertConfig small_bert(float dropout = 0.1F) {
  BertConfig config;
  config.vocab_size = kVocabulary;
  config.hidden_size = kHidden;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 3;
  config.intermediate_size = 40;
  config.max_position_embeddings = 32;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = config.classifier_dropout = dropout;
  config.labels = classes(3);
  return config;
}

struct Sample {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
  int32_t label = 0;
};

inline std::vector<Sample> random_samples(int64_t count, uint32_t seed, int32_t longest = 20,
                                          int32_t labels = 3) {
  std::mt19937 generator(seed);
  const auto below = [&](int32_t n) { return static_cast<int32_t>(generator() % static_cast<uint32_t>(n)); };
  std::vector<Sample> samples(static_cast<size_t>(count));
  for (Sample& sample : samples) {
    const int32_t length = 1 + below(longest);
    for (int32_t t = 0; t < length; ++t) {
      sample.ids.push_back(1 + below(kVocabulary - 1));
      sample.types.push_back(t * 2 < length ? 0 : 1);
    }
    sample.label = below(labels);
  }
  return samples;
}

// Packs the samples of these indices, in this order, into a micro-batch; the index is the sample's place in
// the effective batch. Returns the micro-batch's counts. No indices: an absent micro-batch.
inline std::vector<int64_t> load_batch(Executor& executor, const BatchInputs& to,
                                       const std::vector<Sample>& samples,
                                       const std::vector<int32_t>& indices) {
  MicroBatchInputs inputs(executor, to);
  const MicroBatch& batch = inputs.batch();
  const auto set = [&](BatchColumn column, int64_t at, int32_t value) {
    if (batch.has(column)) batch.ints(column)[static_cast<size_t>(at)] = value;
  };
  int64_t row = 0;
  for (size_t s = 0; s < indices.size(); ++s) {
    const Sample& sample = samples[static_cast<size_t>(indices[s])];
    const auto at = static_cast<int64_t>(s);
    set(BatchColumn::kSequenceStart, at, static_cast<int32_t>(row));
    set(BatchColumn::kSequenceLength, at, static_cast<int32_t>(sample.ids.size()));
    set(BatchColumn::kSequenceSample, at, indices[s]);
    set(BatchColumn::kSequencePosition, at, 0);
    set(BatchColumn::kClassLabels, at, sample.label);
    for (size_t t = 0; t < sample.ids.size(); ++t, ++row) {
      set(BatchColumn::kInputIds, row, sample.ids[t]);
      set(BatchColumn::kTokenTypeIds, row, sample.types[t]);
      set(BatchColumn::kPositionIds, row, static_cast<int32_t>(t));
      set(BatchColumn::kTokenSample, row, indices[s]);
    }
  }
  for (; row % kTokenMultiple != 0; ++row) {
    for (const BatchColumn column : batch_columns()) {
      if (batch_column_info(column).axis == BatchAxis::kTokens) set(column, row, 0);
    }
  }
  inputs.send();
  return {row, static_cast<int64_t>(indices.size()), 0};
}

using Weights = std::map<std::string, std::vector<float>>;

inline Weights read_weights(Session& session) {
  Weights weights;
  for (const Parameter& parameter : session.state().parameters()) {
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<size_t>(parameter.local_elements()));
    read_parameter(session.executor(), parameter, 0, values);
  }
  return weights;
}

inline void write_weights(Session& session, const Weights& weights) {
  for (const Parameter& parameter : session.state().parameters()) {
    write_parameter(session.executor(), parameter, 0, weights.at(parameter.name));
  }
}

// Every parameter away from zero, one by one by its name: the same for every arrangement of the step.
inline Weights random_weights(const Session& session) {
  Weights weights;
  for (const Parameter& parameter : session.state().parameters()) {
    uint32_t seed = 1;
    for (const char c : parameter.name) seed = seed * 31 + static_cast<unsigned char>(c);
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(
        parameter.initializer.kind == Initializer::Kind::kOnes ? 1.0F : 0.0F, 0.2F);
    std::vector<float>& values = weights[parameter.name];
    values.resize(static_cast<size_t>(parameter.local_elements()));
    for (float& value : values) value = normal(generator);
  }
  return weights;
}

// Samples of one effective batch, by micro-batch; an empty one is absent.
using Split = std::vector<std::vector<int32_t>>;

inline SessionOptions session_options(const StepOptions& step, int64_t sequences = 8) {
  SessionOptions options;
  options.step = step;
  options.train = {160, sequences, 20};
  options.evaluation = {160, sequences, 20};
  options.executor.poison = true;
  options.backend = conformance_backend(2);
  return options;
}

// A reserved session with random weights.
class TrainingRun {
 public:
  TrainingRun(const Model& model, const SessionOptions& options) : session_(model, options) {
    session_.reserve();
    write_weights(session_, random_weights(session_));
  }

  Session& session() { return session_; }
  Executor& executor() { return session_.executor(); }
  float loss() { return executor().read_scalar<float>(session_.family().loss); }

  // Forward and backward of every micro-batch; the update too where it is part of the same program.
  void accumulate(const std::vector<Sample>& samples, const Split& split, float learning_rate) {
    const ProgramFamily& family = session_.family();
    executor().write_scalar(family.scalars.learning_rate, learning_rate);
    size_t targets = 0;
    for (const auto& indices : split) targets += indices.size();
    executor().write_scalar(family.scalars.target_count, static_cast<float>(targets));
    if (const ProgramId step = family.find(ProgramKind::kTrainStep); step.valid()) {
      ASSERT_LE(split.size(), family.train_batches.size());
      std::vector<int64_t> counts;
      for (size_t m = 0; m < family.train_batches.size(); ++m) {
        const auto loaded = load_batch(executor(), family.train_batches[m], samples,
                                       m < split.size() ? split[m] : std::vector<int32_t>{});
        counts.insert(counts.end(), loaded.begin(), loaded.end());
      }
      executor().run(step, counts);
      return;
    }
    for (size_t m = 0; m < split.size(); ++m) {
      executor().run(family.find(m == 0 ? ProgramKind::kMicroBatchFirst : ProgramKind::kMicroBatchNext),
                     load_batch(executor(), family.train_batches[0], samples, split[m]));
    }
  }

  // One optimizer step; returns its loss.
  float step(const std::vector<Sample>& samples, const Split& split, float learning_rate) {
    accumulate(samples, split, learning_rate);
    if (const ProgramId update = session_.family().find(ProgramKind::kUpdate); update.valid())
      executor().run(update, {});
    add_one(session_.family().scalars.step);
    if (!was_skipped(executor(), session_.family().loss_scale))
      add_one(session_.family().scalars.applied_updates);
    return loss();
  }

  // Loss and logits of the evaluation program.
  std::vector<float> evaluate(const std::vector<Sample>& samples, const std::vector<int32_t>& indices,
                              int64_t labels) {
    const ProgramFamily& family = session_.family();
    executor().write_scalar(family.scalars.target_count, static_cast<float>(indices.size()));
    const ProgramId evaluate = family.find(ProgramKind::kEvaluate);
    executor().run(evaluate, load_batch(executor(), family.evaluation_batch, samples, indices));
    const Program& program = family.program(evaluate);
    std::vector<float> values(indices.size() * static_cast<size_t>(labels));
    executor().read(evaluate, program.result("logits"), 0, std::as_writable_bytes(std::span(values)));
    values.push_back(executor().read_scalar<float>(evaluate, program.result("loss")));
    return values;
  }

 private:
  void add_one(StorageId counter) {
    executor().write_scalar(counter, executor().read_scalar<int32_t>(counter) + 1);
  }

  Session session_;
};

// Settings under which one step of learning rate 1 shows every gradient as w - w'.
inline StepOptions gradient_options() {
  StepOptions step;
  step.optimizer.settings = SgdSettings{};
  step.max_grad_norm = 0;
  return step;
}

struct Gradients {
  float loss = 0;
  std::map<std::string, std::vector<double>> values;
};

inline Gradients gradients_of(const Model& model, const StepOptions& step, const std::vector<Sample>& samples,
                              const Split& split) {
  TrainingRun run(model, session_options(step));
  const Weights before = read_weights(run.session());
  Gradients gradients;
  gradients.loss = run.step(samples, split, 1.0F);
  for (const auto& [name, after] : read_weights(run.session())) {
    std::vector<double>& values = gradients.values[name];
    for (size_t i = 0; i < after.size(); ++i)
      values.push_back(static_cast<double>(before.at(name)[i]) - after[i]);
  }
  return gradients;
}

// Equal to rounding. `roundings`: how many half steps of fp32, of each tensor's largest gradient (at least
// 1/20) and of the weights that the gradients were read from (below 2).
inline void expect_close(const Gradients& a, const Gradients& b, double roundings = 64) {
  EXPECT_NEAR(a.loss, b.loss, roundings * 0x1p-24 * std::max(1.0, std::abs(static_cast<double>(b.loss))));
  ASSERT_EQ(a.values.size(), b.values.size());
  for (const auto& [name, expected] : b.values) {
    const std::vector<double>& found = a.values.at(name);
    double largest = 0.05;
    double error = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      error = std::max(error, std::abs(expected[i] - found[i]));
    }
    EXPECT_LE(error, roundings * 0x1p-24 * largest + 4 * 0x1p-23) << name;
  }
}

}  // namespace shoehorn::test_support
