// A small model's numbers made by Transformers (tests/golden/*_make.py) beside those of a session: logits, loss and
// every gradient of the batch `main`.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "exec/executor_testing.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "model/task.h"
#include "models/registry.h"
#include "session/batch_feed.h"
#include "session/session.h"
#include "state/adapter_weights.h"
#include "state/weights.h"
#include "tasks/causal_language_modeling.h"

namespace shoehorn::test_support {

// Rows of the golden's samples as one micro-batch in the session's inputs.
class GoldenBatch {
 public:
  explicit GoldenBatch(const SafetensorsFile& file) {
    const auto& shape = file.tensor("input_ids").shape;
    width_ = shape[1];
    for (const auto& [name, values] : {std::pair{"input_ids", &ids_},
                                       {"token_type_ids", &types_},
                                       {"lengths", &lengths_},
                                       {"labels", &labels_}}) {
      values->resize(static_cast<size_t>(file.tensor(name).bytes / 4));
      file.read_into(name, std::as_writable_bytes(std::span(*values)));
    }
    label_width_ = labels_.size() / lengths_.size();
  }

  std::vector<int64_t> load(Session& session, const BatchInputs& to, const std::vector<int64_t>& rows) const {
    MicroBatchInputs inputs(session.executor(), to);
    const MicroBatch& batch = inputs.batch();
    const auto set = [&](BatchColumn column, size_t at, int32_t value) {
      if (batch.has(column)) batch.ints(column)[at] = value;
    };
    size_t token = 0;
    for (size_t s = 0; s < rows.size(); ++s) {
      const auto row = static_cast<size_t>(rows[s]);
      set(BatchColumn::kSequenceStart, s, static_cast<int32_t>(token));
      set(BatchColumn::kSequenceLength, s, lengths_[row]);
      set(BatchColumn::kSequenceSample, s, static_cast<int32_t>(s));
      set(BatchColumn::kSequencePosition, s, 0);
      if (!has_token_labels()) set(BatchColumn::kClassLabels, s, labels_[row]);
      if (batch.has(BatchColumn::kValueLabels)) {
        const auto values = batch.floats(BatchColumn::kValueLabels).subspan(s * label_width_, label_width_);
        std::memcpy(values.data(), &labels_[row * label_width_], values.size_bytes());
      }
      for (int32_t t = 0; t < lengths_[row]; ++t, ++token) {
        const size_t at = row * static_cast<size_t>(width_) + static_cast<size_t>(t);
        set(BatchColumn::kInputIds, token, ids_[at]);
        set(BatchColumn::kTokenTypeIds, token, types_[at]);
        set(BatchColumn::kPositionIds, token, t);
        set(BatchColumn::kTokenSample, token, static_cast<int32_t>(s));
        if (has_token_labels()) set(BatchColumn::kTokenLabels, token, labels_[at]);
      }
    }
    size_t padded = token;
    for (; padded % static_cast<size_t>(kTokenMultiple) != 0; ++padded) {
      for (const BatchColumn column : batch_columns()) {
        if (batch_column_info(column).axis == BatchAxis::kTokens)
          set(column, padded, column == BatchColumn::kTokenLabels ? kIgnoredLabel : 0);
      }
    }
    inputs.send();
    return {static_cast<int64_t>(padded), static_cast<int64_t>(rows.size()), 0};
  }

  // Of all rows.
  int64_t longest() const { return *std::max_element(lengths_.begin(), lengths_.end()); }

  // Labels that the loss counts.
  int64_t targets(const std::vector<int64_t>& rows) const {
    if (!has_token_labels()) return std::ssize(rows);
    return std::count_if(labels_.begin(), labels_.end(),
                         [](int32_t label) { return label != kIgnoredLabel; });
  }

 private:
  bool has_token_labels() const { return labels_.size() == ids_.size(); }

  int64_t width_ = 0;
  std::vector<int32_t> ids_, types_, lengths_;
  std::vector<int32_t> labels_;  // or floats, in their bits
  size_t label_width_ = 1;
};

// How far from float64 a number may be.
//
// fp32: 64 half steps of the tensor's largest element, for sums of up to 250 terms, 20 ops deep.
// bf16, fp16: twice what torch.autocast loses with the same weights and samples, and one step at the tensor's
// largest element. Twice, because its error is one draw of the roundings of some other order of sums, and the
// largest of a few elements may be small by chance, as may the step (decoder_make.py takes the largest of several
// draws).
class Tolerance {
 public:
  Tolerance(const StepOptions& step, const nlohmann::json& facts) : precision_(step.precision) {
    const Precision precision = step.precision;
    if (precision != Precision::kFloat32)
      autocast_ = facts["autocast"][precision == Precision::kBfloat16 ? "bf16" : "fp16"];
  }

