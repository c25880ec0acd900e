#include "state/weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "exec/executor_testing.h"
#include "io/test_directory.h"
#include "model/layers.h"
#include "tasks/single_label_classification.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

SessionOptions session_options(Precision precision, bool fused, std::vector<std::string> freeze) {
  SessionOptions options;
  options.train = {64, 4, 20};
  options.step.precision = precision;
  options.step.freeze = std::move(freeze);
  if (!fused) options.step.skip_passes = {"fuse"};
  return options;
}

class ReservedSession {
 public:
  explicit ReservedSession(Precision precision = Precision::kFloat32, bool fused = true,
                           std::vector<std::string> freeze = {})
      : model_(tiny_bert()), session_(model_, session_options(precision, fused, std::move(freeze))) {
    session_.reserve();
  }
  Session& get() { return session_; }
  Executor& executor() { return session_.executor(); }
  const StateTable& state() { return session_.state(); }
  void initialize(uint64_t seed) { initialize_weights(session_.state(), session_.executor(), seed); }
  LoadedWeights load(const fs::path& directory) {
    TorchGenerator generator(1);
    return load_weights(SafetensorsModel::open(directory), session_.state(), session_.executor(), generator);
  }

 private:
  BertForSequenceClassification model_;
  Session session_;
};

// Tensors of `weights` under other names and dtypes.
void write_file(const fs::path& file, const std::vector<TensorSpec>& specs, const NamedWeights& weights,
                const std::function<std::string(const std::string&)>& original) {
  SafetensorsWriter writer(file, specs);
  for (const TensorSpec& spec : specs) {
    const std::vector<float>& values = weights.at(original(spec.name));
    if (spec.dtype == DType::kBF16) {
      std::vector<bfloat16> narrow;
      for (const float value : values) narrow.push_back(to_bfloat16(value));
      writer.append(spec.name, std::as_bytes(std::span(narrow)));
    } else {
      writer.append(spec.name, std::as_bytes(std::span(values)));
    }
  }
  writer.commit();
}

// Whatever the layout here (query, key and value in one storage, masters split in two halves), files hold the
// same bits.
TEST(Weights, RoundTripThroughEveryLayout) {
  const TestDirectory directory;
  ReservedSession source;
  source.initialize(3);
  const NamedWeights weights = weights_of(source.get());
  save_weights(directory.path(), source.state(), source.executor());
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    for (const bool fused : {true, false}) {
      ReservedSession other(precision, fused);
      const LoadedWeights loaded = other.load(directory.path());
      EXPECT_TRUE(loaded.initialized.empty() && loaded.unused.empty());
      EXPECT_TRUE(weights_of(other.get()) == weights);
      const TestDirectory again;
      save_weights(again.path(), other.state(), other.executor());
      EXPECT_TRUE(read_text_file(again.path() / "model.safetensors") ==
                  read_text_file(directory.path() / "model.safetensors"));
    }
  }
}

// A head that may be dropped is initialized as one that is missing; all else is read, and nothing else may differ.
TEST(Weights, ADroppedHeadIsAsOneThatIsMissing) {
  const TestDirectory directory;
  ReservedSession source;
  source.initialize(3);
  const NamedWeights weights = weights_of(source.get());
  const auto load = [&](const std::vector<TensorSpec>& heads, LoadedWeights& loaded) {
    std::vector<TensorSpec> specs;
    for (const TensorSpec& spec : weight_specs(source.state())) {
      if (!spec.name.starts_with("classifier")) specs.push_back(spec);
    }
    specs.insert(specs.end(), heads.begin(), heads.end());
    NamedWeights values = weights;
    for (const TensorSpec& head : heads)
      values[head.name].assign(static_cast<size_t>(tensor_bytes(head) / 4), 7.0F);
    write_file(directory.path() / "model.safetensors", specs, values,
               [](const std::string& name) { return name; });
    ReservedSession session;
    TorchGenerator generator(1);
    loaded =
        load_weights(SafetensorsModel::open(directory.path()), session.state(), session.executor(), generator,
                     [&](const Parameter& parameter) { return is_of_head(session.state(), parameter); });
    return weights_of(session.get());
  };
  LoadedWeights missing;
  const NamedWeights without = load({}, missing);
  EXPECT_TRUE(missing.dropped.empty());
  LoadedWeights loaded;
  const int64_t hidden = tiny_bert().hidden_size;
  EXPECT_TRUE(load({{"classifier.weight", DType::kF32, {9, hidden}}, {"classifier.bias", DType::kF32, {9}}},
                   loaded) == without);
  EXPECT_EQ(loaded.initialized, missing.initialized);
  EXPECT_TRUE(loaded.unused.empty());
  ASSERT_EQ(loaded.dropped.size(), 2U);
  EXPECT_EQ(loaded.dropped[0].parameter, "classifier.weight");
  EXPECT_EQ(loaded.dropped[0].shape_in_file, (std::vector<int64_t>{9, hidden}));
  EXPECT_FALSE(loaded.contents.contains("classifier.weight"));
}

