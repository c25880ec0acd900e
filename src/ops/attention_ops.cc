// Attention over packed sequences: Nq rows of queries and Nk of keys, S sequences, A query heads and K
// key/value heads of size D; Tq queries and Tk keys in the longest sequence. ops/attention_layout.h lists the
// inputs.
//
// Sequences are given by start[S] and length[S] (rows of the packed tokens) and sample[S] (index in the
// effective batch, for the dropout of the probabilities). The mask says which keys a query sees, and
// bias[A, Tq + Tk - 1] is added to the scores by distance: base/attention_mask.h. The unfused chain stores
// [A, Nq, Tk] in fp32; the fused op never does.
#include "ops/attention_layout.h"
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

int64_t query_columns(const AttentionAttributes& attributes) {
  return attributes.heads * attributes.head_size;
}

void check_attributes(const OpContext& context) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  const auto fail = [&](const std::string& what) {
    throw user_error("[{} in {}] expected {}", op_info(context.node.kind).name,
                     region_name(context.node.region), what);
  };
  if (attributes.heads < 1 || attributes.key_value_heads < 1 ||
      attributes.heads % attributes.key_value_heads != 0) {
    fail(fmt::format("key/value heads that divide the query heads, got {} of {}", attributes.key_value_heads,
                     attributes.heads));
  }
  if (attributes.head_size < 1) fail(fmt::format("heads of 1 column or more, got {}", attributes.head_size));
  if (attributes.mask.kind == AttentionMask::Kind::kWindow && attributes.mask.window < 1)
    fail(fmt::format("a window of 1 key or more, got {}", attributes.mask.window));
}

void expect_sequence_numbers(const OpContext& context, int64_t input) {
  expect_dtype(context, input, DType::kI32);
  expect_rank(context, input, 1);
  if (!(context.type(input) == context.type(attention_inputs(context.node.kind).start)))
    fail_type(context, input, "one number for each sequence");
}

// The inputs that say where sequences lie, and the bias.
void check_sequences(const OpContext& context) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  const AttentionInputs inputs = attention_inputs(context.node.kind);
  expect_sequence_numbers(context, inputs.start);
  expect_sequence_numbers(context, inputs.start + 1);
  if (inputs.sample >= 0) expect_sequence_numbers(context, inputs.sample);
  if (context.has(inputs.key_start) != context.has(inputs.key_start + 1)) {
    throw user_error("[{} in {}] expected both starts and lengths of the keys, got one of them",
                     op_info(context.node.kind).name, region_name(context.node.region));
  }
  if (context.has(inputs.key_start)) {
    expect_sequence_numbers(context, inputs.key_start);
    expect_sequence_numbers(context, inputs.key_start + 1);
  }
  if (inputs.bias < 0 || !context.has(inputs.bias)) return;
  const TensorType bias{
      DType::kF32, {Dim(attributes.heads), Dim(attributes.max_query_length + attributes.max_key_length - 1)}};
  if (!(context.type(inputs.bias) == bias)) fail_type(context, inputs.bias, type_name(bias));
}

// `rows`: a dimension that is the queries' rows.
TensorType probabilities_type(const OpContext& context, const Dim& rows) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  return {DType::kF32, {Dim(attributes.heads), rows, Dim(attributes.max_key_length)}};
}

// A value of `columns`: heads side by side.
void expect_heads(const OpContext& context, int64_t input, int64_t heads) {
  const int64_t head_size = context.attributes<AttentionAttributes>().head_size;
  expect_float(context, input);
  expect_rank(context, input, 2);
  if (innermost(context.type(input)).maximum != heads * head_size)
    fail_type(context, input, fmt::format("{} heads of {} columns wide", heads, head_size));
}

// attention_scores: q[Nq, A·D], k[Nk, K·D] -> f32[A, Nq, Tk], scaled; keys that a query doesn't see are -inf
std::vector<TensorType> infer_scores(const OpContext& context) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  check_attributes(context);
  expect_heads(context, 0, attributes.heads);
  expect_heads(context, 1, attributes.key_value_heads);
  expect_dtype(context, 1, context.type(0).dtype);
  check_sequences(context);
  return {probabilities_type(context, context.type(0).shape[0])};
}

// attention_scores_grad: (dscores | inputs of attention_scores) -> dq, dk, dbias?
std::vector<TensorType> infer_scores_grad(const OpContext& context) {
  std::vector<TensorType> types = {context.type(1), context.type(2)};
  if (context.attributes<AttentionAttributes>().trains_bias)
    types.push_back(context.type(attention_inputs(context.node.kind).bias));
  return types;
}

