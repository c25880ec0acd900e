#include "exec/cpu/kernel_entry.h"
#include "exec/cpu/optimizers/adafactor.h"
#include "exec/cpu/optimizers/loss_scale.h"
#include "exec/cpu/optimizers/optimizer_8bit.h"
#include "exec/cpu/optimizers/optimizer_elementwise.h"
#include "exec/cpu/optimizers/optimizer_kernels.h"
#include "exec/cpu/optimizers/reduction.h"
#include "exec/cpu/parallel.h"
#include "ops/update_layout.h"

namespace shoehorn::cpu {

namespace {

std::vector<TensorView> views(const OpContext& node, const std::vector<std::byte*>& pointers) {
  std::vector<TensorView> list;
  for (size_t i = 0; i < node.node.inputs.size(); ++i) {
    const TensorType& type = node.type(static_cast<int64_t>(i));
    list.push_back({type.dtype, type.shape.elements(), pointers.empty() ? nullptr : pointers[i]});
  }
  return list;
}

PreparedNode bind_sum_of_squares(const OpContext& node, const NodeBuffers& buffers, int) {
  return [list = views(node, buffers.inputs), total = output<double>(buffers, 0),
          workspace = buffers.workspace](const int64_t*) { sum_of_squares(list, total, workspace); };
}

PreparedNode bind_clip(const OpContext& node, const NodeBuffers& buffers, int) {
  return [squares = input<const double>(buffers, 0), max_norm = node.attributes<ClipAttributes>().max_norm,
          unscale = input<const float>(buffers, 1), coefficient = output<float>(buffers, 0),
          norm = output<float>(buffers, 1)](const int64_t*) {
    clip_coefficient(squares, unscale, max_norm, norm, coefficient);
  };
}

PreparedNode bind_reciprocal(const OpContext&, const NodeBuffers& buffers, int) {
  return [x = input<const float>(buffers, 0), y = output<float>(buffers, 0)](const int64_t*) { *y = 1 / *x; };
}

PreparedNode bind_found_inf(const OpContext&, const NodeBuffers& buffers, int) {
  return [squares = input<const double>(buffers, 0), found = output<int32_t>(buffers, 0)](const int64_t*) {
    found_inf(squares, found);
  };
}

PreparedNode bind_loss_scale_update(const OpContext& node, const NodeBuffers& buffers, int) {
  const LossScaleState state{input<float>(buffers, 0), input<int32_t>(buffers, 1),
                             input<int32_t>(buffers, 2)};
  return [state, attributes = node.attributes<LossScaleAttributes>(),
          found = input<const int32_t>(buffers, 3)](const int64_t*) {
    loss_scale_update(attributes, found, state);
  };
}

UpdateScalars bind_scalars(const OpContext& node, const NodeBuffers& buffers) {
  return {.learning_rate = input<const float>(buffers, 0),
          .gradient_scale = input<const float>(buffers, 2),
          .skip = input<const int32_t>(buffers, 3),
          .max_gradient = node.attributes<UpdateAttributes>().max_gradient};
}

// The pointers of tensor t, in the order of the update's layout.
struct TensorBuffers {
  const OpContext& node;
  const NodeBuffers& buffers;
  UpdateLayout layout;

  const UpdateAttributes& update() const { return node.attributes<UpdateAttributes>(); }
  const std::vector<UpdatedParameter>& parameters(int64_t tensor) const {
    return update().parameters[static_cast<size_t>(tensor)];
  }
  float decay(int64_t tensor) const { return update().weight_decay[static_cast<size_t>(tensor)]; }

