#include "model/layers.h"

namespace shoehorn {

namespace {

Tensor linear_weight(ModelBuilder& builder, const std::string& name, int64_t outputs, int64_t inputs,
                     float initializer_range) {
  return builder.parameter(name + ".weight", {outputs, inputs},
                           {Initializer::Kind::kNormal, initializer_range, -1});
}

}  // namespace

Tensor linear_layer(ModelBuilder& builder, const std::string& name, Tensor x, int64_t outputs,
                    float initializer_range) {
  const Tensor weight = linear_weight(builder, name, outputs, x.shape().back().maximum, initializer_range);
  const Tensor bias = builder.parameter(name + ".bias", {outputs}, {Initializer::Kind::kZeros, 0, -1});
  return builder.linear(x, weight, bias);
}

Tensor linear_layer_without_bias(ModelBuilder& builder, const std::string& name, Tensor x, int64_t outputs,
                                 float initializer_range) {
  return builder.linear(x,
                        linear_weight(builder, name, outputs, x.shape().back().maximum, initializer_range));
}

Tensor conv1d_layer(ModelBuilder& builder, const std::string& name, Tensor x, int64_t outputs,
                    float initializer_range) {
  const Tensor weight = builder.parameter(name + ".weight", {x.shape().back().maximum, outputs},
                                          {Initializer::Kind::kNormal, initializer_range, -1});
  const Tensor bias = builder.parameter(name + ".bias", {outputs}, {Initializer::Kind::kZeros, 0, -1});
  return builder.linear_transposed(x, weight, bias);
}

Tensor layer_norm_layer(ModelBuilder& builder, const std::string& name, Tensor x, float epsilon) {
  const int64_t columns = x.shape().back().maximum;
  const Tensor gamma = builder.parameter(name + ".weight", {columns}, {Initializer::Kind::kOnes, 0, -1});
  const Tensor beta = builder.parameter(name + ".bias", {columns}, {Initializer::Kind::kZeros, 0, -1});
  return builder.layer_norm(x, gamma, beta, epsilon);
}

Tensor rms_norm_layer(ModelBuilder& builder, const std::string& name, Tensor x, float epsilon) {
  const Tensor gamma =
      builder.parameter(name + ".weight", {x.shape().back().maximum}, {Initializer::Kind::kOnes, 0, -1});
  return builder.rms_norm(x, gamma, epsilon);
}

Tensor head_rms_norm_layer(ModelBuilder& builder, const std::string& name, Tensor x, int64_t heads,
                           float epsilon) {
  const int64_t columns = x.shape().back().maximum / heads;
  const Tensor gamma = builder.parameter(name + ".weight", {columns}, {Initializer::Kind::kOnes, 0, -1});
  return builder.rms_norm(x, gamma, epsilon);
}

Tensor embedding_table(ModelBuilder& builder, const std::string& name, int64_t rows, int64_t columns,
                       float initializer_range, int64_t zero_row) {
  return builder.parameter(name + ".weight", {rows, columns},
                           {Initializer::Kind::kNormal, initializer_range, zero_row});
}

}  // namespace shoehorn
