// Unfused element-wise and row-wise ops. Rows are tokens (or sequences); the innermost dimension is the
// feature.
#include "ops/gradient_context.h"
#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

std::vector<TensorType> same_as_first(const OpContext& context) {
  return {context.type(0)};
}

// add, multiply: two of one type
std::vector<TensorType> infer_pair(const OpContext& context) {
  expect_float(context, 0);
  expect_same_type(context, 1, 0);
  return {context.type(0)};
}

void gradient_multiply(GradientContext& context) {
  for (const int64_t i : {0, 1}) {
    if (!context.needed(i)) continue;
    context.set(i, context.builder().value(OpKind::kMultiply, {context.gradient(0), context.input(1 - i)}, {},
                                           "product_gradient"));
  }
}

std::vector<TensorType> infer_bias_add(const OpContext& context) {
  expect_float(context, 0);
  expect_row_vector(context, 1, 0);
  return {context.type(0)};
}

// column_sum: (dy[rows, N], accumulator[N]?) -> f32[N]
std::vector<TensorType> infer_column_sum(const OpContext& context) {
  expect_float(context, 0);
  return {{DType::kF32, {Dim(innermost(context.type(0)).maximum)}}};
}

void gradient_bias_add(GradientContext& context) {
  context.set(0, context.gradient(0));
  if (context.needed(1))
    context.set(1, context.builder().value(OpKind::kColumnSum, {context.gradient(0)}, {}, "bias_gradient"));
}

// activation_grad: (dy, x) -> dx
std::vector<TensorType> infer_activation_grad(const OpContext& context) {
  expect_same_type(context, 1, 0);
  return {context.type(0)};
}

void gradient_activation(GradientContext& context) {
  context.set(0, context.builder().value(OpKind::kActivationGrad, {context.gradient(0), context.input(0)},
                                         context.attributes<ActivationAttributes>(), "activation_gradient"));
}

// dropout: (x[rows, N], step, sample[rows], position[rows]) -> [rows, N]; its own gradient.
std::vector<TensorType> infer_dropout(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  for (int64_t i = 2; i < 4; ++i) {
    expect_dtype(context, i, DType::kI32);
    if (!(context.type(i).shape[0] == context.type(0).shape[0]))
      fail_type(context, i, "one number for each row of input 0");
  }
  return {context.type(0)};
}

void gradient_dropout(GradientContext& context) {
  context.set(
      0, context.builder().value(OpKind::kDropout,
                                 {context.gradient(0), context.input(1), context.input(2), context.input(3)},
                                 context.attributes<DropoutAttributes>(), "dropout_gradient"));
}

// layer_norm: (x[rows, H], gamma[H], beta[H]) -> y, mean f32[rows], rstd f32[rows]
std::vector<TensorType> infer_layer_norm(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_row_vector(context, 1, 0);
  expect_row_vector(context, 2, 0);
  const TensorType statistic{DType::kF32, {context.type(0).shape[0]}};
  return {context.type(0), statistic, statistic};
}

// layer_norm_grad: (dy, x, mean, rstd, gamma, accumulator gamma?, accumulator beta?) -> dx, dgamma, dbeta
std::vector<TensorType> infer_layer_norm_grad(const OpContext& context) {
  expect_same_type(context, 1, 0);
  const TensorType parameter{DType::kF32, context.type(4).shape};
  return {context.type(0), parameter, parameter};
}

void gradient_layer_norm(GradientContext& context) {
  context.set_all(context.builder().add(OpKind::kLayerNormGrad,
                                        {context.gradient(0), context.input(0), context.output(1),
                                         context.output(2), context.input(1)},
                                        context.attributes<NormalizationAttributes>(), "layer_norm_gradient"),
                  {0, 1, 2});
}

