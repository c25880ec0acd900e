#include "model/model_builder.h"

#include <algorithm>
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
    : ModelBuilder(program, batch, batch.capacity(), scalars, training, seed) {}

ModelBuilder::ModelBuilder(Program& program, BatchInputs& batch, const BatchCapacity& capacity,
                           const ScalarStorages& scalars, bool training, uint64_t seed)
    : program_(program),
      builder_(program),
      batch_(batch),
      capacity_(capacity),
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

void ModelBuilder::mark(Tensor weight, bool Parameter::* fact) {
  StateTable& state = program_.state();
  const StorageId storage = program_.value(weight.id()).storage;
  if (!storage.valid()) return;
  for (const ParameterId id : state.parameters_of(storage)) state.parameter(id).*fact = true;
}

Tensor ModelBuilder::embedding(Tensor table, Tensor ids, int64_t padding_index) {
  mark(table, &Parameter::is_embedding);
  EmbeddingAttributes attributes;
  attributes.padding_index = padding_index;
  return op(OpKind::kEmbedding, {table.id(), ids.id()}, attributes, "embedding");
}

Tensor ModelBuilder::add_embedding(Tensor addend, Tensor table, Tensor ids) {
  mark(table, &Parameter::is_embedding);
  return op(OpKind::kEmbedding, {table.id(), ids.id(), addend.id()}, EmbeddingAttributes{}, "embedding_sum");
}

Tensor ModelBuilder::linear(Tensor x, Tensor weight) {
  return op(OpKind::kMatmul, {x.id(), weight.id()}, MatmulAttributes{.transpose_b = true}, "product");
}

Tensor ModelBuilder::linear(Tensor x, Tensor weight, Tensor bias) {
  const Tensor product = linear(x, weight);
  return op(OpKind::kBiasAdd, {product.id(), bias.id()}, {}, "linear");
}

Tensor ModelBuilder::linear_transposed(Tensor x, Tensor weight, Tensor bias) {
  const Tensor product = op(OpKind::kMatmul, {x.id(), weight.id()}, MatmulAttributes{}, "product");
  return op(OpKind::kBiasAdd, {product.id(), bias.id()}, {}, "linear");
}

Tensor ModelBuilder::add(Tensor a, Tensor b) {
  return op(OpKind::kAdd, {a.id(), b.id()}, {}, "sum");
}

Tensor ModelBuilder::multiply(Tensor a, Tensor b) {
  return op(OpKind::kMultiply, {a.id(), b.id()}, {}, "elementwise_product");
}

Tensor ModelBuilder::activation(Tensor x, Activation kind) {
  return op(OpKind::kActivation, {x.id()}, ActivationAttributes{kind}, std::string(activation_name(kind)));
}

Tensor ModelBuilder::layer_norm(Tensor x, Tensor gamma, Tensor beta, float epsilon) {
  mark(gamma, &Parameter::is_layer_norm);
  mark(beta, &Parameter::is_layer_norm);
  return op(OpKind::kLayerNorm, {x.id(), gamma.id(), beta.id()}, NormalizationAttributes{epsilon, {}},
            "layer_norm");
}

Tensor ModelBuilder::rms_norm(Tensor x, Tensor gamma, float epsilon) {
  return op(OpKind::kRmsNorm, {x.id(), gamma.id()}, NormalizationAttributes{epsilon, {}}, "rms_norm");
}

Tensor ModelBuilder::columns(Tensor x, int64_t first, int64_t width) {
  return op(OpKind::kTakeColumns, {x.id()}, ColumnsAttributes{first, width}, "columns");
}

Tensor ModelBuilder::rotary_table(const RotaryFrequencies& rotary, BatchAxis axis) {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (rotary.frequencies.empty() ||
      !std::all_of(rotary.frequencies.begin(), rotary.frequencies.end(), is_finite)) {
    throw user_error("[rotary] expected finite frequencies, got {} of them: {}", rotary.frequencies.size(),
                     fmt::join(rotary.frequencies, ", "));
  }
  if (!is_finite(rotary.attention_factor))
    throw user_error("[rotary] expected a finite attention factor, got {}", rotary.attention_factor);
  return op(OpKind::kRotaryTable, {input(token_columns(axis).positions).id()}, RotaryTableAttributes{rotary},
            "rotary_table");
}

