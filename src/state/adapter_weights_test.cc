// Adapters between files and a session: round trip, what is refused, and merging against naive sums.
#include "state/adapter_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "io/test_directory.h"
#include "model/layers.h"
#include "models/registry.h"
#include "session/session.h"
#include "state/adapter_config.h"
#include "state/adapter_tensors.h"
#include "state/starting_weights.h"
#include "tasks/single_label_classification.h"
#include "train/start_checks.h"
#include "train/test_support.h"
#include "train/transfer_progress.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

SessionOptions options_of(int64_t rank, Precision precision = Precision::kFloat32) {
  SessionOptions options;
  options.train = {64, 4, 20};
  options.step.precision = precision;
  options.step.lora = {.rank = rank, .alpha = 6, .targets = {"query", "intermediate.dense"}};
  return options;
}

// A session with adapters whose B is not zero, and a base model's directory.
class AdapterWeights : public testing::Test {
 protected:
  AdapterWeights() : model_(tiny_bert()), session_(model_, options_of(3)) {
    fs::create_directories(base());
    fs::create_directories(adapter());
    session_.reserve();
    start(session_, 5);
    save_weights(base(), session_.state(), session_.executor());
    const AdapterSet& adapters = session_.family().adapters;
    for (const LowRankAdapter& each : adapters.list) fill(session_, each.b, 0.25F);
    for (const ParameterId id : adapters.saved) fill(session_, id, 0.125F);
  }

