// Helpers of the tests whose micro-batches the packer fills: models that are trained on a class for each token, and runs
// of their steps on a data set.
#pragma once

#include <random>

#include "data/batch.h"
#include "toy_training.h"

namespace shoehorn::test_support {

using Rows = Dataset::Rows;

// A class for each token of a stream.
class TokenClasses final : public Task {
 public:
  explicit TokenClasses(LabelKind kind) : Task(classes(kVocabulary)), kind_(kind) {}
  LabelShape label_shape() const override { return {kind_}; }
  void check_labels(const Dataset& dataset, const char* /*which*/) const override {
    ASSERT_EQ(dataset.label_kind(), kind_);
  }
  Tensor loss(ModelBuilder& builder, const Outputs& outputs, const LossOptions& options) const override {
    return builder.cross_entropy(outputs.at("logits"), options.label_smoothing);
  }
  std::unique_ptr<Score> make_score() const override { return nullptr; }
  PredictionForm prediction_form() const override { return PredictionForm::kValues; }
  Prediction prediction(std::span<const float> /*outputs*/) const override { return {}; }

 private:
  LabelKind kind_;
};

class ToyTokenModel final : public Model {
 public:
  ToyTokenModel(LabelKind labels, std::function<Tensor(ModelBuilder&)> forward)
      : task_(labels), forward_(std::move(forward)) {}
  Outputs forward(ModelBuilder& builder) const override { return forward_(builder); }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 20; }
  int64_t vocab_size() const override { return kVocabulary; }

 private:
  TokenClasses task_;
  std::function<Tensor(ModelBuilder&)> forward_;
};

// Up to `longest` ids, none of them 0.
inline std::vector<int64_t> random_row(std::mt19937& engine, int64_t longest) {
  std::vector<int64_t> row(1 + engine() % static_cast<uint32_t>(longest));
  for (int64_t& id : row) id = 1 + static_cast<int64_t>(engine() % (kVocabulary - 1));
  return row;
}

using Samples = std::vector<std::vector<int64_t>>;  // of each micro-batch

inline const Samples kSixSamples = {{0, 1, 2, 3, 4, 5}};

// A run whose micro-batches the packer fills.
class PackedRun {
 public:
  PackedRun(const Model& model, const Dataset& dataset, const StepOptions& step, const BatchOptions& packing)
      : PackedRun(model, dataset, packing, options_of(step)) {}
  // With options of the caller's; micro-batches are as large as `packing` makes them.
  PackedRun(const Model& model, const Dataset& dataset, const BatchOptions& packing, SessionOptions options)
      : dataset_(dataset),
        packing_(packing),
        session_(model, with_capacity(dataset, packing, std::move(options))) {
    session_.reserve();
    write_weights(session_, random_weights(session_));
  }

  Session& session() { return session_; }

  float step(const Samples& split, float learning_rate) {
    const ProgramFamily& family = session_.family();
    Executor& executor = session_.executor();
    executor.write_scalar(family.scalars.learning_rate, learning_rate);
    int64_t targets = 0;
    for (const auto& samples : split) {
      for (const int64_t sample : samples) targets += dataset_.target_items(sample);
    }
    executor.write_scalar(family.scalars.target_count, static_cast<float>(targets));
    int64_t sequences = 0;
    if (const ProgramId whole = family.find(ProgramKind::kTrainStep); whole.valid()) {
      std::vector<int64_t> counts;
      for (size_t m = 0; m < family.train_batches.size(); ++m) {
        const auto& samples = m < split.size() ? split[m] : std::vector<int64_t>{};
        load(family.train_batches[m], samples, sequences, counts);
      }
      executor.run(whole, counts);
    } else {
      for (size_t m = 0; m < split.size(); ++m) {
        std::vector<int64_t> counts;
        load(family.train_batches[0], split[m], sequences, counts);
        executor.run(family.find(m == 0 ? ProgramKind::kMicroBatchFirst : ProgramKind::kMicroBatchNext),
                     counts);
      }
      executor.run(family.find(ProgramKind::kUpdate), {});
    }
    add_one(family.scalars.step);
    add_one(family.scalars.applied_updates);
    return executor.read_scalar<float>(family.loss);
  }

  const std::vector<int64_t>& last_counts() const { return last_counts_; }

 private:
  static SessionOptions options_of(const StepOptions& step) {
    SessionOptions options;
    options.step = step;
    options.executor.poison = true;
    options.backend = conformance_backend(2);
    return options;
  }

  static SessionOptions with_capacity(const Dataset& dataset, const BatchOptions& packing,
                                      SessionOptions options) {
    options.train = micro_batch_capacity(dataset, packing);
    return options;
  }

  void load(const BatchInputs& to, const std::vector<int64_t>& samples, int64_t& sequences,
            std::vector<int64_t>& counts) {
    MicroBatchInputs inputs(session_.executor(), to);
    pack_micro_batch(dataset_, samples, sequences, packing_, inputs.batch());
    inputs.send();
    last_counts_.clear();
    append_counts(inputs.batch(), last_counts_);
    counts.insert(counts.end(), last_counts_.begin(), last_counts_.end());
    sequences += inputs.batch().sequences;
  }

  void add_one(StorageId counter) {
    Executor& executor = session_.executor();
    executor.write_scalar(counter, executor.read_scalar<int32_t>(counter) + 1);
  }

  Dataset dataset_;
  BatchOptions packing_;
  Session session_;
  std::vector<int64_t> last_counts_;
};

inline BatchOptions packing_of(int64_t samples, int64_t padded = 0, int64_t decoder_padded = 0) {
  return {
      .micro_batch_size = samples, .pad_to_max_length = padded, .pad_decoder_to_max_length = decoder_padded};
}

inline Gradients gradients_of(const Model& model, const Dataset& dataset, const StepOptions& step,
                              const BatchOptions& packing, const Samples& split) {
  PackedRun run(model, dataset, step, packing);
  const Weights before = read_weights(run.session());
  Gradients gradients;
  gradients.loss = run.step(split, 1.0F);
  for (const auto& [name, after] : read_weights(run.session())) {
    std::vector<double>& values = gradients.values[name];
    for (size_t i = 0; i < after.size(); ++i)
      values.push_back(static_cast<double>(before.at(name)[i]) - after[i]);
  }
  return gradients;
}

}  // namespace shoehorn::test_support