  double loss(double expected) const { return of("loss", std::max(1.0, expected)); }
  double logits(double largest) const { return of("logits", std::max(2.0, largest)); }
  double gradient(const std::string& name, double largest) const {
    if (precision_ == Precision::kFloat32) return kFloat32Steps * std::max(0.05, largest);
    return 2 * autocast_["gradients"][name].get<double>() + step_at(largest);
  }

 private:
  static constexpr double kFloat32Steps = 64 * 0x1p-23;

  double of(const char* what, double largest) const {
    if (precision_ == Precision::kFloat32) return kFloat32Steps * largest;
    return 2 * autocast_[what].get<double>() + step_at(largest);
  }
  // The distance of this number from the next larger one.
  double step_at(double value) const {
    const int mantissa_bits = precision_ == Precision::kBfloat16 ? 7 : 10;
    return value == 0 ? 0 : std::exp2(std::floor(std::log2(value)) - mantissa_bits);
  }

  Precision precision_;
  nlohmann::json autocast_;
};

// Of errors; what is no number is larger than all.
inline double larger(double a, double b) {
  return std::isnan(b) ? std::numeric_limits<double>::infinity() : std::max(a, b);
}

inline double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

inline std::vector<double> read_doubles(const SafetensorsFile& file, const std::string& name) {
  std::vector<double> values(static_cast<size_t>(file.tensor(name).bytes / 8));
  file.read_into(name, std::as_writable_bytes(std::span(values)));
  return values;
}

// A language model whose evaluation has logits for a test to read; others are as they are.
class ModelWithLogits final : public Model {
 public:
  explicit ModelWithLogits(std::unique_ptr<Model> model) : model_(std::move(model)) {}

  Outputs forward(ModelBuilder& builder) const override { return model_->forward(builder); }
  const Task& task() const override { return model_->task().scored_output() ? model_->task() : task_; }
  int64_t max_positions() const override { return model_->max_positions(); }
  int64_t max_position_embeddings() const override { return model_->max_position_embeddings(); }
  int64_t vocab_size() const override { return model_->vocab_size(); }
  std::string base_model_prefix() const override { return model_->base_model_prefix(); }

 private:
  class LanguageModelingWithLogits final : public CausalLanguageModeling {
   public:
    std::optional<std::string> scored_output() const override { return "logits"; }
  };

  std::unique_ptr<Model> model_;
  LanguageModelingWithLogits task_;
};

// One training step and one evaluation of the golden's batch `main` with the weights of `base`, against the
// numbers of `compared`.
class GoldenStep {
 public:
  GoldenStep(const std::filesystem::path& base, const std::filesystem::path& compared,
             const StepOptions& step)
      : golden_(SafetensorsFile::open(compared / "golden.safetensors")),
        facts_(read_json(compared / "golden.json")),
        tolerance_(step, facts_),
        batch_(SafetensorsFile::open(base / "golden.safetensors")),
        rows_(facts_["main"]["rows"].get<std::vector<int64_t>>()),
        micro_batches_(split(rows_, step.gradient_accumulation_steps)),
        model_(std::make_unique<ModelWithLogits>(model_of_config(base / "config.json"))),
        session_(*model_, options_of(step, batch_.longest())) {
    session_.reserve();
    TorchGenerator generator(1);
    const LoadedWeights loaded =
        load_weights(SafetensorsModel::open(base), session_.state(), session_.executor(), generator);
    EXPECT_TRUE(loaded.initialized.empty() && loaded.unused.empty());
    if (step.lora.rank > 0) load_adapter(compared, session_.family(), session_.executor());
    const ScalarStorages& scalars = session_.family().scalars;
    session_.executor().write_scalar(scalars.learning_rate, 1.0F);
    session_.executor().write_scalar(scalars.target_count, static_cast<float>(batch_.targets(rows_)));
  }

  void expect_logits() {
    const ProgramFamily& family = session_.family();
    const ProgramId evaluate = family.find(ProgramKind::kEvaluate);
    session_.executor().run(evaluate, batch_.load(session_, family.evaluation_batch, rows_));
    const std::vector<double> logits = read_doubles(golden_, "logits");
    const double tolerance = tolerance_.logits(largest_of(logits));
    const auto computed =
        values_of<float>(session_.executor(), evaluate, family.program(evaluate).result("logits"));
    double error = 0;
    for (size_t i = 0; i < logits.size(); ++i) error = larger(error, std::abs(computed[i] - logits[i]));
    EXPECT_LE(error, tolerance) << "logits";
  }