  int64_t tensors() const {
    return (static_cast<int64_t>(node.node.inputs.size()) - layout.shared_inputs) / layout.inputs_per_tensor;
  }
  size_t at(int64_t tensor, int64_t i) const {
    return static_cast<size_t>(layout.shared_inputs + tensor * layout.inputs_per_tensor + i);
  }
  // Of a parameter that begins with this element of the tensor.
  WeightView weight(int64_t tensor, const UpdatedParameter& parameter, int64_t element) const {
    const size_t first = at(tensor, 0);
    if (update().form == WeightForm::kFloat32) return {.value = input<float>(buffers, first) + element};
    WeightView view{.value = nullptr, .high = input<bfloat16>(buffers, first) + element};
    if (update().form == WeightForm::kSplit) {
      view.rest = input<int16_t>(buffers, first + 1) + element;
    } else {
      view.rounding = {.seed = update().seed,
                       .stream_id = parameter.stream_id,
                       .first_element = parameter.first_element,
                       .step = input<const uint32_t>(buffers, 1)};
    }
    return view;
  }
  int64_t states() const { return std::ssize(update().states[0]); }
  // Over whole parameters; null: there are none.
  const double* sums(int64_t tensor) const {
    return layout.sums_input < 0 ? nullptr : input<const double>(buffers, at(tensor, layout.sums_input));
  }
  const float* gradient(int64_t tensor) const {
    return input<const float>(buffers, at(tensor, layout.gradient_input));
  }
  // The i-th optimizer state.
  template <typename T = float>
  T* state(int64_t tensor, int64_t i) const {
    return input<T>(buffers, at(tensor, layout.gradient_input + 1 + i));
  }
};

TensorBuffers tensor_buffers(const OpContext& node, const NodeBuffers& buffers) {
  return {node, buffers, update_layout(node.node)};
}

template <typename Settings>
const Settings& settings_of(const OpContext& node) {
  return std::get<Settings>(node.attributes<UpdateAttributes>().settings);
}

// A tensor for each parameter: its elements are what the bits that round it are drawn for.
std::vector<StatefulTensor> stateful_tensors(const OpContext& node, const NodeBuffers& buffers) {
  const TensorBuffers source = tensor_buffers(node, buffers);
  std::vector<StatefulTensor> tensors;
  for (int64_t t = 0; t < source.tensors(); ++t) {
    int64_t element = 0;
    for (const UpdatedParameter& parameter : source.parameters(t)) {
      StatefulTensor tensor{.count = parameter.elements(),
                            .weight = source.weight(t, parameter, element),
                            .gradient_dtype = DType::kF32,
                            .gradient = source.gradient(t) + element,
                            .weight_decay = source.decay(t)};
      for (int64_t i = 0; i < source.states(); ++i)
        tensor.states[static_cast<size_t>(i)] = source.state(t, i) + element;
      tensors.push_back(tensor);
      element += tensor.count + parameter.padding;
    }
  }
  return tensors;
}

PreparedNode bind_adamw(const OpContext& node, const NodeBuffers& buffers, int) {
  return [tensors = stateful_tensors(node, buffers), settings = settings_of<AdamWSettings>(node),
          scalars = bind_scalars(node, buffers), applied = input<const uint32_t>(buffers, 1)](
             const int64_t*) { adamw_update(tensors, settings, scalars, applied); };
}

PreparedNode bind_sgd(const OpContext& node, const NodeBuffers& buffers, int) {
  return [tensors = stateful_tensors(node, buffers), settings = settings_of<SgdSettings>(node),
          scalars = bind_scalars(node, buffers)](const int64_t*) { sgd_update(tensors, settings, scalars); };
}

PreparedNode bind_adagrad(const OpContext& node, const NodeBuffers& buffers, int) {
  return [tensors = stateful_tensors(node, buffers), settings = settings_of<AdagradSettings>(node),
          scalars = bind_scalars(node, buffers), applied = input<const uint32_t>(buffers, 1)](
             const int64_t*) { adagrad_update(tensors, settings, scalars, applied); };
}

PreparedNode bind_rmsprop(const OpContext& node, const NodeBuffers& buffers, int) {
  return
      [tensors = stateful_tensors(node, buffers), settings = settings_of<RmsPropSettings>(node),
       scalars = bind_scalars(node, buffers)](const int64_t*) { rmsprop_update(tensors, settings, scalars); };
}

PreparedNode bind_lion(const OpContext& node, const NodeBuffers& buffers, int) {
  return [tensors = stateful_tensors(node, buffers), settings = settings_of<LionSettings>(node),
          scalars = bind_scalars(node, buffers)](const int64_t*) { lion_update(tensors, settings, scalars); };
}

// A tensor for each parameter: blocks end with their parameter. Of the states, codes come before scales.
std::vector<EightBitTensor> eight_bit_tensors(const OpContext& node, const NodeBuffers& buffers) {
  const TensorBuffers source = tensor_buffers(node, buffers);
  const int64_t moments = source.states() / 2;
  std::vector<EightBitTensor> tensors;
  for (int64_t t = 0; t < source.tensors(); ++t) {
    int64_t element = 0;
    int64_t block = 0;
    for (const UpdatedParameter& parameter : source.parameters(t)) {
      EightBitTensor tensor{.count = parameter.elements(),
                            .weight = source.weight(t, parameter, element),
                            .gradient_dtype = DType::kF32,
                            .gradient = source.gradient(t) + element,
                            .weight_decay = source.decay(t)};
      for (int64_t i = 0; i < moments; ++i) {
        tensor.codes[static_cast<size_t>(i)] = source.state<uint8_t>(t, i) + element;
        tensor.scales[static_cast<size_t>(i)] = source.state(t, moments + i) + block;
      }
      tensors.push_back(tensor);
      element += tensor.count + parameter.padding;
      block += ceil_divide(tensor.count + parameter.padding, kStateBlock);
    }
  }
  return tensors;
}

PreparedNode bind_adamw_8bit(const OpContext& node, const NodeBuffers& buffers, int) {
  return [tensors = eight_bit_tensors(node, buffers), settings = settings_of<AdamW8bitSettings>(node).adamw,
          scalars = bind_scalars(node, buffers), applied = input<const uint32_t>(buffers, 1)](
             const int64_t*) { adamw_8bit_update(tensors, settings, scalars, applied); };
}

PreparedNode bind_lion_8bit(const OpContext& node, const NodeBuffers& buffers, int) {
  return [tensors = eight_bit_tensors(node, buffers), settings = settings_of<Lion8bitSettings>(node).lion,
          scalars = bind_scalars(node, buffers)](const int64_t*) {
    lion_8bit_update(tensors, settings, scalars);
  };
}

bool has_parts(const UpdatedParameter& parameter) {
  return parameter.whole.columns > 0;
}

// Of a vector the elements of a part, with padding; of a matrix its columns.
int64_t stored_columns(const UpdatedParameter& parameter, bool is_factored) {
  return is_factored ? parameter.columns : parameter.columns + parameter.padding;
}

// The rows of a part, with padding; of a vector one.
int64_t stored_rows(const UpdatedParameter& parameter, bool is_factored) {
  return is_factored ? parameter.rows + parameter.padding / parameter.columns : 1;
}

bool is_factored(const UpdateAttributes& update) {
  return update.states[0].size() == (std::get<AdafactorSettings>(update.settings).beta1 ? 3U : 2U);
}

int64_t adafactor_workspace(const OpContext& node, int) {
  const auto& update = node.attributes<UpdateAttributes>();
  int64_t bytes = 0;
  for (const auto& tensor : update.parameters) {
    for (const UpdatedParameter& parameter : tensor) {
      bytes = std::max(
          bytes, has_parts(parameter)
                     ? adafactor_part_workspace_bytes(parameter.whole.matrices,
                                                      stored_columns(parameter, is_factored(update)))
                     : adafactor_workspace_bytes(parameter.matrices, parameter.rows, parameter.columns));
    }
  }
  return bytes;
}

int64_t adafactor_sums_workspace(const OpContext& node, int) {
  const auto& attributes = node.attributes<AdafactorSumsAttributes>();
  int64_t bytes = 0;
  for (const UpdatedParameter& parameter : attributes.parameters) {
    bytes = std::max(bytes, adafactor_sums_workspace_bytes(parameter.whole.matrices, parameter.whole.rows,
                                                           stored_columns(parameter, attributes.is_factored),
                                                           stored_rows(parameter, attributes.is_factored)));
  }
  return bytes;
}

AdafactorPart part_of(const UpdatedParameter& parameter, bool is_factored) {
  if (!is_factored) return {parameter.first_element, parameter.columns};
  return {parameter.first_element / parameter.columns, parameter.rows};
}

// Of the states of a tensor: its moments (of rows and of columns, or of elements), then the first moment if
// there is one.
PreparedNode bind_adafactor(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& settings = settings_of<AdafactorSettings>(node);
  const TensorBuffers source = tensor_buffers(node, buffers);
  const bool of_matrices = is_factored(source.update());
  std::vector<AdafactorParameter> parameters;
  std::vector<const double*> sums;
  for (int64_t t = 0; t < source.tensors(); ++t) {
    int64_t element = 0;
    int64_t row = 0;
    int64_t column = 0;
    const double* of_tensor = source.sums(t);
    for (const UpdatedParameter& parameter : source.parameters(t)) {
      const ParameterMatrices whole =
          has_parts(parameter) ? parameter.whole
                               : ParameterMatrices{parameter.matrices, parameter.rows, parameter.columns};
      AdafactorParameter p{.matrices = whole.matrices,
                           .rows = whole.rows,
                           .columns = whole.columns,
                           .weight = source.weight(t, parameter, element),
                           .gradient = source.gradient(t) + element,
                           .row_moment = of_matrices ? source.state(t, 0) + row : nullptr,
                           .column_moment = of_matrices ? source.state(t, 1) + column : nullptr,
                           .second_moment = of_matrices ? nullptr : source.state(t, 0) + element,
                           .first_moment = nullptr,
                           .weight_decay = source.decay(t)};
      if (settings.beta1) p.first_moment = source.state(t, source.states() - 1) + element;
      if (has_parts(parameter)) {
        p.part = part_of(parameter, of_matrices);
        sums.push_back(of_tensor);
        of_tensor += adafactor_sums_of(whole, of_matrices, settings).size();
      }
      parameters.push_back(p);
      element += parameter.elements() + parameter.padding;
      row += has_parts(parameter) ? stored_rows(parameter, of_matrices) : parameter.matrices * parameter.rows;
      column += whole.matrices * whole.columns;
    }
  }
  if (!sums.empty()) {
    return [parameters = std::move(parameters), sums = std::move(sums), settings,
            scalars = bind_scalars(node, buffers), applied = input<const uint32_t>(buffers, 1),
            workspace = buffers.workspace](const int64_t*) {
      for (size_t i = 0; i < parameters.size(); ++i)
        adafactor_update_part(parameters[i], settings, scalars, applied, sums[i], workspace);
    };
  }
  return [parameters = std::move(parameters), settings, scalars = bind_scalars(node, buffers),
          applied = input<const uint32_t>(buffers, 1), workspace = buffers.workspace](const int64_t*) {
    adafactor_update(parameters, settings, scalars, applied, workspace);
  };
}

WeightView summed_weight(const AdafactorSumsAttributes& attributes, const NodeBuffers& buffers,
                         int64_t element) {
  if (!attributes.settings.scale_parameter) return {};
  if (attributes.form == WeightForm::kFloat32) return {.value = input<float>(buffers, 4) + element};
  WeightView view{.value = nullptr, .high = input<bfloat16>(buffers, 4) + element};
  if (attributes.form == WeightForm::kSplit) {
    view.rest = input<int16_t>(buffers, 5) + element;
  } else {
    view.rounding = {.step = input<const uint32_t>(buffers, 0)};
  }
  return view;
}

PreparedNode bind_adafactor_sums(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& attributes = node.attributes<AdafactorSumsAttributes>();
  const bool of_matrices = attributes.is_factored;
  std::vector<AdafactorParameter> parameters;
  int64_t element = 0;
  int64_t row = 0;
  for (const UpdatedParameter& parameter : attributes.parameters) {
    parameters.push_back({.matrices = parameter.whole.matrices,
                          .rows = parameter.whole.rows,
                          .columns = parameter.whole.columns,
                          .weight = summed_weight(attributes, buffers, element),
                          .gradient = input<const float>(buffers, 1) + element,
                          .row_moment = of_matrices ? input<float>(buffers, 2) + row : nullptr,
                          .column_moment = nullptr,
                          .second_moment = of_matrices ? nullptr : input<float>(buffers, 2) + element,
                          .first_moment = nullptr,
                          .weight_decay = 0,
                          .part = part_of(parameter, of_matrices)});
    element += parameter.elements() + parameter.padding;
    row += stored_rows(parameter, of_matrices);
  }
  const UpdateScalars scalars{.learning_rate = nullptr,
                              .gradient_scale = input<const float>(buffers, 3),
                              .max_gradient = attributes.max_gradient};
  return [parameters = std::move(parameters), settings = attributes.settings, scalars, of_matrices,
          applied = input<const uint32_t>(buffers, 0), sums = output<double>(buffers, 0),
          workspace = buffers.workspace](const int64_t*) {
    double* of_parameter = sums;
    for (const AdafactorParameter& p : parameters) {
      adafactor_sums(p, settings, scalars, applied, of_parameter, workspace);
      const ParameterMatrices whole{p.matrices, p.rows, p.columns};
      of_parameter += adafactor_sums_of(whole, of_matrices, settings).size();
    }
  };
}

}  // namespace

std::vector<KernelEntry> update_kernels() {
  return {
      {OpKind::kSumOfSquares,
       [](const OpContext& node, int) { return sum_of_squares_workspace_bytes(views(node, {})); },
       bind_sum_of_squares},
      {OpKind::kClipCoefficient, nullptr, bind_clip},
      {OpKind::kReciprocal, nullptr, bind_reciprocal},
      {OpKind::kFoundInf, nullptr, bind_found_inf},
      {OpKind::kLossScaleUpdate, nullptr, bind_loss_scale_update},
      {OpKind::kAdamW, nullptr, bind_adamw},
      {OpKind::kAdamW8bit, nullptr, bind_adamw_8bit},
      {OpKind::kSgd, nullptr, bind_sgd},
      {OpKind::kAdagrad, nullptr, bind_adagrad},
      {OpKind::kRmsProp, nullptr, bind_rmsprop},
      {OpKind::kLion, nullptr, bind_lion},
      {OpKind::kLion8bit, nullptr, bind_lion_8bit},
      {OpKind::kAdafactor, adafactor_workspace, bind_adafactor},
      {OpKind::kAdafactorSums, adafactor_sums_workspace, bind_adafactor_sums},
  };
}

}  // namespace shoehorn::cpu
