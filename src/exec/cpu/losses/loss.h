// Losses and their gradients.
//
// S rows with a target, C classes; row-major and dense. Logits and their gradients are stored as `dtype`
// (float32, bfloat16 or float16, checked: InternalError). Losses and arithmetic are float32; the sum over
// rows is double. Losses are divided by target_count, a scalar of the whole effective batch (all
// micro-batches, all ranks), so partial losses and gradients add up. Results do not depend on the number of
// threads. Nothing is allocated.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/dtype.h"

namespace shoehorn::cpu {

// Rows with this label have no loss and a zero gradient.
inline constexpr int32_t kIgnoredLabel = -100;

// UserError for a label that is neither kIgnoredLabel nor a class, which are 0 to classes - 1.
void check_labels(const int32_t* labels, int64_t rows, int64_t classes);

// loss[0] (+)= sum over rows of (1 - e) w[label] (-log p[label]) + e mean over classes of w (-log p) + z l², over
// target_count, with p = softmax(logits), l = log sum exp(logits), e = label_smoothing, z = z_loss and w = class_weights,
// or 1: torch's cross_entropy if target_count is the sum of w[label], and without w Hugging Face's LabelSmoother; z as in
// PaLM (Chowdhery et al. 2022, section 5). A label that is neither a class nor kIgnoredLabel is a UserError, raised before
// anything is written.
struct CrossEntropyForward {
  DType dtype;
  int64_t rows;
  int64_t classes;
  float label_smoothing;
  float z_loss = 0;
  const void* logits;                    // [S, C]
  const int32_t* labels;                 // [S]
  const float* target_count;             // [1]
  const float* class_weights = nullptr;  // [C], or null: all 1
  float* row_maximum;                    // [S] for the backward: largest logit
  float* row_sum;                        // [S] for the backward: sum of exp(logit - largest)
  float* loss;                           // [1]
  float* right;     // [1] how many rows have their label at the first of the largest logits
  bool accumulate;  // add to the loss rather than write it
  void* workspace;  // loss_workspace_bytes(S), aligned to 4
};
// For all losses: one number per row.
int64_t loss_workspace_bytes(int64_t rows);
void cross_entropy_forward(const CrossEntropyForward& arguments);

// dlogits = (p (m + 2 z l) - (1 - e) w[c] [c = label] - e w[c] / C) / target_count,
// with m = (1 - e) w[label] + e mean(w), which is 1 without weights
struct CrossEntropyBackward {
  DType dtype;
  int64_t rows;
  int64_t classes;
  float label_smoothing;
  float z_loss = 0;
  const void* logits;                    // [S, C]
  const int32_t* labels;                 // [S]
  const float* target_count;             // [1]
  const float* row_maximum;              // [S]
  const float* row_sum;                  // [S]
  const float* gradient_scale;           // [1] gradient of the loss itself (a loss scale), or null: 1
  const float* class_weights = nullptr;  // [C], or null: all 1
  void* dlogits;                         // [S, C]; may be logits
};
void cross_entropy_backward(const CrossEntropyBackward& arguments);

// What p is multiplied by in a row's gradient: 1 + 2 z l.
inline float z_loss_factor(float z_loss, float row_maximum, float row_sum) {
  return z_loss == 0.0F ? 1.0F : 1.0F + 2.0F * z_loss * (row_maximum + std::log(row_sum));
}

// Losses of S rows with C values each. The loss of a row is the mean over its C values; loss[0] (+)= their
// sum divided by target_count. If target_count is S this is PyTorch's reduction `mean`.
struct ValueLossForward {
  DType dtype;
  int64_t rows;
  int64_t columns;
  const void* logits;                       // [S, C]
  const float* values;                      // [S, C]
  const float* target_count;                // [1]
  const float* positive_weights = nullptr;  // [C], of binary_cross_entropy, or null: all 1
  float* loss;                              // [1]
  bool accumulate;                          // add to the loss rather than write it
  void* workspace;                          // loss_workspace_bytes(S), aligned to 4
};
struct ValueLossBackward {
  DType dtype;
  int64_t rows;
  int64_t columns;
  const void* logits;                       // [S, C]
  const float* values;                      // [S, C]
  const float* target_count;                // [1]
  const float* gradient_scale;              // [1] gradient of the loss itself, or null: 1
  const float* positive_weights = nullptr;  // [C], of binary_cross_entropy, or null: all 1
  void* dlogits;                            // [S, C]; may be logits
};

// (x - y)²; gradient 2 (x - y).
void mean_squared_error_forward(const ValueLossForward& arguments);
void mean_squared_error_backward(const ValueLossBackward& arguments);

// -y log p - (1 - y) log(1 - p) with p = 1 / (1 + e^-x), computed as max(x, 0) - x y + log(1 + e^-|x|), which
// neither overflows nor cancels; gradient p - y. This is PyTorch's binary_cross_entropy_with_logits; y may be
// any number. With a positive weight w it is -w y log p - (1 - y) log(1 - p); gradient (1 + (w - 1) y) p - w y.
void binary_cross_entropy_forward(const ValueLossForward& arguments);
void binary_cross_entropy_backward(const ValueLossBackward& arguments);

}  // namespace shoehorn::cpu