  static void start(Session& session, uint64_t seed) {
    initialize_weights(session.state(), session.executor(), seed);
  }
  // Small numbers that differ from element to element.
  static void fill(Session& session, ParameterId id, float step) {
    const Parameter& parameter = session.state().parameter(id);
    std::vector<float> values(static_cast<size_t>(parameter.local_elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = step * (static_cast<float>(i % 7) - 3);
    write_parameter(session.executor(), parameter, 0, values);
  }

  // As a run reads them at its start.
  OriginalWeights originals_in(const fs::path& directory) const {
    Session session(model_, options_of(3));
    session.reserve();
    return *start_weights(directory, session.state(), session.executor(), 5).originals;
  }

  fs::path base() const { return directory_.path() / "base"; }
  fs::path adapter() const { return directory_.path() / "adapter"; }
  void save() {
    save_adapter(adapter(), base(), session_.options().step.lora, session_.family(), session_.executor());
  }
  std::string refusal(int64_t rank) {
    Session other(model_, options_of(rank));
    other.reserve();
    return message_of<UserError>([&] { load_adapter(adapter(), other.family(), other.executor()); });
  }
  // The adapter's file again, with these tensors.
  void write(const std::function<void(std::vector<TensorSpec>&)>& change) const {
    std::vector<TensorSpec> specs;
    {
      const SafetensorsFile file = SafetensorsFile::open(adapter() / kAdapterWeightsName);
      for (const TensorEntry& entry : file.tensors()) specs.push_back({entry.name, entry.dtype, entry.shape});
    }
    change(specs);
    SafetensorsWriter writer(adapter() / kAdapterWeightsName, specs);
    for (const TensorSpec& spec : specs)
      writer.append(spec.name, std::vector<std::byte>(static_cast<size_t>(tensor_bytes(spec))));
    writer.commit();
  }

  const TestDirectory directory_;
  BertForSequenceClassification model_;
  Session session_;
};

TEST_F(AdapterWeights, HaveTheNamesOfPeftAndComeBack) {
  save();
  const SafetensorsFile file = SafetensorsFile::open(adapter() / kAdapterWeightsName);
  EXPECT_EQ(file.tensors().size(), 2 * 2 * 2 + 2U) << "A and B of two layers a block, and the classifier";
  EXPECT_EQ(file.tensor("base_model.model.bert.encoder.layer.1.attention.self.query.lora_A.weight").shape,
            (std::vector<int64_t>{3, 24}));
  EXPECT_EQ(file.tensor("base_model.model.bert.encoder.layer.0.intermediate.dense.lora_B.weight").shape,
            (std::vector<int64_t>{40, 3}));
  EXPECT_NE(file.find("base_model.model.classifier.bias"), nullptr);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const AdapterConfig config = read_adapter_config(adapter());
  EXPECT_EQ(config.lora.rank, 3);
  EXPECT_TRUE(fs::equivalent(base_model_directory(adapter(), config), base()));

  const NamedWeights saved = weights_of(session_);
  start_weights(base(), session_.state(), session_.executor(), 42);
  EXPECT_NE(weights_of(session_), saved);
  load_adapter(adapter(), session_.family(), session_.executor());
  EXPECT_EQ(weights_of(session_), saved);
}

TEST_F(AdapterWeights, OfBf16SessionsKeepEveryBit) {
  save();
  Session narrow(model_, options_of(3, Precision::kBfloat16));
  narrow.reserve();
  load_adapter(adapter(), narrow.family(), narrow.executor());
  const NamedWeights wide = weights_of(session_);
  const NamedWeights found = weights_of(narrow);
  for (const LowRankAdapter& each : narrow.family().adapters.list) {
    for (const ParameterId id : {each.a, each.b}) {
      const std::string& name = narrow.state().parameter(id).name;
      EXPECT_EQ(found.at(name), wide.at(name)) << name;
    }
  }
}

TEST_F(AdapterWeights, FilesThatDoNotFitAreRefused) {
  save();
  EXPECT_TRUE(contains(refusal(4), "expected shape [4, 24] as the base model and r"));
  write([](std::vector<TensorSpec>& specs) { specs.pop_back(); });
  EXPECT_TRUE(contains(refusal(3), "expected a tensor 'base_model.model."));
  save();
  write([](std::vector<TensorSpec>& specs) {
    specs.push_back({"base_model.model.bert.pooler.dense.lora_A.weight", DType::kF32, {3, 24}});
  });
  EXPECT_TRUE(contains(refusal(3), "bert.pooler.dense.lora_A.weight] expected adapters of the layers"));
  save();
  write([](std::vector<TensorSpec>& specs) { specs[0].dtype = DType::kI32; });
  EXPECT_TRUE(contains(refusal(3), "expected a floating-point tensor, got int32"));
}

// As PEFT has it, which replaces both modules.
TEST_F(AdapterWeights, ATableThatIsTheHeadIsThereUnderBothNames) {
  const auto model = model_from_json({{"model_type", "llama"},
                                      {"vocab_size", 61},
                                      {"hidden_size", 24},
                                      {"intermediate_size", 40},
                                      {"num_hidden_layers", 1},
                                      {"num_attention_heads", 3},
                                      {"max_position_embeddings", 24},
                                      {"tie_word_embeddings", true}},
                                     "config.json", Head::kCausalLanguageModel);
  SessionOptions options = options_of(3);
  options.step.lora.targets = {"q_proj"};
  options.step.lora.modules_to_save = {"embed_tokens"};
  Session session(*model, options), other(*model, options);
  for (Session* each : {&session, &other}) each->reserve();
  start(session, 5);
  const fs::path plain = directory_.path() / "plain";
  fs::create_directories(plain);
  save_weights(plain, session.state(), session.executor());
  fill(session, session.family().adapters.saved.at(0), 0.125F);
  save_adapter(adapter(), plain, options.step.lora, session.family(), session.executor());

  const std::string table = "model.embed_tokens.weight", head = "lm_head.weight";
  const std::vector<float> trained = weights_of(session).at(table);
  std::vector<TensorSpec> specs;
  int64_t bytes = 0;
  {
    const SafetensorsFile file = SafetensorsFile::open(adapter() / kAdapterWeightsName);
    for (const std::string& name : {table, head}) {
      std::vector<float> found(trained.size());
      file.read_into("base_model.model." + name, std::as_writable_bytes(std::span(found)));
      EXPECT_EQ(found, trained) << name;
    }
    for (const TensorEntry& entry : file.tensors()) {
      specs.push_back({entry.name, entry.dtype, entry.shape});
      bytes += entry.bytes;
    }
  }
  EXPECT_EQ(saved_model_bytes(session), bytes);
  EXPECT_EQ(transfer_bytes(session, {.adapters_alone = true}), bytes);
  start_run({.weights = plain, .adapter = adapter()}, other);
  EXPECT_EQ(weights_of(other), weights_of(session));

  nlohmann::json config = read_json(adapter() / kAdapterConfigName);
  config["ensure_weight_tying"] = false;
  write_json_atomic(adapter() / kAdapterConfigName, config);
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { start_run({.weights = plain, .adapter = adapter()}, other); }),
               "ensure_weight_tying] expected true for 'embed_tokens'"));

  // One of the two is enough, and another number in one of them is none of this model's.
  const auto load_without = [&](const std::string& missing, const std::string& changed) {
    std::vector<TensorSpec> kept;
    for (const TensorSpec& spec : specs) {
      if (missing.empty() || !spec.name.ends_with(missing)) kept.push_back(spec);
    }
    SafetensorsWriter writer(adapter() / kAdapterWeightsName, kept);
    for (const TensorSpec& spec : kept) {
      const std::byte each{static_cast<uint8_t>(!changed.empty() && spec.name.ends_with(changed))};
      writer.append(spec.name, std::vector<std::byte>(static_cast<size_t>(tensor_bytes(spec)), each));
    }
    writer.commit();
    load_adapter(adapter(), other.family(), other.executor());
  };
  EXPECT_NO_THROW(load_without("", ""));
  EXPECT_NO_THROW(load_without(head, ""));
  EXPECT_NO_THROW(load_without(table, ""));
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_without("", head); }),
                       "which is one with it in the base model, got others"));
}