// What bf16 lacks of a weight that is not trained comes from the files that it was read from, also where the
// new files take their place.
TEST(FrozenWeights, AreSavedAsTheyWereLoaded) {
  const TestDirectory directory;
  ReservedSession source;
  source.initialize(3);
  save_weights(directory.path(), source.state(), source.executor());
  const std::string original = read_text_file(directory.path() / "model.safetensors");
  for (const bool fused : {true, false}) {
    ReservedSession frozen(Precision::kBfloat16, fused, {R"(layer\.0\.)"});
    const OriginalWeights originals{SafetensorsModel::open(directory.path()),
                                    frozen.load(directory.path()).contents};
    EXPECT_FALSE(weights_of(frozen.get()) == weights_of(source.get())) << "nothing is rounded";
    save_weights(directory.path(), frozen.state(), frozen.executor(), &originals);
    EXPECT_TRUE(read_text_file(directory.path() / "model.safetensors") == original);
  }
}

// A flipped bit in the low half of a float32 changes nothing of what the run has in bf16.
TEST(FrozenWeights, OriginalsThatWereChangedMeanwhileAreNotSaved) {
  const TestDirectory directory;
  const TestDirectory saved;
  ReservedSession source;
  source.initialize(3);
  save_weights(directory.path(), source.state(), source.executor());
  ReservedSession frozen(Precision::kBfloat16, true, {R"(layer\.0\.)"});
  const OriginalWeights originals{SafetensorsModel::open(directory.path()),
                                  frozen.load(directory.path()).contents};
  const fs::path file = directory.path() / "model.safetensors";
  const TensorEntry& tensor = originals.files.tensor("bert.encoder.layer.0.output.dense.weight");
  const int64_t bit = tensor.file_offset * 8;
  flip_bit(file, bit);
  const std::string message = message_of<SystemError>(
      [&] { save_weights(saved.path(), frozen.state(), frozen.executor(), &originals); });
  EXPECT_TRUE(contains(message, "expected the weights that this run began with"));
  EXPECT_FALSE(fs::exists(saved.path() / "model.safetensors"));
  flip_bit(file, bit);
  EXPECT_NO_THROW(save_weights(saved.path(), frozen.state(), frozen.executor(), &originals));
}

TEST(FrozenWeights, WithoutOriginalsAreBfloat16InFilesToo) {
  const TestDirectory directory;
  ReservedSession first(Precision::kBfloat16, true, {R"(layer\.0\.)"});
  first.initialize(3);
  save_weights(directory.path(), first.state(), first.executor());
  const SafetensorsModel files = SafetensorsModel::open(directory.path());
  for (const Parameter& parameter : first.state().parameters()) {
    const bool is_rounded =
        parameter.name.find("layer.0.") != std::string::npos && parameter.shape.size() == 2;
    EXPECT_EQ(files.tensor(parameter.name).dtype, is_rounded ? DType::kBF16 : DType::kF32) << parameter.name;
  }
  ReservedSession second(Precision::kBfloat16, false, {R"(layer\.0\.)"});
  const OriginalWeights originals{SafetensorsModel::open(directory.path()),
                                  second.load(directory.path()).contents};
  EXPECT_TRUE(weights_of(second.get()) == weights_of(first.get()));
  const TestDirectory again;
  save_weights(again.path(), second.state(), second.executor(), &originals);
  EXPECT_TRUE(read_text_file(again.path() / "model.safetensors") ==
              read_text_file(directory.path() / "model.safetensors"));
}

TEST(Weights, InitialWeightsFollowFromSeedAndName) {
  ReservedSession first;
  ReservedSession second(Precision::kBfloat16, false);
  first.initialize(9);
  second.initialize(9);
  const NamedWeights weights = weights_of(first.get());
  EXPECT_TRUE(weights == weights_of(second.get()));
  second.initialize(10);
  EXPECT_FALSE(weights == weights_of(second.get()));

  const std::vector<float>& table = weights.at("bert.embeddings.word_embeddings.weight");
  double square = 0;
  for (const float value : table)
    square += static_cast<double>(value) * value / static_cast<double>(table.size());
  EXPECT_NEAR(std::sqrt(square), 0.02, 0.002);
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(table[i], 0) << "the padding token's row";
  for (const float value : weights.at("bert.embeddings.LayerNorm.weight")) EXPECT_EQ(value, 1);
  for (const float value : weights.at("classifier.bias")) EXPECT_EQ(value, 0);
}

