#include "model/model_builder.h"

#include <cmath>

#include "base/error.h"

namespace shoehorn {

namespace {

void check_probability(float dropout) {
  if (!(dropout >= 0 && dropout < 1))
    throw user_error("[dropout] expected a probability in [0, 1), got {}", dropout);
}

}  // namespace

ModelBuilder::ModelBuilder(Program& program, BatchInputs& batch, const ScalarStorages& scalars, bool training,
                           uint64_t seed)
    : program_(program),
      builder_(program),
      batch_(batch),
      scalars_(scalars),
      training_(training),
      seed_(seed) {}

Tensor ModelBuilder::parameter(const std::string& name, const std::vector<int64_t>& shape,
                               const Initializer& initializer) {
  StateTable& state = program_.state();
  if (const ParameterId known = state.find_parameter(name); known.valid()) {
    const Parameter& parameter = state.parameter(known);
    CHECK(parameter.shape == shape, "parameter {} is asked for in another shape", name);
    return read(parameter.storage);
  }
  Storage storage;
  storage.name = name;
  storage.type.shape = Shape(std::vector<Dim>(shape.begin(), shape.end()));
  storage.role = Role::kWeight;
  storage.region = builder_.region();
  Parameter parameter;
  parameter.name = name;
  parameter.shape = shape;
  parameter.storage = state.add_storage(std::move(storage));
  parameter.initializer = initializer;
  const StorageId id = parameter.storage;
  state.add_parameter(std::move(parameter));
  return read(id);
}

void ModelBuilder::set_region(int32_t layer, Component component) {
  Region region;
  region.layer = layer;
  region.component = component;
  builder_.set_region(region);
}

void ModelBuilder::mark_embedding(Tensor table) {
  StateTable& state = program_.state();
  const StorageId storage = program_.value(table.id()).storage;
  if (!storage.valid()) return;
  for (const ParameterId id : state.parameters_of(storage)) state.parameter(id).is_embedding = true;
}

Tensor ModelBuilder::embedding(Tensor table, Tensor ids, int64_t padding_index) {
  mark_embedding(table);
  EmbeddingAttributes attributes;
  attributes.padding_index = padding_index;
  return op(OpKind::kEmbedding, {table.id(), ids.id()}, attributes, "embedding");
}

Tensor ModelBuilder::add_embedding(Tensor addend, Tensor table, Tensor ids) {
  mark_embedding(table);
  return op(OpKind::kEmbedding, {table.id(), ids.id(), addend.id()}, EmbeddingAttributes{}, "embedding_sum");
}

Tensor ModelBuilder::linear(Tensor x, Tensor weight, Tensor bias) {
  const Tensor product =
      op(OpKind::kMatmul, {x.id(), weight.id()}, MatmulAttributes{.transpose_b = true}, "product");
  return op(OpKind::kBiasAdd, {product.id(), bias.id()}, {}, "linear");
}

Tensor ModelBuilder::add(Tensor a, Tensor b) {
  return op(OpKind::kAdd, {a.id(), b.id()}, {}, "sum");
}

Tensor ModelBuilder::activation(Tensor x, Activation kind) {
  return op(OpKind::kActivation, {x.id()}, ActivationAttributes{kind}, std::string(activation_name(kind)));
}

Tensor ModelBuilder::layer_norm(Tensor x, Tensor gamma, Tensor beta, float epsilon) {
  return op(OpKind::kLayerNorm, {x.id(), gamma.id(), beta.id()}, NormalizationAttributes{epsilon, {}},
            "layer_norm");
}

Tensor ModelBuilder::rms_norm(Tensor x, Tensor gamma, float epsilon) {
  return op(OpKind::kRmsNorm, {x.id(), gamma.id()}, NormalizationAttributes{epsilon, {}}, "rms_norm");
}

Tensor ModelBuilder::dropout(Tensor x, float p, BatchColumn sample, BatchColumn position) {
  check_probability(p);
  const uint32_t stream = next_stream();
  if (!training_ || p == 0) return x;
  return op(OpKind::kDropout, {x.id(), read(scalars_.step).id(), input(sample).id(), input(position).id()},
            DropoutAttributes{{p, seed_, stream}}, "dropout");
}

Tensor ModelBuilder::token_dropout(Tensor x, float p) {
  return dropout(x, p, BatchColumn::kTokenSample, BatchColumn::kPositionIds);
}

Tensor ModelBuilder::sequence_dropout(Tensor x, float p) {
  return dropout(x, p, BatchColumn::kSequenceSample, BatchColumn::kSequencePosition);
}

Tensor ModelBuilder::attention(Tensor q, Tensor k, Tensor v, int64_t heads, float dropout) {
  check_probability(dropout);
  AttentionAttributes attributes;
  attributes.heads = heads;
  attributes.max_sequence_length = capacity().longest_sequence;
  attributes.scale = 1.0F / std::sqrt(static_cast<float>(q.shape().back().maximum / heads));
  attributes.dropout = {training_ ? dropout : 0.0F, seed_, next_stream()};
  const ValueId start = input(BatchColumn::kSequenceStart).id();
  const ValueId length = input(BatchColumn::kSequenceLength).id();
  const ValueId sample = input(BatchColumn::kSequenceSample).id();
  const ValueId step = read(scalars_.step).id();
  const Tensor scores =
      op(OpKind::kAttentionScores, {q.id(), k.id(), start, length}, attributes, "attention_scores");
  const Tensor probabilities = op(OpKind::kAttentionSoftmax, {scores.id(), start, length, sample, step},
                                  attributes, "attention_probabilities");
  return op(OpKind::kAttentionContext, {probabilities.id(), v.id(), start, length}, attributes,
            "attention_context");
}

Tensor ModelBuilder::first_tokens(Tensor x) {
  return op(OpKind::kGatherRows, {x.id(), input(BatchColumn::kSequenceStart).id()}, {}, "first_tokens");
}

Tensor ModelBuilder::cross_entropy(Tensor logits, float label_smoothing) {
  return op(OpKind::kCrossEntropy,
            {logits.id(), input(BatchColumn::kClassLabels).id(), read(scalars_.target_count).id()},
            LossAttributes{label_smoothing}, "loss");
}

Tensor ModelBuilder::value_loss(OpKind kind, Tensor logits) {
  const int64_t width = logits.shape().back().maximum;
  return op(kind,
            {logits.id(), input(BatchColumn::kValueLabels, width).id(), read(scalars_.target_count).id()}, {},
            "loss");
}

Tensor ModelBuilder::mean_squared_error(Tensor predictions) {
  return value_loss(OpKind::kMeanSquaredError, predictions);
}

Tensor ModelBuilder::binary_cross_entropy(Tensor logits) {
  return value_loss(OpKind::kBinaryCrossEntropy, logits);
}

}  // namespace shoehorn