TEST_F(AdapterWeights, NeedABase) {
  EXPECT_TRUE(contains(message_of<UserError>([&] {
                         save_adapter(adapter(), {}, session_.options().step.lora, session_.family(),
                                      session_.executor());
                       }),
                       "[lora_rank] expected a base model with weights"));
}

// W + scale·B·A in fp32: of each element two roundings of the sum beside those of the three products.
TEST_F(AdapterWeights, MergeIntoTheBasesWeights) {
  const fs::path merged = directory_.path() / "merged";
  fs::create_directories(merged);
  const OriginalWeights originals = originals_in(base());
  save_merged_weights(merged, &originals, session_.family(), session_.executor());
  const SafetensorsModel file = SafetensorsModel::open(merged);
  const NamedWeights weights = weights_of(session_);
  std::set<std::string> adapted;
  for (const LowRankAdapter& each : session_.family().adapters.list)
    adapted.insert(session_.state().parameter(each.weight).name);
  EXPECT_EQ(adapted.size(), 4U);
  for (const TensorSpec& spec : weight_specs(session_.state())) {
    std::vector<float> found(weights.at(spec.name).size());
    file.read_into(spec.name, std::as_writable_bytes(std::span(found)));
    if (!adapted.contains(spec.name)) {
      EXPECT_EQ(found, weights.at(spec.name)) << spec.name;
      continue;
    }
    const std::string module = spec.name.substr(0, spec.name.size() - 7);
    const std::vector<float>& a = weights.at(module + ".lora_A.weight");
    const std::vector<float>& b = weights.at(module + ".lora_B.weight");
    const auto columns = static_cast<size_t>(spec.shape[1]);
    for (size_t i = 0; i < found.size(); ++i) {
      double sum = weights.at(spec.name)[i];
      double magnitude = std::abs(sum);
      for (size_t r = 0; r < 3; ++r) {
        const double term = 2.0 * b[i / columns * 3 + r] * a[r * columns + i % columns];
        sum += term;
        magnitude += std::abs(term);
      }
      ASSERT_NEAR(found[i], sum, 6 * 0x1p-24 * magnitude) << spec.name << " at " << i;
    }
  }
  EXPECT_EQ(file.names().size(), weight_specs(session_.state()).size()) << "and no adapter";
}

// One layer y = x·W + b, as GPT-2 stores it.
class Conv1dModel final : public Model {
 public:
  Outputs forward(ModelBuilder& builder) const override {
    const Tensor x = builder.embedding(embedding_table(builder, "table", 61, 12, 0.5F),
                                       builder.input(BatchColumn::kInputIds));
    return linear_layer(builder, "score", builder.last_tokens(conv1d_layer(builder, "c_fc", x, 20, 0.5F)), 3,
                        0.5F);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 20; }
  int64_t vocab_size() const override { return 61; }

 private:
  SingleLabelClassification task_{3};
};

// W [inputs, outputs] + scale·(B·A)ᵀ.
TEST_F(AdapterWeights, MergeIntoWeightsThatLieTheOtherWayRound) {
  const Conv1dModel model;
  SessionOptions options = options_of(3);
  options.step.lora.targets = {"c_fc"};
  Session session(model, options), other(model, options);
  for (Session* each : {&session, &other}) each->reserve();
  start(session, 5);
  const fs::path plain = directory_.path() / "plain";
  const fs::path merged = directory_.path() / "merged";
  for (const fs::path& directory : {plain, merged}) fs::create_directories(directory);
  save_weights(plain, session.state(), session.executor());
  ASSERT_EQ(session.family().adapters.list.size(), 1U);
  fill(session, session.family().adapters.list[0].b, 0.25F);
  const OriginalWeights originals = *start_weights(plain, other.state(), other.executor(), 5).originals;
  save_merged_weights(merged, &originals, session.family(), session.executor());
  const SafetensorsModel file = SafetensorsModel::open(merged);
  const NamedWeights weights = weights_of(session);
  const std::vector<float>& w = weights.at("c_fc.weight");
  const std::vector<float>& a = weights.at("c_fc.lora_A.weight");
  const std::vector<float>& b = weights.at("c_fc.lora_B.weight");
  ASSERT_EQ(w.size(), 12 * 20U);
  std::vector<float> found(w.size());
  file.read_into("c_fc.weight", std::as_writable_bytes(std::span(found)));
  for (size_t i = 0; i < found.size(); ++i) {
    double sum = w[i];
    double magnitude = std::abs(sum);
    for (size_t r = 0; r < 3; ++r) {
      const double term = 2.0 * b[i % 20 * 3 + r] * a[r * 12 + i / 20];
      sum += term;
      magnitude += std::abs(term);
    }
    ASSERT_NEAR(found[i], sum, 6 * 0x1p-24 * magnitude) << i;
  }
}