// A base model's file: no "bert.", old endings, half precision, and no head.
TEST(Weights, OldAndHeadlessFiles) {
  const TestDirectory directory;
  ReservedSession source;
  source.initialize(3);
  const NamedWeights weights = weights_of(source.get());
  std::vector<TensorSpec> specs;
  const auto replace = [](std::string name, const std::string& from, const std::string& to) {
    const size_t at = name.find(from);
    return at == std::string::npos ? name : name.replace(at, from.size(), to);
  };
  for (const TensorSpec& spec : weight_specs(source.state())) {
    if (spec.name.starts_with("classifier")) continue;
    std::string name = replace(spec.name.substr(5), "LayerNorm.weight", "LayerNorm.gamma");
    name = replace(name, "LayerNorm.bias", "LayerNorm.beta");
    specs.push_back({name, DType::kBF16, spec.shape});
  }
  specs.push_back({"embeddings.position_ids", DType::kF32, {24, 24}});
  NamedWeights with_extra = weights;
  with_extra["bert.embeddings.position_ids"].resize(24 * 24);
  write_file(directory.path() / "model.safetensors", specs, with_extra, [&](const std::string& name) {
    return "bert." +
           replace(replace(name, "LayerNorm.gamma", "LayerNorm.weight"), "LayerNorm.beta", "LayerNorm.bias");
  });
  ReservedSession target;
  const LoadedWeights loaded = target.load(directory.path());
  EXPECT_EQ(loaded.initialized, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
  EXPECT_EQ(loaded.unused, std::vector<std::string>{"embeddings.position_ids"});
  for (const auto& [name, values] : weights_of(target.get())) {
    if (name.starts_with("classifier")) continue;
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], to_float(to_bfloat16(weights.at(name)[i]))) << name;
  }
}

class UniformHead final : public Model {
 public:
  Outputs forward(ModelBuilder& builder) const override {
    builder.set_region(-1, Component::kEmbeddings);
    const Tensor x = builder.embedding(embedding_table(builder, "tokens", 61, 24, 0.2F),
                                       builder.input(BatchColumn::kInputIds));
    builder.set_region(-1, Component::kHead);
    const Initializer uniform = {.kind = Initializer::Kind::kUniform, .bound = 0.25F};
    const Tensor weight = builder.parameter("classifier.weight", {3, 24}, uniform);
    const Tensor bias = builder.parameter("classifier.bias", {3}, uniform);
    return builder.linear(builder.first_tokens(x), weight, bias);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 24; }
  int64_t vocab_size() const override { return 61; }

 private:
  SingleLabelClassification task_{3};
};