// A gradient node: its inputs are `inputs`, followed by those of the forward. Its outputs are the gradients
// of the given inputs of the forward and, if needed, of the bias.
void append_gradient(GradientContext& context, OpKind kind, std::vector<ValueId> inputs, const char* name,
                     std::vector<int64_t> outputs) {
  const std::vector<ValueId>& forward = context.node().inputs;
  inputs.insert(inputs.end(), forward.begin(), forward.end());
  auto attributes = context.attributes<AttentionAttributes>();
  const int64_t bias = attention_inputs(context.node().kind).bias;
  attributes.trains_bias = bias >= 0 && context.needed(bias);
  if (attributes.trains_bias) outputs.push_back(bias);
  const NodeId node = context.builder().add(kind, std::move(inputs), attributes, name);
  for (size_t i = 0; i < outputs.size(); ++i)
    context.set(outputs[i], context.builder().program().node(node).outputs[i]);
}

void gradient_scores(GradientContext& context) {
  append_gradient(context, OpKind::kAttentionScoresGrad, {context.gradient(0)}, "attention_scores_gradient",
                  {0, 1});
}

// attention_softmax: scores -> dropped probabilities, probabilities
std::vector<TensorType> infer_softmax(const OpContext& context) {
  check_attributes(context);
  expect_rank(context, 0, 3);
  const TensorType scores = probabilities_type(context, context.type(0).shape[1]);
  if (!(context.type(0) == scores)) fail_type(context, 0, type_name(scores));
  check_sequences(context);
  return {scores, scores};
}

// attention_softmax_grad: (ddropped, probabilities, start, length, sample, step, key_start?, key_length?) -> dscores
void gradient_softmax(GradientContext& context) {
  std::vector<ValueId> inputs = context.node().inputs;
  inputs[0] = context.output(1);
  inputs.insert(inputs.begin(), context.gradient(0));
  context.set(
      0, context.builder().value(OpKind::kAttentionSoftmaxGrad, std::move(inputs),
                                 context.attributes<AttentionAttributes>(), "attention_softmax_gradient"));
}

// attention_context: (probabilities, v[Nk, K·D], …) -> [Nq, A·D]
std::vector<TensorType> infer_context(const OpContext& context) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  check_attributes(context);
  expect_heads(context, 1, attributes.key_value_heads);
  expect_rank(context, 0, 3);
  const Dim rows = context.type(0).shape[1];
  if (!(context.type(0) == probabilities_type(context, rows)))
    fail_type(context, 0, type_name(probabilities_type(context, rows)));
  check_sequences(context);
  return {{context.type(1).dtype, {rows, Dim(query_columns(attributes))}}};
}

// attention_context_grad: (dcontext | inputs of attention_context) -> dprobabilities, dv
void gradient_context(GradientContext& context) {
  append_gradient(context, OpKind::kAttentionContextGrad, {context.gradient(0)}, "attention_context_gradient",
                  {0, 1});
}

// Columns of q, k and v within their values, and none in another's.
void check_parts(const OpContext& context, const AttentionParts& parts) {
  for (const AttentionPart& part : {parts.q, parts.k, parts.v}) {
    expect_float(context, part.input);
    expect_rank(context, part.input, 2);
    expect_dtype(context, part.input, context.type(parts.q.input).dtype);
    if (part.column < 0 || part.column + part.width > innermost(context.type(part.input)).maximum) {
      fail_type(context, part.input,
                fmt::format("wide enough for columns {} to {}", part.column, part.column + part.width));
    }
  }
  if (!(context.type(parts.k.input).shape[0] == context.type(parts.v.input).shape[0]))
    fail_type(context, parts.v.input, "as many rows as the keys have");
  const auto expect_apart = [&](const AttentionPart& a, const AttentionPart& b) {
    if (a.input != b.input || a.column >= b.column + b.width || b.column >= a.column + a.width) return;
    fail_type(context, a.input,
              fmt::format("of separate columns for q, k and v (first {}, {} and {})", parts.q.column,
                          parts.k.column, parts.v.column));
  };
  expect_apart(parts.q, parts.k);
  expect_apart(parts.q, parts.v);
  expect_apart(parts.k, parts.v);
}

// attention: -> context[Nq, A·D], logsumexp f32[A, Nq]
std::vector<TensorType> infer_attention(const OpContext& context) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  check_attributes(context);
  const AttentionParts parts = attention_parts(context);
  check_parts(context, parts);
  check_sequences(context);
  const TensorType& q = context.type(parts.q.input);
  return {{q.dtype, {q.shape[0], Dim(query_columns(attributes))}},
          {DType::kF32, {Dim(attributes.heads), q.shape[0]}}};
}

