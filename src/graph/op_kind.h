// The names of all ops. The folder ops/ defines what each means: shapes, gradient, cost.
#pragma once

#include <cstdint>

namespace shoehorn {

enum class OpKind : uint8_t {
  // data movement
  kView,
  kCast,
  kCopy,
  kGatherRows,
  kScatterRows,
  kTakeColumns,
  kSpreadColumns,
  kLastRows,
  // element-wise and row-wise
  kAdd,
  kMultiply,
  kAddColumns,
  kScale,
  kBiasAdd,
  kColumnSum,
  kActivation,
  kActivationGrad,
  kDropout,
  kLayerNorm,
  kLayerNormGrad,
  kLayerNormOutput,
  kRmsNorm,
  kRmsNormGrad,
  kEmbedding,
  kEmbeddingGrad,
  kEmbeddingNoise,
  kRotaryTable,
  kRotary,
  kRmsNormRotary,
  kRmsNormRotaryGrad,
  // products
  kMatmul,
  // attention
  kAttentionScores,
  kAttentionScoresGrad,
  kAttentionSoftmax,
  kAttentionSoftmaxGrad,
  kAttentionContext,
  kAttentionContextGrad,
  // fused
  kGatedActivation,
  kGatedActivationGrad,
  kBiasActivation,
  kBiasActivationGrad,
  kBiasDropoutResidualLayerNorm,
  kBiasDropoutResidualLayerNormGrad,
  kResidualRmsNorm,
  kResidualRmsNormGrad,
  kAttention,
  kAttentionGrad,
  // loss
  kCrossEntropy,
  kCrossEntropyGrad,
  kMeanSquaredError,
  kMeanSquaredErrorGrad,
  kBinaryCrossEntropy,
  kBinaryCrossEntropyGrad,
  kLinearCrossEntropy,
  kLinearCrossEntropyGrad,
  kLinearCrossEntropyWithGrad,
  // update
  kSumOfSquares,
  kClipCoefficient,
  kReciprocal,
  kFoundInf,
  kLossScaleUpdate,
  kAdamW,
  kAdamW8bit,
  kSgd,
  kAdagrad,
  kRmsProp,
  kLion,
  kLion8bit,
  kAdafactor,
  kAdafactorSums,
  kOuterStart,
  kOuterGradient,
  kOuterUpdate,
  // between ranks
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kWait,
  kOpKindCount,
};

}  // namespace shoehorn
