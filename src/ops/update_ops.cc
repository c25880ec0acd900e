// The update: gradient norm, clip coefficient, optimizers. Scalars (learning rate, step, clip coefficient,
// found_inf) are inputs, not attributes.
//
// A node updates one tensor or many: after the shared inputs come `inputs_per_tensor` for each.
#include "ops/adafactor_sums.h"
#include "ops/op_definitions.h"
#include "ops/update_layout.h"

namespace shoehorn {

namespace {

// sum_of_squares: (gradient, gradient, …) -> f64[1], partials summed in a fixed order
std::vector<TensorType> infer_sum_of_squares(const OpContext& context) {
  for (size_t i = 0; i < context.node.inputs.size(); ++i)
    expect_dtype(context, static_cast<int64_t>(i), DType::kF32);
  return {{DType::kF64, {1}}};
}

// clip_coefficient: (sum of squares f64[1], unscale f32[1]?) -> coefficient f32[1], norm f32[1]. `unscale` is
// 1 / loss scale; with it the norm is that of the unscaled gradients, and the coefficient includes it.
std::vector<TensorType> infer_clip(const OpContext& context) {
  expect_dtype(context, 0, DType::kF64);
  if (context.has(1)) expect_dtype(context, 1, DType::kF32);
  return {{DType::kF32, {1}}, {DType::kF32, {1}}};
}

// Kernels update the parameters that are named, so these are all of the weight.
void check_parameters(const OpContext& context, int64_t tensor, const TensorType& weight) {
  int64_t elements = 0;
  for (const UpdatedParameter& parameter :
       context.attributes<UpdateAttributes>().parameters.at(static_cast<size_t>(tensor)))
    elements += parameter.elements() + parameter.padding;
  CHECK(elements == weight.shape.elements(), "[update] expected parameters of all of {}, got {} elements",
        type_name(weight), elements);
}

std::vector<TensorType> infer_update(const OpContext& context) {
  const UpdateLayout layout = update_layout(context.node);
  const WeightForm form = context.attributes<UpdateAttributes>().form;
  const auto& states = context.attributes<UpdateAttributes>().states;
  const auto tensors = static_cast<int64_t>(states.size());
  const auto count = static_cast<int64_t>(context.node.inputs.size()) - layout.shared_inputs;
  CHECK(count == tensors * layout.inputs_per_tensor, "{} inputs for {} tensors of {} each", count, tensors,
        layout.inputs_per_tensor);
  std::vector<TensorType> types;
  for (int64_t tensor = 0; tensor < tensors; ++tensor) {
    const int64_t first = layout.shared_inputs + tensor * layout.inputs_per_tensor;
    expect_dtype(context, first, form == WeightForm::kFloat32 ? DType::kF32 : DType::kBF16);
    if (form == WeightForm::kSplit) expect_dtype(context, first + 1, DType::kI16);
    for (int64_t i = 0; i <= layout.gradient_input; ++i) {
      if (!(context.type(first + i).shape.elements() == context.type(first).shape.elements())) {
        fail_type(context, first + i,
                  fmt::format("as large as its weight {}", type_name(context.type(first))));
      }
      if (i != layout.gradient_input) types.push_back(context.type(first + i));
    }
    int64_t input = first + layout.gradient_input;
    for (const TensorType& state : states[static_cast<size_t>(tensor)]) {
      ++input;
      if (!(context.type(input) == state)) fail_type(context, input, type_name(state));
      types.push_back(state);
    }
    if (layout.sums_input >= 0) expect_dtype(context, first + layout.sums_input, DType::kF64);
    check_parameters(context, tensor, context.type(first));
  }
  return types;
}

// Every output is the next version of the input it came from: all inputs of a tensor but the gradient.
std::vector<AliasRule> update_aliases(const OpContext& context) {
  const UpdateLayout layout = update_layout(context.node);
  std::vector<AliasRule> rules;
  const auto inputs = static_cast<int64_t>(context.node.inputs.size());
  for (int64_t input = layout.shared_inputs; input < inputs; ++input) {
    const int64_t of_tensor = (input - layout.shared_inputs) % layout.inputs_per_tensor;
    if (of_tensor == layout.gradient_input || of_tensor == layout.sums_input) continue;
    rules.push_back({static_cast<int64_t>(rules.size()), input, true});
  }
  return rules;
}

Cost update_cost(const OpContext& context) {
  Cost cost = streaming_cost(context, 0);
  const UpdateLayout layout = update_layout(context.node);
  const auto inputs = static_cast<int64_t>(context.node.inputs.size());
  for (int64_t i = layout.shared_inputs; i < inputs; i += layout.inputs_per_tensor) {
    cost.flops += 14 * static_cast<double>(context.type(i).shape.elements());
  }
  return cost;
}

// adafactor_sums: (updates applied so far i32[1], gradient, moments of rows (of a vector: of elements), clip coefficient
// f32[1] or absent, then with scale_parameter the weight and its rest) -> f64[sums]: ops/adafactor_sums.h
std::vector<TensorType> infer_adafactor_sums(const OpContext& context) {
  const auto& attributes = context.attributes<AdafactorSumsAttributes>();
  expect_dtype(context, 0, DType::kI32);
  if (context.has(3)) expect_dtype(context, 3, DType::kF32);
  int64_t elements = 0, moments = 0, sums = 0;
  for (const UpdatedParameter& parameter : attributes.parameters) {
    const int64_t stored = parameter.elements() + parameter.padding;
    elements += stored;
    moments += attributes.is_factored ? stored / parameter.columns : stored;
    sums += adafactor_sums_of(parameter.whole, attributes.is_factored, attributes.settings).size();
  }
  const auto expect_elements = [&](int64_t input, int64_t expected) {
    if (context.type(input).shape.elements() != expected)
      fail_type(context, input, fmt::format("{} elements", expected));
  };
  for (const int64_t input : {1, 2}) expect_dtype(context, input, DType::kF32);
  expect_elements(1, elements);
  expect_elements(2, moments);
  for (int64_t input = 4; input < std::ssize(context.node.inputs); ++input) expect_elements(input, elements);
  const int64_t weights =
      attributes.settings.scale_parameter ? (attributes.form == WeightForm::kSplit ? 2 : 1) : 0;
  CHECK(std::ssize(context.node.inputs) == 4 + weights, "{} inputs, expected {}", context.node.inputs.size(),
        4 + weights);
  return {{DType::kF64, {sums}}};
}

OpInfo optimizer_op(OpKind kind, std::string_view name) {
  return {.kind = kind,
          .name = name,
          .op_class = OpClass::kUpdate,
          .min_inputs = 2,
          .max_inputs = -1,
          .infer = infer_update,
          .cost = update_cost,
          .aliases = update_aliases};
}

}  // namespace

UpdateLayout update_layout(const Node& node) {
  const auto* attributes = std::get_if<UpdateAttributes>(&node.attributes);
  CHECK(attributes != nullptr, "[update] expected an optimizer's node");
  CHECK(!attributes->states.empty(), "[update] expected a tensor, got none");
  const auto states = static_cast<int64_t>(attributes->states[0].size());
  for (const auto& of_tensor : attributes->states)
    CHECK(static_cast<int64_t>(of_tensor.size()) == states, "tensors differ in their number of states");
  const int64_t weights = attributes->form == WeightForm::kSplit ? 2 : 1;
  const int64_t sums = attributes->reads_sums ? 1 : 0;
  return {.shared_inputs = 4,
          .inputs_per_tensor = weights + 1 + states + sums,
          .gradient_input = weights,
          .sums_input = attributes->reads_sums ? weights + 1 + states : -1};
}

bool is_update(const Node& node) {
  return std::holds_alternative<UpdateAttributes>(node.attributes);
}

std::vector<OpInfo> update_ops() {
  return {
      {.kind = OpKind::kSumOfSquares,
       .name = "sum_of_squares",
       .op_class = OpClass::kUpdate,
       .min_inputs = 1,
       .max_inputs = -1,
       .infer = infer_sum_of_squares,
       .cost =
           [](const OpContext& context) {
             Cost cost = streaming_cost(context, 0);
             cost.flops = cost.bytes_read / 2;
             return cost;
           }},
      {.kind = OpKind::kClipCoefficient,
       .name = "clip_coefficient",
       .op_class = OpClass::kUpdate,
       .min_inputs = 1,
       .max_inputs = 2,
       .infer = infer_clip,
       .cost = [](const OpContext& context) { return streaming_cost(context, 3); }},
      optimizer_op(OpKind::kAdamW, "adamw"),
      optimizer_op(OpKind::kAdamW8bit, "adamw_8bit"),
      optimizer_op(OpKind::kSgd, "sgd"),
      optimizer_op(OpKind::kAdagrad, "adagrad"),
      optimizer_op(OpKind::kRmsProp, "rmsprop"),
      optimizer_op(OpKind::kLion, "lion"),
      optimizer_op(OpKind::kLion8bit, "lion_8bit"),
      optimizer_op(OpKind::kAdafactor, "adafactor"),
      {.kind = OpKind::kAdafactorSums,
       .name = "adafactor_sums",
       .op_class = OpClass::kUpdate,
       .min_inputs = 3,
       .max_inputs = 6,
       .infer = infer_adafactor_sums,
       .cost =
           [](const OpContext& context) {
             Cost cost = streaming_cost(context, 0);
             cost.flops += 7 * static_cast<double>(context.type(1).shape.elements());
             return cost;
           }},
  };
}

}  // namespace shoehorn