// As PyTorch's Linear starts, of which `uniform_` draws weight and bias.
TEST(Weights, UniformHeadThatFilesLackIsDrawnAsPyTorchDraws) {
  const TestDirectory directory;
  const UniformHead model;
  Session session(model, session_options(Precision::kFloat32, true, {}));
  session.reserve();
  initialize_weights(session.state(), session.executor(), 3);
  const NamedWeights weights = weights_of(session);
  write_file(directory.path() / "model.safetensors", {{"tokens.weight", DType::kF32, {61, 24}}}, weights,
             [](const std::string& name) { return name; });
  TorchGenerator generator(1);
  const LoadedWeights loaded =
      load_weights(SafetensorsModel::open(directory.path()), session.state(), session.executor(), generator);
  EXPECT_EQ(loaded.initialized, (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
  TorchGenerator same(1);
  for (const char* name : {"classifier.weight", "classifier.bias"}) {
    std::vector<float> expected(weights.at(name).size());
    same.uniform(expected, -0.25F, 0.25F);
    EXPECT_EQ(weights_of(session).at(name), expected) << name;
  }
}

TEST(Weights, FilesThatDoNotFit) {
  const TestDirectory directory;
  ReservedSession source;
  source.initialize(3);
  NamedWeights weights = weights_of(source.get());
  std::vector<TensorSpec> specs = weight_specs(source.state());
  const auto same = [](const std::string& name) { return name; };
  const auto find = [&](const std::string& name) {
    return std::find_if(specs.begin(), specs.end(),
                        [&](const TensorSpec& spec) { return spec.name == name; });
  };
  ReservedSession target;
  const auto refusal = [&] { return message_of<UserError>([&] { target.load(directory.path()); }); };

  const auto pooler = find("bert.pooler.dense.weight");
  pooler->shape = {12, 48};
  write_file(directory.path() / "model.safetensors", specs, weights, same);
  EXPECT_TRUE(contains(refusal(), "bert.pooler.dense.weight] expected shape [24, 24]"));
  pooler->shape = {24, 24};
  pooler->dtype = DType::kI32;
  write_file(directory.path() / "model.safetensors", specs, weights, same);
  EXPECT_TRUE(contains(refusal(), "floating-point"));
  specs.erase(pooler);
  write_file(directory.path() / "model.safetensors", specs, weights, same);
  EXPECT_EQ(target.load(directory.path()).initialized, std::vector<std::string>{"bert.pooler.dense.weight"});
  specs.erase(find("bert.encoder.layer.1.output.dense.bias"));
  write_file(directory.path() / "model.safetensors", specs, weights, same);
  EXPECT_TRUE(contains(refusal(), "'bert.encoder.layer.1.output.dense.bias'"));
}

TEST(Weights, OptimizerStatesGoByParameter) {
  const TestDirectory directory;
  const std::vector<std::string> names = {"exp_avg", "exp_avg_sq"};
  const auto fill = [&](ReservedSession& session, float first) {
    for (const std::string& name : names) {
      for (const Storage& storage : session.state().storages()) {
        if (!storage.name.ends_with("." + name)) continue;
        std::vector<float> values(static_cast<size_t>(storage.type.shape.elements()));
        for (float& value : values) value = first == 0 ? 0 : first++;
        set_values(session.executor(), session.state().find_storage(storage.name), values);
      }
    }
  };
  ReservedSession source;
  fill(source, 1);
  save_optimizer_states(directory.path() / "optimizer.safetensors", source.state(), source.executor(),
                        AdamWSettings{});
  ReservedSession target(Precision::kBfloat16, false);
  fill(target, 0);
  load_optimizer_states(directory.path() / "optimizer.safetensors", target.state(), target.executor(),
                        AdamWSettings{});
  save_optimizer_states(directory.path() / "again.safetensors", target.state(), target.executor(),
                        AdamWSettings{});
  const SafetensorsFile first = SafetensorsFile::open(directory.path() / "optimizer.safetensors");
  const SafetensorsFile second = SafetensorsFile::open(directory.path() / "again.safetensors");
  EXPECT_EQ(first.tensors().size(), 2 * source.state().parameters().size());
  for (const TensorEntry& entry : first.tensors()) {
    std::vector<float> a(static_cast<size_t>(entry.bytes / 4));
    std::vector<float> b(a.size());
    first.read_into(entry.name, std::as_writable_bytes(std::span(a)));
    second.read_into(entry.name, std::as_writable_bytes(std::span(b)));
    EXPECT_TRUE(a == b) << entry.name;
    EXPECT_GT(a[0], 0) << entry.name;
  }
  const auto refusal = [&](const fs::path& file) {
    return message_of<UserError>(
        [&] { load_optimizer_states(file, source.state(), source.executor(), AdamWSettings{}); });
  };
  save_weights(directory.path(), source.state(), source.executor());
  EXPECT_TRUE(contains(refusal(directory.path() / "model.safetensors"), "got another tensor"));
  // Of a run that trained less, or more.
  ReservedSession frozen(Precision::kFloat32, true, {"bias"});
  save_optimizer_states(directory.path() / "less.safetensors", frozen.state(), frozen.executor(),
                        AdamWSettings{});
  EXPECT_TRUE(contains(refusal(directory.path() / "less.safetensors"), "bias.exp_avg"));
  EXPECT_TRUE(contains(message_of<UserError>([&] {
                         load_optimizer_states(directory.path() / "optimizer.safetensors", frozen.state(),
                                               frozen.executor(), AdamWSettings{});
                       }),
                       "got another tensor"));
}

TEST(Weights, UnusedTensorsAreNamed) {
  EXPECT_EQ(format_unused({}), "");
  EXPECT_EQ(format_unused({"bert.embeddings.position_ids", "embeddings.position_ids"}), "");
  EXPECT_EQ(format_unused({"a", "embeddings.position_ids", "b"}),
            "not used, the model has no such parameters: a, b");
  std::vector<std::string> many;
  for (char c = 'a'; c <= 'k'; ++c) many.emplace_back(1, c);
  EXPECT_EQ(format_unused(many),
            "not used, the model has no such parameters: a, b, c, d, e, f, g, h and 3 more");
}

}  // namespace
}  // namespace shoehorn