Tensor ModelBuilder::rotate(Tensor x, Tensor table, int64_t heads) {
  const int64_t columns = x.shape().back().maximum;
  if (heads < 1 || columns % heads != 0)
    throw user_error("[rotary] expected heads that divide the columns, got {} columns and {} heads", columns,
                     heads);
  return op(OpKind::kRotary, {x.id(), table.id()}, RotaryAttributes{0, heads, columns / heads, false},
            "rotated");
}

Tensor ModelBuilder::dropout(Tensor x, float p, BatchColumn sample, BatchColumn position) {
  check_probability(p);
  const uint32_t stream = next_stream();
  if (!training_ || p == 0) return x;
  return op(OpKind::kDropout, {x.id(), read(scalars_.step).id(), input(sample).id(), input(position).id()},
            DropoutAttributes{{p, seed_, stream}}, "dropout");
}

// A model is captured for one micro-batch: the first.
BatchAxis ModelBuilder::axis_of_rows(Tensor x) {
  for (const BatchAxis axis : kBatchAxes) {
    if (x.shape()[0].count == batch_count(0, axis)) return axis;
  }
  throw user_error("[model] expected rows of tokens or of sequences, got {} rows of neither",
                   x.shape()[0].maximum);
}

BatchAxis ModelBuilder::token_axis_of(Tensor x) {
  const BatchAxis axis = axis_of_rows(x);
  if (counts_tokens(axis)) return axis;
  throw user_error("[model] expected a row for each token, got one for each sequence");
}

Tensor ModelBuilder::token_dropout(Tensor x, float p) {
  const TokenColumns& columns = token_columns(token_axis_of(x));
  return dropout(x, p, columns.sample, columns.positions);
}

Tensor ModelBuilder::sequence_dropout(Tensor x, float p) {
  return dropout(x, p, BatchColumn::kSequenceSample, BatchColumn::kSequencePosition);
}

Tensor ModelBuilder::attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  check_probability(options.dropout);
  if (options.heads < 1 || q.shape().back().maximum % options.heads != 0) {
    throw user_error("[attention] expected queries that divide into heads, got {} columns and {} heads",
                     q.shape().back().maximum, options.heads);
  }
  AttentionAttributes attributes;
  attributes.heads = options.heads;
  attributes.key_value_heads = options.key_value_heads == 0 ? options.heads : options.key_value_heads;
  attributes.head_size = q.shape().back().maximum / options.heads;
  const BatchAxis axis = token_axis_of(q);
  attributes.max_query_length = capacity().longest(axis);
  AttentionOptions keys_at = options;
  if (!options.key_start.id().valid() && token_axis_of(k) != axis) {
    const BatchAxis key_axis = token_axis_of(k);
    keys_at.key_start = input(token_columns(key_axis).start);
    keys_at.key_length = input(token_columns(key_axis).length);
    keys_at.longest_keys = capacity().longest(key_axis);
  }
  const bool own_keys = keys_at.key_start.id().valid();
  if (own_keys && keys_at.longest_keys < 1)
    throw user_error("[attention] expected the most keys of a sequence with their starts, got {}",
                     keys_at.longest_keys);
  attributes.max_key_length = own_keys ? keys_at.longest_keys : attributes.max_query_length;
  attributes.scale =
      options.scale != 0 ? options.scale : 1.0F / std::sqrt(static_cast<float>(attributes.head_size));
  attributes.mask = options.mask;
  attributes.dropout = {training_ ? options.dropout : 0.0F, seed_, next_stream()};
  const ValueId start = input(token_columns(axis).start).id();
  const ValueId length = input(token_columns(axis).length).id();
  const ValueId sample = input(BatchColumn::kSequenceSample).id();
  const ValueId step = read(scalars_.step).id();
  // Optional inputs behind the others: none, the keys' rows, or these and the bias.
  std::vector<ValueId> keys;
  if (own_keys || options.bias.id().valid()) keys = {keys_at.key_start.id(), keys_at.key_length.id()};
  const auto with = [](std::vector<ValueId> inputs, const std::vector<ValueId>& more) {
    inputs.insert(inputs.end(), more.begin(), more.end());
    return inputs;
  };
  std::vector<ValueId> keys_and_bias = keys;
  if (options.bias.id().valid()) keys_and_bias.push_back(options.bias.id());
  const Tensor scores = op(OpKind::kAttentionScores, with({q.id(), k.id(), start, length}, keys_and_bias),
                           attributes, "attention_scores");
  const Tensor probabilities =
      op(OpKind::kAttentionSoftmax, with({scores.id(), start, length, sample, step}, keys), attributes,
         "attention_probabilities");
  return op(OpKind::kAttentionContext, with({probabilities.id(), v.id(), start, length}, keys), attributes,
            "attention_context");
}