// Hours lie between the start of a run and its end.
TEST_F(AdapterWeights, ABaseThatWasChangedMeanwhileIsNotMerged) {
  const OriginalWeights originals = originals_in(base());
  const fs::path merged = directory_.path() / "merged";
  fs::create_directories(merged);
  const fs::path file = base() / "model.safetensors";
  flip_bit(file, static_cast<int64_t>(fs::file_size(file)) / 2 * 8);
  const std::string message = message_of<SystemError>(
      [&] { save_merged_weights(merged, &originals, session_.family(), session_.executor()); });
  EXPECT_TRUE(contains(message, "expected the weights that this run began with"));
  EXPECT_TRUE(contains(message, base().string()));
  EXPECT_FALSE(fs::exists(merged / "model.safetensors"));
}

// Rounded once to the type that the base's file has.
TEST_F(AdapterWeights, MergedWeightsHaveTheTypeOfTheBase) {
  std::vector<TensorSpec> specs = weight_specs(session_.state());
  const NamedWeights weights = weights_of(session_);
  const fs::path narrow = directory_.path() / "narrow";
  const fs::path merged = directory_.path() / "merged";
  fs::create_directories(narrow);
  fs::create_directories(merged);
  {
    for (TensorSpec& spec : specs) spec.dtype = DType::kBF16;
    SafetensorsWriter writer(narrow / "model.safetensors", specs);
    for (const TensorSpec& spec : specs) {
      std::vector<bfloat16> values;
      for (const float value : weights.at(spec.name)) values.push_back(to_bfloat16(value));
      writer.append(spec.name, std::as_bytes(std::span(values)));
    }
    writer.commit();
  }
  const OriginalWeights originals = originals_in(narrow);
  save_merged_weights(merged, &originals, session_.family(), session_.executor());
  const SafetensorsModel file = SafetensorsModel::open(merged);
  const std::string module = "bert.encoder.layer.1.attention.self.query";
  const std::vector<float>& w = weights.at(module + ".weight");
  const std::vector<float>& a = weights.at(module + ".lora_A.weight");
  const std::vector<float>& b = weights.at(module + ".lora_B.weight");
  ASSERT_EQ(file.tensor(module + ".weight").dtype, DType::kBF16);
  std::vector<bfloat16> found(w.size());
  file.read_into(module + ".weight", std::as_writable_bytes(std::span(found)));
  for (size_t i = 0; i < found.size(); ++i) {
    double sum = to_float(to_bfloat16(w[i]));
    for (size_t r = 0; r < 3; ++r) sum += 2.0 * b[i / 24 * 3 + r] * a[r * 24 + i % 24];
    ASSERT_NEAR(to_float(found[i]), sum, 0x1.01p-8 * std::abs(sum) + 1e-6) << i;
  }
}

// Under bf16 a frozen weight has 16 bits in memory; the merged file has what the base's file has.
TEST_F(AdapterWeights, MergedUnderBf16HasEveryBitOfTheBase) {
  Session other(model_, options_of(3, Precision::kBfloat16));
  other.reserve();
  start(other, 5);
  const fs::path merged = directory_.path() / "merged";
  fs::create_directories(merged);
  const OriginalWeights originals = originals_in(base());
  save_merged_weights(merged, &originals, other.family(), other.executor());
  const SafetensorsModel file = SafetensorsModel::open(merged);
  // B is zero here, and the other session has the weights that the base's file was written from.
  for (const std::string name :
       {"bert.encoder.layer.1.attention.self.query.weight", "bert.encoder.layer.1.output.dense.weight"}) {
    ASSERT_EQ(file.tensor(name).dtype, DType::kF32) << name;
    std::vector<float> found(weights_of(session_).at(name).size());
    file.read_into(name, std::as_writable_bytes(std::span(found)));
    EXPECT_EQ(found, weights_of(session_).at(name)) << name;
  }
}

}  // namespace
}  // namespace shoehorn
