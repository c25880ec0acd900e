// The op table in parts: one function and file per family of ops.
#pragma once

#include <vector>

#include "ops/op_info.h"

namespace shoehorn {

std::vector<OpInfo> movement_ops();
std::vector<OpInfo> rowwise_ops();
std::vector<OpInfo> column_ops();
std::vector<OpInfo> rotary_ops();
std::vector<OpInfo> rms_norm_ops();
std::vector<OpInfo> matmul_ops();
std::vector<OpInfo> attention_ops();
std::vector<OpInfo> fused_ops();
std::vector<OpInfo> loss_ops();
std::vector<OpInfo> vocabulary_loss_ops();
std::vector<OpInfo> loss_scale_ops();
std::vector<OpInfo> update_ops();
std::vector<OpInfo> outer_update_ops();
std::vector<OpInfo> collective_ops();

// Type rules that several families use. Each throws through fail_type.
void expect_rank(const OpContext& context, int64_t input, int64_t rank);
void expect_float(const OpContext& context, int64_t input);
void expect_dtype(const OpContext& context, int64_t input, DType dtype);
void expect_optional_float32(const OpContext& context, int64_t input);  // holds where the input is absent
void expect_same_type(const OpContext& context, int64_t input, int64_t other);
// A vector whose length is the innermost dimension of input `of`.
void expect_row_vector(const OpContext& context, int64_t input, int64_t of);
// gamma at `input` of an RMSNorm of input 0 [rows, G·H], each group of H columns by itself. The type of the statistics:
// [rows, G], with one group [rows].
TensorType expect_group_norm(const OpContext& context, int64_t input);

inline const Dim& innermost(const TensorType& type) {
  return type.shape.back();
}
inline int64_t rows_of(const TensorType& type) {
  return innermost(type).maximum == 0 ? 0 : type.shape.elements() / innermost(type).maximum;
}

// OpInfo::row_inputs for ops that compute each output row from the same row of their first input.
inline std::vector<int64_t> rows_of_first(const OpContext&) {
  return {0};
}

// OpInfo::set_output for ops whose attributes have the output's type as `output`.
template <typename OpAttributes>
void set_output_of(Attributes& attributes, DType dtype) {
  std::get<OpAttributes>(attributes).output = dtype;
}

}  // namespace shoehorn