// layer_norm_output: (x[rows, H], mean f32[rows], rstd f32[rows], gamma[H], beta[H]) -> y, as layer_norm gave
// it
std::vector<TensorType> infer_layer_norm_output(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  const TensorType statistic{DType::kF32, {context.type(0).shape[0]}};
  for (const int64_t i : {1, 2}) {
    if (!(context.type(i) == statistic)) fail_type(context, i, type_name(statistic));
  }
  expect_row_vector(context, 3, 0);
  expect_row_vector(context, 4, 0);
  return {context.type(0)};
}

ValueId make_layer_norm_again(OpBuilder& builder, const Node& node) {
  return builder.value(OpKind::kLayerNormOutput,
                       {node.inputs[0], node.outputs[1], node.outputs[2], node.inputs[1], node.inputs[2]}, {},
                       "layer_norm.again");
}

// embedding: (table[V, H], ids[rows], addend[rows, H]?) -> [rows, H]
std::vector<TensorType> infer_embedding(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_rank(context, 1, 1);
  expect_dtype(context, 1, DType::kI32);
  TensorType output{context.attributes<EmbeddingAttributes>().output,
                    {context.type(1).shape[0], context.type(0).shape[1]}};
  if (context.has(2) && !(context.type(2) == output)) fail_type(context, 2, type_name(output));
  return {output};
}

// embedding_grad: (dy[rows, H], ids[rows], accumulator[V, H]?) -> f32[V, H]
std::vector<TensorType> infer_embedding_grad(const OpContext& context) {
  return {{DType::kF32, {Dim(context.attributes<EmbeddingAttributes>().rows), context.type(0).shape[1]}}};
}

void gradient_embedding(GradientContext& context) {
  if (context.needed(0)) {
    EmbeddingAttributes attributes = context.attributes<EmbeddingAttributes>();
    attributes.rows = context.type(context.input(0)).shape[0].maximum;
    context.set(0, context.builder().value(OpKind::kEmbeddingGrad, {context.gradient(0), context.input(1)},
                                           attributes, "embedding_gradient"));
  }
  if (context.needed(2)) context.set(2, context.gradient(0));
}

// embedding_noise: (x[rows, H], step, start[S], length[S], sample[S]) -> [rows, H]
// Adds noise that is uniform within ± alpha / √(L·H) to the rows of each sequence of L tokens (NEFTune).
std::vector<TensorType> infer_embedding_noise(const OpContext& context) {
  expect_float(context, 0);
  expect_rank(context, 0, 2);
  expect_dtype(context, 1, DType::kI32);
  for (int64_t i = 2; i < 5; ++i) {
    expect_dtype(context, i, DType::kI32);
    expect_rank(context, i, 1);
    if (!(context.type(i) == context.type(2))) fail_type(context, i, "one number for each sequence");
  }
  return {context.type(0)};
}

}  // namespace

