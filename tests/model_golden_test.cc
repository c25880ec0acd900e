// BERT and DistilBERT against Transformers (tests/golden/bert_make.py, distilbert_make.py), BERT with
// low-rank adapters against PEFT (lora_make.py): logits, loss and every gradient, in every arrangement of the
// step, and of models that differ in what config.json says.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "exec/executor_testing.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "models/registry.h"
#include "session/batch_feed.h"
#include "session/session.h"
#include "state/adapter_weights.h"
#include "state/weights.h"

namespace shoehorn {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(SHOEHORN_SOURCE_DIR) / "tests/golden/bert_small";
// The same model and samples with an adapter; the numbers are those of the adapter and the classifier.
const std::filesystem::path kDistilBertGolden =
    std::filesystem::path(SHOEHORN_SOURCE_DIR) / "tests/golden/distilbert_small";
const std::filesystem::path kLoraGolden =
    std::filesystem::path(SHOEHORN_SOURCE_DIR) / "tests/golden/lora_small";

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
      set(BatchColumn::kClassLabels, s, labels_[row]);
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
      }
    }
    size_t padded = token;
    for (; padded % static_cast<size_t>(kTokenMultiple) != 0; ++padded) {
      for (const BatchColumn column : batch_columns()) {
        if (batch_column_info(column).axis == BatchAxis::kTokens) set(column, padded, 0);
      }
    }
    inputs.send();
    return {static_cast<int64_t>(padded), static_cast<int64_t>(rows.size()), 0};
  }

 private:
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
// largest of a few elements may be small by chance, as may the step.
class Tolerance {
 public:
  Tolerance(Precision precision, const nlohmann::json& facts) : precision_(precision) {
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

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

std::vector<double> read_doubles(const SafetensorsFile& file, const std::string& name) {
  std::vector<double> values(static_cast<size_t>(file.tensor(name).bytes / 8));
  file.read_into(name, std::as_writable_bytes(std::span(values)));
  return values;
}

// One training step and one evaluation of the golden's batch `main` with the weights of `base`, against the
// numbers of `compared`.
class GoldenStep {
 public:
  GoldenStep(const std::filesystem::path& base, const std::filesystem::path& compared,
             const StepOptions& step)
      : golden_(SafetensorsFile::open(compared / "golden.safetensors")),
        facts_(read_json(compared / "golden.json")),
        tolerance_(step.precision, facts_),
        batch_(SafetensorsFile::open(base / "golden.safetensors")),
        rows_(facts_["main"]["rows"].get<std::vector<int64_t>>()),
        micro_batches_(split(rows_, step.gradient_accumulation_steps)),
        model_(AutoModelForSequenceClassification::from_config(base / "config.json")),
        session_(*model_, options_of(step, model_->max_positions())) {
    session_.reserve();
    TorchGenerator generator(1);
    const LoadedWeights loaded =
        load_weights(SafetensorsModel::open(base), session_.state(), session_.executor(), generator);
    EXPECT_TRUE(loaded.initialized.empty() && loaded.unused.empty());
    if (step.lora.rank > 0) load_adapter(compared, session_.family(), session_.executor());
    const ScalarStorages& scalars = session_.family().scalars;
    session_.executor().write_scalar(scalars.learning_rate, 1.0F);
    session_.executor().write_scalar(scalars.target_count, static_cast<float>(rows_.size()));
  }

  void expect_logits() {
    const ProgramFamily& family = session_.family();
    const ProgramId evaluate = family.find(ProgramKind::kEvaluate);
    session_.executor().run(evaluate, batch_.load(session_, family.evaluation_batch, rows_));
    const std::vector<double> logits = read_doubles(golden_, "logits");
    const double tolerance = tolerance_.logits(largest_of(logits));
    const auto computed =
        testing::values_of<float>(session_.executor(), evaluate, family.program(evaluate).result("logits"));
    double error = 0;
    for (size_t i = 0; i < logits.size(); ++i) error = std::max(error, std::abs(computed[i] - logits[i]));
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
        error = std::max(error, std::abs(found - expected[i]));
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
  const std::unique_ptr<Model> model_;
  Session session_;
};

struct Arrangement {
  std::string name;
  StepOptions step;
};

void PrintTo(const Arrangement& arrangement, std::ostream* out) {
  *out << arrangement.name;
}

class BertGolden : public ::testing::TestWithParam<Arrangement> {};

TEST_P(BertGolden, LossAndEveryGradient) {
  GoldenStep step(kGolden, GetParam().step.lora.rank > 0 ? kLoraGolden : kGolden, GetParam().step);
  step.expect_logits();
  step.expect_loss_and_gradients();
}

Arrangement arrangement(const std::string& name, const std::function<void(StepOptions&)>& set) {
  Arrangement made{name, {}};
  made.step.optimizer.settings = SgdSettings{};
  made.step.max_grad_norm = 0;
  set(made.step);
  return made;
}

void fp16(StepOptions& o) {
  o.precision = Precision::kFloat16;
  o.loss_scale.initial = 1024;
}

// As PEFT's adapter_config.json has it.
Arrangement adapted(const std::string& name, const std::function<void(StepOptions&)>& set) {
  Arrangement made = arrangement("lora_" + name, set);
  made.step.lora = {.rank = 4, .alpha = 6};
  return made;
}

INSTANTIATE_TEST_SUITE_P(
    Arrangements, BertGolden,
    ::testing::Values(
        arrangement("plain", [](StepOptions&) {}),
        arrangement("unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; }),
        arrangement("all_rows", [](StepOptions& o) { o.skip_passes = {"gather_early"}; }),
        arrangement("all_rows_unfused", [](StepOptions& o) { o.skip_passes = {"gather_early", "fuse"}; }),
        arrangement("recompute", [](StepOptions& o) { o.recompute_every_n_layers = 1; }),
        arrangement("kept", [](StepOptions& o) { o.skip_passes = {"rematerialize"}; }),
        arrangement("separate_updates", [](StepOptions& o) { o.skip_passes = {"fuse_update"}; }),
        arrangement("update_in_backward", [](StepOptions& o) { o.update_in_backward = true; }),
        arrangement("accumulate", [](StepOptions& o) { o.gradient_accumulation_steps = 3; }),
        arrangement("layer_major",
                    [](StepOptions& o) {
                      o.gradient_accumulation_steps = 3;
                      o.accumulation_order = AccumulationOrder::kLayer;
                    }),
        arrangement("layer_major_recompute_update",
                    [](StepOptions& o) {
                      o.gradient_accumulation_steps = 3;
                      o.accumulation_order = AccumulationOrder::kLayer;
                      o.recompute_every_n_layers = 1;
                      o.update_in_backward = true;
                    }),
        arrangement("bf16", [](StepOptions& o) { o.precision = Precision::kBfloat16; }),
        arrangement("bf16_unfused",
                    [](StepOptions& o) {
                      o.precision = Precision::kBfloat16;
                      o.skip_passes = {"fuse"};
                    }),
        arrangement("bf16_recompute",
                    [](StepOptions& o) {
                      o.precision = Precision::kBfloat16;
                      o.recompute_every_n_layers = 1;
                    }),
        arrangement("fp16", fp16),
        arrangement("fp16_unfused",
                    [](StepOptions& o) {
                      fp16(o);
                      o.skip_passes = {"fuse"};
                    }),
        arrangement("fp16_accumulate",
                    [](StepOptions& o) {
                      fp16(o);
                      o.gradient_accumulation_steps = 3;
                    }),
        arrangement("fp16_layer_major_recompute_update",
                    [](StepOptions& o) {
                      fp16(o);
                      o.loss_scale.fixed = 1024;
                      o.gradient_accumulation_steps = 3;
                      o.accumulation_order = AccumulationOrder::kLayer;
                      o.recompute_every_n_layers = 1;
                      o.update_in_backward = true;
                    }),
        adapted("plain", [](StepOptions&) {}),
        adapted("unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; }),
        adapted("recompute", [](StepOptions& o) { o.recompute_every_n_layers = 1; }),
        adapted("update_in_backward", [](StepOptions& o) { o.update_in_backward = true; }),
        adapted("accumulate", [](StepOptions& o) { o.gradient_accumulation_steps = 3; }),
        adapted("layer_major_recompute_update",
                [](StepOptions& o) {
                  o.gradient_accumulation_steps = 3;
                  o.accumulation_order = AccumulationOrder::kLayer;
                  o.recompute_every_n_layers = 1;
                  o.update_in_backward = true;
                }),
        adapted("bf16", [](StepOptions& o) { o.precision = Precision::kBfloat16; }),
        adapted("bf16_unfused",
                [](StepOptions& o) {
                  o.precision = Precision::kBfloat16;
                  o.skip_passes = {"fuse"};
                }),
        adapted("fp16", fp16),
        adapted("fp16_accumulate",
                [](StepOptions& o) {
                  fp16(o);
                  o.gradient_accumulation_steps = 3;
                })),
    [](const auto& info) { return info.param.name; });

// Another activation, two labels, one token type, and the padding's id among the attended tokens. In fp32: with
// so few units and samples what mixed precision loses is a matter of luck, and a unit of ReLU that lies at its
// kink falls to either side.
class BertVariant : public ::testing::TestWithParam<std::tuple<const char*, Arrangement>> {};

TEST_P(BertVariant, LossAndEveryGradient) {
  const auto& [name, arrangement] = GetParam();
  const std::filesystem::path directory = kGolden / "variants" / name;
  GoldenStep step(directory, directory, arrangement.step);
  step.expect_logits();
  step.expect_loss_and_gradients();
}

INSTANTIATE_TEST_SUITE_P(
    Models, BertVariant,
    ::testing::Combine(
        ::testing::Values("relu", "gelu_new", "two_labels", "one_token_type", "token_zero_inside"),
        ::testing::Values(arrangement("plain", [](StepOptions&) {}),
                          arrangement("unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; }))),
    [](const auto& info) {
      return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param).name);
    });

// The tasks beside the choice of one class: squared error of one value and of three, and binary cross-entropy.
INSTANTIATE_TEST_SUITE_P(
    Problems, BertVariant,
    ::testing::Combine(
        ::testing::Values("regression", "regression_of_three", "multi_label"),
        ::testing::Values(arrangement("plain", [](StepOptions&) {}),
                          arrangement("unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; }),
                          arrangement("accumulate",
                                      [](StepOptions& o) { o.gradient_accumulation_steps = 3; }),
                          arrangement("layer_major_recompute_update",
                                      [](StepOptions& o) {
                                        o.gradient_accumulation_steps = 3;
                                        o.accumulation_order = AccumulationOrder::kLayer;
                                        o.recompute_every_n_layers = 1;
                                        o.update_in_backward = true;
                                      }))),
    [](const auto& info) {
      return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param).name);
    });

class DistilBertGolden : public ::testing::TestWithParam<Arrangement> {};

TEST_P(DistilBertGolden, LossAndEveryGradient) {
  GoldenStep step(kDistilBertGolden, kDistilBertGolden, GetParam().step);
  step.expect_logits();
  step.expect_loss_and_gradients();
}

INSTANTIATE_TEST_SUITE_P(
    Arrangements, DistilBertGolden,
    ::testing::Values(arrangement("plain", [](StepOptions&) {}),
                      arrangement("unfused", [](StepOptions& o) { o.skip_passes = {"fuse"}; }),
                      arrangement("all_rows", [](StepOptions& o) { o.skip_passes = {"gather_early"}; }),
                      arrangement("recompute", [](StepOptions& o) { o.recompute_every_n_layers = 1; }),
                      arrangement("accumulate", [](StepOptions& o) { o.gradient_accumulation_steps = 3; }),
                      arrangement("layer_major_recompute_update",
                                  [](StepOptions& o) {
                                    o.gradient_accumulation_steps = 3;
                                    o.accumulation_order = AccumulationOrder::kLayer;
                                    o.recompute_every_n_layers = 1;
                                    o.update_in_backward = true;
                                  }),
                      arrangement("bf16", [](StepOptions& o) { o.precision = Precision::kBfloat16; }),
                      arrangement("fp16", fp16)),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace shoehorn