  // Gradients are read off an SGD step of learning rate 1: w - w'.
  void expect_loss_and_gradients() {
    const std::vector<std::vector<float>> before = weights();
    train();
    const auto loss = facts_["main"]["loss"].get<double>();
    EXPECT_NEAR(session_.executor().read_scalar<float>(session_.family().loss), loss, tolerance_.loss(loss));
    const std::vector<std::vector<float>> after = weights();
    for (size_t p = 0; p < after.size(); ++p) {
      const Parameter& parameter = session_.state().parameters()[p];
      if (!parameter.trainable) {
        EXPECT_TRUE(after[p] == before[p]) << parameter.name << " is frozen";
        continue;
      }
      const std::vector<double> expected = read_doubles(golden_, "gradient64." + parameter.name);
      double error = 0;
      double scale = 1;
      for (size_t i = 0; i < expected.size(); ++i) {
        scale = std::max(scale, std::abs(static_cast<double>(before[p][i])));
        const double found = static_cast<double>(before[p][i]) - static_cast<double>(after[p][i]);
        error = larger(error, std::abs(found - expected[i]));
      }
      // Either weight was rounded once.
      EXPECT_LE(error, tolerance_.gradient(parameter.name, largest_of(expected)) + 2 * 0x1p-24 * scale)
          << parameter.name;
    }
  }

 private:
  static SessionOptions options_of(const StepOptions& step, int64_t longest) {
    SessionOptions options;
    options.step = step;
    options.train = {8 * longest, 8, longest};
    options.evaluation = {8 * longest, 8, longest};
    options.executor.poison = true;
    return options;
  }

  // Equal shares, but for the last, which is what is left.
  static std::vector<std::vector<int64_t>> split(const std::vector<int64_t>& rows, int64_t parts) {
    const auto all = static_cast<int64_t>(rows.size());
    const int64_t share = (all + parts - 1) / parts;
    std::vector<std::vector<int64_t>> result;
    for (int64_t begin = 0; begin < all; begin += share)
      result.emplace_back(rows.begin() + begin, rows.begin() + std::min(all, begin + share));
    return result;
  }

  void train() {
    Executor& executor = session_.executor();
    const ProgramFamily& family = session_.family();
    if (const ProgramId step = family.find(ProgramKind::kTrainStep); step.valid()) {
      std::vector<int64_t> counts;
      for (size_t m = 0; m < family.train_batches.size(); ++m) {
        const auto loaded = batch_.load(session_, family.train_batches[m], micro_batches_[m]);
        counts.insert(counts.end(), loaded.begin(), loaded.end());
      }
      executor.run(step, counts);
      return;
    }
    for (size_t m = 0; m < micro_batches_.size(); ++m) {
      executor.run(family.find(m == 0 ? ProgramKind::kMicroBatchFirst : ProgramKind::kMicroBatchNext),
                   batch_.load(session_, family.train_batches[0], micro_batches_[m]));
    }
    executor.run(family.find(ProgramKind::kUpdate), {});
  }

  std::vector<std::vector<float>> weights() {
    std::vector<std::vector<float>> all;
    for (const Parameter& parameter : session_.state().parameters()) {
      all.emplace_back(static_cast<size_t>(parameter.local_elements()));
      read_parameter(session_.executor(), parameter, 0, all.back());
    }
    return all;
  }

  const SafetensorsFile golden_;
  const nlohmann::json facts_;
  const Tolerance tolerance_;
  const GoldenBatch batch_;
  const std::vector<int64_t> rows_;
  const std::vector<std::vector<int64_t>> micro_batches_;
  const std::unique_ptr<ModelWithLogits> model_;
  Session session_;
};

// A way to run the step that should give the same numbers.
struct Arrangement {
  std::string name;
  StepOptions step;
};

inline void PrintTo(const Arrangement& arrangement, std::ostream* out) {
  *out << arrangement.name;
}

// SGD without momentum and clipping, from which gradients can be read, and what `set` says.
inline Arrangement arrangement(const std::string& name, const std::function<void(StepOptions&)>& set) {
  Arrangement made{name, {}};
  made.step.optimizer.settings = SgdSettings{};
  made.step.max_grad_norm = 0;
  set(made.step);
  return made;
}

inline void fp16(StepOptions& o) {
  o.precision = Precision::kFloat16;
  o.loss_scale.initial = 1024;
}

}  // namespace shoehorn::test_support