// attention_grad: -> the gradients of the values of q, k and v, and of the bias
std::vector<TensorType> infer_attention_grad(const OpContext& context) {
  const AttentionParts parts = attention_parts(context);
  std::vector<TensorType> types = {context.type(parts.q.input)};
  if (parts.k.gradient != parts.q.gradient) types.push_back(context.type(parts.k.input));
  if (parts.v.gradient != parts.k.gradient) types.push_back(context.type(parts.v.input));
  if (context.attributes<AttentionAttributes>().trains_bias)
    types.push_back(context.type(attention_inputs(context.node.kind).bias));
  return types;
}

void gradient_attention(GradientContext& context) {
  const OpContext node{context.builder().program(), context.node()};
  const AttentionParts parts = attention_parts(node);
  std::vector<int64_t> outputs = {parts.q.input};
  if (parts.k.gradient != parts.q.gradient) outputs.push_back(parts.k.input);
  if (parts.v.gradient != parts.k.gradient) outputs.push_back(parts.v.input);
  append_gradient(context, OpKind::kAttentionGrad,
                  {context.gradient(0), context.output(0), context.output(1)}, "attention_gradient", outputs);
}

// `products` of each row of queries with every key that the mask shows it, where sequences are as long as any.
double product_flops(const OpContext& context, double products, const Dim& query_rows) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  if (attributes.max_query_length == 0) return 0;
  const double seen_keys = static_cast<double>(visible_pairs(attributes.mask, attributes.max_query_length,
                                                             attributes.max_key_length)) /
                           static_cast<double>(attributes.max_query_length);
  return products * 2.0 * seen_keys * static_cast<double>(query_rows.maximum * query_columns(attributes));
}

// The cost of an op with so many such products; the queries' rows are dimension `kDim` of input `kInput`.
template <int kProducts, int64_t kInput, int64_t kDim>
Cost contraction_cost(const OpContext& context) {
  Cost cost = streaming_cost(context, 0);
  cost.flops = product_flops(context, kProducts, context.type(kInput).shape[kDim]);
  return cost;
}

}  // namespace

std::vector<OpInfo> attention_ops() {
  return {
      {.kind = OpKind::kAttentionScores,
       .name = "attention_scores",
       .op_class = OpClass::kContraction,
       .min_inputs = 4,
       .max_inputs = 7,
       .infer = infer_scores,
       .cost = contraction_cost<1, 0, 0>,
       .gradient = gradient_scores,
       .makes_infinities = true},  // scores of masked keys
      {.kind = OpKind::kAttentionScoresGrad,
       .name = "attention_scores_grad",
       .op_class = OpClass::kContraction,
       .min_inputs = 5,
       .max_inputs = 8,
       .infer = infer_scores_grad,
       .cost = contraction_cost<2, 1, 0>},
      {.kind = OpKind::kAttentionSoftmax,
       .name = "attention_softmax",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 7,
       .infer = infer_softmax,
       .cost = [](const OpContext& context) { return streaming_cost(context, 8); },
       .gradient = gradient_softmax},
      {.kind = OpKind::kAttentionSoftmaxGrad,
       .name = "attention_softmax_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 6,
       .max_inputs = 8,
       .infer = [](const OpContext& context) { return std::vector<TensorType>{context.type(0)}; },
       .cost = [](const OpContext& context) { return streaming_cost(context, 5); }},
      {.kind = OpKind::kAttentionContext,
       .name = "attention_context",
       .op_class = OpClass::kContraction,
       .min_inputs = 4,
       .max_inputs = 6,
       .infer = infer_context,
       .cost = contraction_cost<1, 0, 1>,
       .gradient = gradient_context},
      {.kind = OpKind::kAttentionContextGrad,
       .name = "attention_context_grad",
       .op_class = OpClass::kContraction,
       .min_inputs = 5,
       .max_inputs = 7,
       .infer =
           [](const OpContext& context) { return std::vector<TensorType>{context.type(1), context.type(2)}; },
       .cost = contraction_cost<2, 1, 1>},
      {.kind = OpKind::kAttention,
       .name = "attention",
       .op_class = OpClass::kContraction,
       .min_inputs = 5,
       .max_inputs = 10,
       .infer = infer_attention,
       .cost = contraction_cost<2, 0, 0>,
       .gradient = gradient_attention},
      {.kind = OpKind::kAttentionGrad,
       .name = "attention_grad",
       .op_class = OpClass::kContraction,
       .min_inputs = 8,
       .max_inputs = 13,
       .infer = infer_attention_grad,
       .cost = contraction_cost<5, 0, 0>},
  };
}

}  // namespace shoehorn
