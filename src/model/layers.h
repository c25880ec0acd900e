// Layers: parameters with Hugging Face names and the ops that use them.
#pragma once

#include <string>

#include "model/model_builder.h"

namespace shoehorn {

// y = x·Wᵀ + b. Creates the parameters `name`.weight [outputs, inputs] and `name`.bias [outputs].
Tensor linear_layer(ModelBuilder& builder, const std::string& name, Tensor x, int64_t outputs,
                    float initializer_range);

// y = x·Wᵀ. Creates the parameter `name`.weight [outputs, inputs].
Tensor linear_layer_without_bias(ModelBuilder& builder, const std::string& name, Tensor x, int64_t outputs,
                                 float initializer_range);

// y = x·W + b, as GPT-2's Conv1D. Creates the parameters `name`.weight [inputs, outputs] and `name`.bias [outputs].
Tensor conv1d_layer(ModelBuilder& builder, const std::string& name, Tensor x, int64_t outputs,
                    float initializer_range);

// LayerNorm with the parameters `name`.weight and `name`.bias, [H] each.
Tensor layer_norm_layer(ModelBuilder& builder, const std::string& name, Tensor x, float epsilon);

// RMSNorm with the parameter `name`.weight [H].
Tensor rms_norm_layer(ModelBuilder& builder, const std::string& name, Tensor x, float epsilon);

// The same of each of `heads` parts of a row, [N, heads · D], with one parameter [D].
Tensor head_rms_norm_layer(ModelBuilder& builder, const std::string& name, Tensor x, int64_t heads,
                           float epsilon);

// An embedding table: the parameter `name`.weight [rows, columns]. Row `zero_row` starts as zeros; -1: none does.
Tensor embedding_table(ModelBuilder& builder, const std::string& name, int64_t rows, int64_t columns,
                       float initializer_range, int64_t zero_row = -1);

}  // namespace shoehorn