Tensor ModelBuilder::first_tokens(Tensor x) {
  const ValueId start = input(token_columns(token_axis_of(x)).start).id();
  return op(OpKind::kGatherRows, {x.id(), start}, {}, "first_tokens");
}

Tensor ModelBuilder::last_tokens(Tensor x, int64_t padding_token) {
  const TokenColumns& columns = token_columns(token_axis_of(x));
  std::vector<ValueId> inputs = {input(columns.start).id(), input(columns.length).id()};
  Attributes attributes;
  if (padding_token >= 0) {
    inputs.push_back(input(columns.ids).id());
    attributes = EmbeddingAttributes{.padding_index = padding_token};
  }
  const Tensor last = op(OpKind::kLastRows, std::move(inputs), attributes, "last_rows");
  return op(OpKind::kGatherRows, {x.id(), last.id()}, {}, "last_tokens");
}

namespace {

// The weights stand behind the accumulator, which a pass adds.
void append_weights(std::vector<ValueId>& inputs, const Tensor& weights) {
  if (weights.id().valid()) inputs.insert(inputs.end(), {ValueId{}, weights.id()});
}

}  // namespace

Tensor ModelBuilder::cross_entropy(Tensor logits, float label_smoothing, Tensor class_weights, float z_loss) {
  const BatchAxis axis = axis_of_rows(logits);
  const BatchColumn labels = counts_tokens(axis) ? token_columns(axis).labels : BatchColumn::kClassLabels;
  std::vector<ValueId> inputs = {logits.id(), input(labels).id(), read(scalars_.target_count).id()};
  append_weights(inputs, class_weights);
  return op(OpKind::kCrossEntropy, std::move(inputs), LossAttributes{label_smoothing, z_loss}, "loss");
}

Tensor ModelBuilder::right_targets(Tensor loss) const {
  const NodeId maker = program_.value(loss.id()).producer;
  CHECK(maker.valid() && program_.node(maker).kind == OpKind::kCrossEntropy,
        "right targets of what is no cross-entropy");
  return wrap(program_.node(maker).outputs[3]);
}

Tensor ModelBuilder::value_loss(OpKind kind, Tensor logits, Tensor positive_weights) {
  const int64_t width = logits.shape().back().maximum;
  std::vector<ValueId> inputs = {logits.id(), input(BatchColumn::kValueLabels, width).id(),
                                 read(scalars_.target_count).id()};
  append_weights(inputs, positive_weights);
  return op(kind, std::move(inputs), {}, "loss");
}

Tensor ModelBuilder::mean_squared_error(Tensor predictions) {
  return value_loss(OpKind::kMeanSquaredError, predictions);
}

Tensor ModelBuilder::binary_cross_entropy(Tensor logits, Tensor positive_weights) {
  return value_loss(OpKind::kBinaryCrossEntropy, logits, positive_weights);
}

}  // namespace shoehorn
