#include "exec/cpu/attention/attention_unfused.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "exec/cpu/attention/attention_reference.h"

namespace shoehorn::cpu {
namespace {

using test_support::AttentionCase;
using test_support::AttentionShape;
using test_support::Doubles;
using test_support::Operands;
using test_support::Storage;

struct UnfusedResult {
  std::vector<float> probabilities;
  std::vector<float> dprobabilities;
  Storage context;
  Operands gradients;
};

// All steps forward and backward, softmax and dropout in place where that is allowed.
UnfusedResult run_unfused(const AttentionCase& x, Operands& in, Storage& dcontext) {
  AttentionBatch batch = x.batch;
  batch.bias = static_cast<const float*>(in.bias.data());
  const int64_t queries = batch.query_columns();
  const int64_t keys = batch.key_columns();
  const int64_t count = batch.heads * batch.query_rows * batch.max_key_length;
  UnfusedResult out{std::vector<float>(count, NAN), std::vector<float>(count, NAN),
                    Storage(batch.dtype, batch.query_rows * queries), Operands::empty(x)};
  std::vector<float> dropped(count, NAN);
  attention_scores(batch, {in.q.data(), queries}, {in.k.data(), keys}, out.probabilities.data());
  attention_softmax(batch, out.probabilities.data(), out.probabilities.data());
  attention_dropout(batch, out.probabilities.data(), dropped.data());
  attention_context(batch, dropped.data(), {in.v.data(), keys}, out.context.data());

  std::vector<float>& gradient = out.dprobabilities;
  attention_context_backward(batch, dcontext.data(), dropped.data(), {in.v.data(), keys}, gradient.data(),
                             {out.gradients.v.data(), keys});
  attention_dropout(batch, gradient.data(), gradient.data());
  attention_softmax_backward(batch, gradient.data(), out.probabilities.data(), gradient.data());
  attention_scores_backward(batch, gradient.data(), {in.q.data(), queries}, {in.k.data(), keys},
                            {out.gradients.q.data(), queries}, {out.gradients.k.data(), keys},
                            static_cast<float*>(out.gradients.bias.data()));
  return out;
}

Storage random_dcontext_of(const AttentionCase& x) {
  return Storage::uniform(x.batch.dtype, x.batch.query_rows * x.batch.query_columns(), 9);
}

TEST(AttentionUnfused, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const AttentionMask& mask :
         {AttentionMask::full(), AttentionMask::causal(), AttentionMask::sliding_window(9)}) {
      for (const int64_t key_value_heads : {6, 2}) {
        for (const bool own_keys : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} heads {} own keys {}", dtype_name(dtype),
                                   test_support::mask_name(mask), key_value_heads, own_keys));
          AttentionShape shape{.lengths = {1, 7, 0, 33, 130},
                               .gap = 2,
                               .heads = 6,
                               .key_value_heads = key_value_heads,
                               .head_size = 11,
                               .mask = mask,
                               .p = own_keys ? 0.1F : 0.0F,
                               .dtype = dtype,
                               .has_bias = own_keys};
          if (own_keys) shape.key_lengths = {3, 7, 2, 50, 0};
          const AttentionCase x(shape);
          Operands in = Operands::uniform(x, 1);
          Storage dcontext = random_dcontext_of(x);
          const UnfusedResult got = run_unfused(x, in, dcontext);
          // Delta comes from the probabilities here, so the reference's context must not be rounded.
          const Doubles context = reference_forward(x, in.doubles()).context;
          const int64_t terms = 11 + x.batch.group() * 171;
          test_support::expect_close(got.context, context, terms, dtype, "context");
          test_support::expect_close(
              got.gradients, reference_backward(x, in.doubles(), context, dcontext.doubles()), terms, dtype);
        }
      }
    }
  }
}

TEST(AttentionUnfused, MaskedColumnsAndHoles) {
  const AttentionCase x(
      {.lengths = {2, 3}, .gap = 1, .head_size = 4, .mask = AttentionMask::sliding_window(2)});
  Operands in = Operands::uniform(x, 1);
  const int64_t rows = x.batch.query_rows;
  std::vector<float> scores(rows * 3, NAN);
  attention_scores(x.batch, {in.q.data(), 4}, {in.k.data(), 4}, scores.data());
  // Rows: hole, two tokens, hole, three tokens, hole.
  const std::vector<RowRange> visible = {{0, 0}, {0, 1}, {0, 2}, {0, 0}, {0, 1}, {0, 2}, {1, 3}, {0, 0}};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < 3; ++k) {
      const bool is_seen = k >= visible[row].begin && k < visible[row].end;
      EXPECT_EQ(std::isfinite(scores[row * 3 + k]), is_seen);
      if (!is_seen) {
        EXPECT_EQ(scores[row * 3 + k], -INFINITY);
      }
    }
  }
  attention_softmax(x.batch, scores.data(), scores.data());
  for (int64_t row = 0; row < rows; ++row) {
    float sum = 0.0F;
    for (int64_t k = 0; k < 3; ++k) sum += scores[row * 3 + k];
    // Three quotients, and as many sums.
    EXPECT_NEAR(sum, visible[row].empty() ? 0.0F : 1.0F, 6 * 0x1p-24F);
  }
}

TEST(AttentionUnfused, BitwiseTheSameWithAnyNumberOfThreads) {
  const AttentionCase x({.lengths = {40, 17},
                         .gap = 1,
                         .heads = 6,
                         .key_value_heads = 3,
                         .head_size = 8,
                         .mask = AttentionMask::causal(),
                         .p = 0.1F,
                         .has_bias = true});
  Operands in = Operands::uniform(x, 1);
  Storage dcontext = random_dcontext_of(x);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const UnfusedResult one = run_unfused(x, in, dcontext);
  omp_set_num_threads(2);
  const UnfusedResult two = run_unfused(x, in, dcontext);
  omp_set_num_threads(threads);
  EXPECT_EQ(one.context.bytes(), two.context.bytes());
  EXPECT_EQ(one.gradients.q.bytes(), two.gradients.q.bytes());
  EXPECT_EQ(one.gradients.k.bytes(), two.gradients.k.bytes());
  EXPECT_EQ(one.gradients.v.bytes(), two.gradients.v.bytes());
  EXPECT_EQ(one.gradients.bias.bytes(), two.gradients.bias.bytes());
}

TEST(AttentionUnfused, OtherDtypesAreInternalErrors) {
  AttentionCase x({.lengths = {2}, .head_size = 4});
  x.batch.dtype = DType::kF64;
  EXPECT_THROW(attention_scores(x.batch, {nullptr, 4}, {nullptr, 4}, nullptr), InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
