// BERT against Transformers (tests/golden/bert_make.py), and with low-rank adapters against PEFT
// (lora_make.py): logits, loss and every gradient, in every arrangement of the step.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "io/safetensors.h"
#include "model/bert.h"
#include "train/adapter_weights.h"
#include "train/session.h"
#include "train/weights.h"

namespace shoehorn {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(SHOEHORN_SOURCE_DIR) / "tests/golden/bert_small";
// The same model and samples with an adapter; the numbers are those of the adapter and the classifier.
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
  }

  std::vector<int64_t> load(Session& session, const BatchStorages& to,
                            const std::vector<int64_t>& rows) const {
    Executor& executor = session.executor();
    int64_t token = 0;
    for (size_t s = 0; s < rows.size(); ++s) {
      const int64_t row = rows[s];
      const int32_t length = lengths_[static_cast<size_t>(row)];
      executor.storage_as<int32_t>(to.sequence_start)[s] = static_cast<int32_t>(token);
      executor.storage_as<int32_t>(to.sequence_length)[s] = length;
      executor.storage_as<int32_t>(to.sequence_sample)[s] = static_cast<int32_t>(s);
      executor.storage_as<int32_t>(to.labels)[s] = labels_[static_cast<size_t>(row)];
      for (int64_t t = 0; t < length; ++t, ++token) {
        executor.storage_as<int32_t>(to.input_ids)[token] = ids_[static_cast<size_t>(row * width_ + t)];
        executor.storage_as<int32_t>(to.token_type_ids)[token] =
            types_[static_cast<size_t>(row * width_ + t)];
        executor.storage_as<int32_t>(to.position_ids)[token] = static_cast<int32_t>(t);
        executor.storage_as<int32_t>(to.token_sample)[token] = static_cast<int32_t>(s);
      }
    }
    int64_t padded = token;
    for (; padded % kTokenMultiple != 0; ++padded) {
      for (const StorageId id : {to.input_ids, to.token_type_ids, to.position_ids, to.token_sample}) {
        executor.storage_as<int32_t>(id)[padded] = 0;
      }
    }
    return {padded, static_cast<int64_t>(rows.size())};
  }

 private:
  int64_t width_ = 0;
  std::vector<int32_t> ids_, types_, lengths_, labels_;
};

struct Arrangement {
  std::string name;
  StepOptions step;
};

void PrintTo(const Arrangement& arrangement, std::ostream* out) {
  *out << arrangement.name;
}

// Gradients read off an SGD step of learning rate 1: w - w'.
class BertGolden : public ::testing::TestWithParam<Arrangement> {};

std::vector<double> read_doubles(const SafetensorsFile& file, const std::string& name) {
  std::vector<double> values(static_cast<size_t>(file.tensor(name).bytes / 8));
  file.read_into(name, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST_P(BertGolden, LossAndEveryGradient) {
  const StepOptions step = GetParam().step;
  const nlohmann::json config = read_json(kGolden / "config.json");
  BertConfig bert = BertConfig::from_json(config, "config.json");
  bert.hidden_dropout_prob = bert.attention_probs_dropout_prob = bert.classifier_dropout = 0;
  const BertForSequenceClassification model(bert, config.dump());
  const std::filesystem::path compared = step.lora.rank > 0 ? kLoraGolden : kGolden;
  const SafetensorsFile golden = SafetensorsFile::open(compared / "golden.safetensors");
  const nlohmann::json facts = read_json(compared / "golden.json");

  SessionOptions options;
  options.step = step;
  options.train = {512, 8, 64};
  options.evaluation = {512, 8, 64};
  options.executor.poison = true;
  Session session(model, options);
  session.reserve();
  Executor& executor = session.executor();
  TorchGenerator generator(1);
  const LoadedWeights loaded =
      load_weights(SafetensorsModel::open(kGolden), session.state(), executor, generator);
  EXPECT_TRUE(loaded.initialized.empty() && loaded.unused.empty());
  if (step.lora.rank > 0) load_adapter(kLoraGolden, session.family(), executor);

  const GoldenBatch batch(SafetensorsFile::open(kGolden / "golden.safetensors"));
  std::vector<std::vector<int64_t>> micro_batches = {{0, 1, 2, 3, 4, 5, 6, 7}};
  if (step.gradient_accumulation_steps == 3) micro_batches = {{0, 1, 2}, {3, 4, 5}, {6, 7}};
  const ScalarStorages& scalars = session.family().scalars;
  *executor.storage_as<float>(scalars.learning_rate) = 1.0F;
  *executor.storage_as<float>(scalars.target_count) = 8.0F;

  const double epsilon = step.precision == Precision::kBfloat16  ? 0x1p-8
                         : step.precision == Precision::kFloat16 ? 0x1p-11
                                                                 : 0x1p-23;
  const double tolerance =
      64 * epsilon;  // of each tensor's largest element: sums of up to 250 terms, 20 ops deep

  const std::vector<int64_t> evaluation =
      batch.load(session, session.family().evaluation_batch, {0, 1, 2, 3, 4, 5, 6, 7});
  executor.run("evaluate", evaluation);
  const std::vector<double> logits = read_doubles(golden, "logits");
  const auto* computed = reinterpret_cast<const float*>(
      executor.value("evaluate", session.family().find("evaluate")->result("logits")));
  for (size_t i = 0; i < logits.size(); ++i)
    EXPECT_NEAR(computed[i], logits[i], 2 * tolerance) << "logit " << i;

  std::vector<std::vector<float>> before;
  for (const Parameter& parameter : session.state().parameters()) {
    before.emplace_back(static_cast<size_t>(parameter.elements()));
    read_parameter(executor, parameter, 0, before.back());
  }
  if (session.family().find("train_step") != nullptr) {
    std::vector<int64_t> counts;
    for (size_t m = 0; m < session.family().train_batches.size(); ++m) {
      const auto loaded_counts = batch.load(session, session.family().train_batches[m], micro_batches[m]);
      counts.insert(counts.end(), loaded_counts.begin(), loaded_counts.end());
    }
    executor.run("train_step", counts);
  } else {
    for (size_t m = 0; m < micro_batches.size(); ++m) {
      executor.run(m == 0 ? "micro_batch_first" : "micro_batch_next",
                   batch.load(session, session.family().train_batches[0], micro_batches[m]));
    }
    executor.run("update", {});
  }
  EXPECT_NEAR(*executor.storage_as<float>(session.family().loss), facts["main"]["loss"].get<double>(),
              tolerance);
  for (size_t p = 0; p < session.state().parameters().size(); ++p) {
    const Parameter& parameter = session.state().parameters()[p];
    std::vector<float> after(before[p].size());
    read_parameter(executor, parameter, 0, after);
    if (!parameter.trainable) {
      EXPECT_TRUE(after == before[p]) << parameter.name << " is frozen";
      continue;
    }
    const std::vector<double> expected = read_doubles(golden, "gradient64." + parameter.name);
    double largest = 0.05;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    double error = 0;
    double scale = 1;
    for (size_t i = 0; i < after.size(); ++i) {
      scale = std::max(scale, std::abs(static_cast<double>(before[p][i])));
      error = std::max(error, std::abs(static_cast<double>(before[p][i]) - after[i] - expected[i]));
    }
    EXPECT_LE(error, tolerance * largest + 2 * 0x1p-24 * scale) << parameter.name;
  }
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

}  // namespace
}  // namespace shoehorn
