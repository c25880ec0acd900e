#include "ops/attention_layout.h"

#include "ops/op_definitions.h"

namespace shoehorn {

namespace {

// Inputs of a gradient in front of those of its forward.
constexpr int64_t kGradInputs = 3;
constexpr int64_t kScoresGradInputs = 1;
constexpr int64_t kContextGradInputs = 1;
constexpr int64_t kSoftmaxGradInputs = 1;

AttentionInputs behind(int64_t inputs, AttentionInputs positions) {
  for (int64_t* position : {&positions.start, &positions.sample, &positions.key_start, &positions.bias}) {
    if (*position >= 0) *position += inputs;
  }
  return positions;
}

}  // namespace

AttentionInputs attention_inputs(OpKind kind) {
  constexpr AttentionInputs kFused{.start = 1, .sample = 3, .key_start = 7, .bias = 9};
  constexpr AttentionInputs kScores{.start = 2, .key_start = 4, .bias = 6};
  constexpr AttentionInputs kSoftmax{.start = 1, .sample = 3, .key_start = 5};
  constexpr AttentionInputs kContext{.start = 2, .key_start = 4};
  switch (kind) {
    case OpKind::kAttention:
      return kFused;
    case OpKind::kAttentionGrad:
      return behind(kGradInputs, kFused);
    case OpKind::kAttentionScores:
      return kScores;
    case OpKind::kAttentionScoresGrad:
      return behind(kScoresGradInputs, kScores);
    case OpKind::kAttentionSoftmax:
      return kSoftmax;
    case OpKind::kAttentionSoftmaxGrad:
      return behind(kSoftmaxGradInputs, kSoftmax);
    case OpKind::kAttentionContext:
      return kContext;
    case OpKind::kAttentionContextGrad:
      return behind(kContextGradInputs, kContext);
    default:
      CHECK(false, "no attention op");
  }
}

AttentionParts attention_parts(const OpContext& context) {
  const auto& attributes = context.attributes<AttentionAttributes>();
  const int64_t first = attention_inputs(context.node.kind).start - 1;
  AttentionParts parts;
  parts.q = {first, 0, attributes.query_column, attributes.heads * attributes.head_size};
  parts.k = {first, 0, attributes.key_column, attributes.key_value_heads * attributes.head_size};
  if (context.has(first + 5)) {
    parts.k.input = first + 5;
    ++parts.k.gradient;
  }
  parts.v = parts.k;
  parts.v.column = attributes.value_column;
  if (context.has(first + 6)) {
    parts.v.input = first + 6;
    ++parts.v.gradient;
  }
  return parts;
}

bool reads_all_columns(const OpContext& context, const AttentionParts& parts, int64_t input) {
  int64_t read = 0;
  for (const AttentionPart& part : {parts.q, parts.k, parts.v}) read += part.input == input ? part.width : 0;
  return read == innermost(context.type(input)).maximum;
}

}  // namespace shoehorn