std::vector<OpInfo> rowwise_ops() {
  const auto in_place = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}}; };
  return {
      {.kind = OpKind::kAdd,
       .name = "add",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_pair,
       .cost = [](const OpContext& context) { return streaming_cost(context, 1); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}, {0, 1, false}}; },
       .gradient =
           [](GradientContext& context) {
             context.set(0, context.gradient(0));
             context.set(1, context.gradient(0));
           },
       .row_inputs = [](const OpContext&) { return std::vector<int64_t>{0, 1}; }},
      {.kind = OpKind::kMultiply,
       .name = "multiply",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_pair,
       .cost = [](const OpContext& context) { return streaming_cost(context, 1); },
       .aliases = [](const OpContext&) { return std::vector<AliasRule>{{0, 0, false}, {0, 1, false}}; },
       .gradient = gradient_multiply,
       .row_inputs = [](const OpContext&) { return std::vector<int64_t>{0, 1}; },
       .recompute = {repeat}},
      {.kind = OpKind::kBiasAdd,
       .name = "bias_add",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_bias_add,
       .cost = [](const OpContext& context) { return streaming_cost(context, 1); },
       .aliases = in_place,
       .gradient = gradient_bias_add,
       .row_inputs = rows_of_first},
      {.kind = OpKind::kColumnSum,
       .name = "column_sum",
       .op_class = OpClass::kElementwise,
       .min_inputs = 1,
       .max_inputs = 2,
       .infer = infer_column_sum,
       .cost =
           [](const OpContext& context) {
             Cost cost = streaming_cost(context, 0);
             cost.flops = static_cast<double>(context.type(0).shape.elements());
             return cost;
           },
       .accumulators = {{0, 1}}},
      {.kind = OpKind::kActivation,
       .name = "activation",
       .op_class = OpClass::kElementwise,
       .min_inputs = 1,
       .max_inputs = 1,
       .infer = same_as_first,
       .cost = [](const OpContext& context) { return streaming_cost(context, 8); },
       .aliases = in_place,
       .gradient = gradient_activation,
       .row_inputs = rows_of_first,
       .recompute = {repeat}},
      {.kind = OpKind::kActivationGrad,
       .name = "activation_grad",
       .op_class = OpClass::kElementwise,
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = infer_activation_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 12); },
       .aliases = in_place},
      {.kind = OpKind::kDropout,
       .name = "dropout",
       .op_class = OpClass::kElementwise,
       .min_inputs = 4,
       .max_inputs = 4,
       .infer = infer_dropout,
       .cost = [](const OpContext& context) { return streaming_cost(context, 1); },
       .aliases = in_place,
       .gradient = gradient_dropout,
       .row_inputs = [](const OpContext&) { return std::vector<int64_t>{0, 2, 3}; },
       .recompute = {repeat}},
      {.kind = OpKind::kLayerNorm,
       .name = "layer_norm",
       .op_class = OpClass::kNormalization,
       .min_inputs = 3,
       .max_inputs = 3,
       .infer = infer_layer_norm,
       .cost = [](const OpContext& context) { return streaming_cost(context, 8); },
       .gradient = gradient_layer_norm,
       .row_inputs = rows_of_first,
       .recompute = {make_layer_norm_again, repeat}},
      {.kind = OpKind::kLayerNormGrad,
       .name = "layer_norm_grad",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 7,
       .infer = infer_layer_norm_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 14); },
       .aliases = in_place,
       .accumulators = {{1, 5}, {2, 6}}},
      {.kind = OpKind::kLayerNormOutput,
       .name = "layer_norm_output",
       .op_class = OpClass::kNormalization,
       .min_inputs = 5,
       .max_inputs = 5,
       .infer = infer_layer_norm_output,
       .cost = [](const OpContext& context) { return streaming_cost(context, 4); },
       .aliases = in_place},
      {.kind = OpKind::kEmbedding,
       .name = "embedding",
       .op_class = OpClass::kMovement,
       .min_inputs = 2,
       .max_inputs = 3,
       .infer = infer_embedding,
       .cost =
           [](const OpContext& context) {
             const auto bytes = static_cast<double>(context.output_type(0).bytes());
             return Cost{0, context.has(2) ? 2 * bytes : bytes, bytes};
           },
       .aliases =
           [](const OpContext& context) {
             return context.has(2) ? std::vector<AliasRule>{{0, 2, false}} : std::vector<AliasRule>{};
           },
       .gradient = gradient_embedding,
       .weight = WeightInput{0, true},
       .set_output = set_output_of<EmbeddingAttributes>,
       .recompute = {repeat}},
      {.kind = OpKind::kEmbeddingGrad,
       .name = "embedding_grad",
       .op_class = OpClass::kMovement,
       .min_inputs = 2,
       .max_inputs = 3,
       .infer = infer_embedding_grad,
       .cost = [](const OpContext& context) { return streaming_cost(context, 0); },
       .accumulators = {{0, 2}}},
      {.kind = OpKind::kEmbeddingNoise,
       .name = "embedding_noise",
       .op_class = OpClass::kElementwise,
       .min_inputs = 5,
       .max_inputs = 5,
       .infer = infer_embedding_noise,
       .cost = [](const OpContext& context) { return streaming_cost(context, 2); },
       .aliases = in_place,
       .gradient = [](GradientContext& context) { context.set(0, context.gradient(0)); },
       .recompute = {repeat}},
  };
}

}  // namespace shoehorn
