#include "exec/cpu/attention_unfused.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "exec/cpu/attention_reference.h"

namespace shoehorn::cpu {
namespace {

using testing::AttentionCase;
using testing::Doubles;
using testing::Storage;

struct Result {
  std::vector<float> probabilities;
  std::vector<float> dprobabilities;
  Storage context;
  Storage dqkv;
};

// Where a column of the first row lies.
void* part(Storage& storage, int64_t column) {
  return static_cast<uint8_t*>(storage.data()) + column * storage.element_bytes();
}

// All steps forward and backward, softmax and dropout in place where that is allowed.
Result run(const AttentionCase& x, Storage& qkv, Storage& dcontext) {
  const AttentionBatch& batch = x.batch;
  const int64_t hidden = x.hidden();
  const int64_t count = batch.heads * batch.rows * batch.max_sequence_length;
  Result out{std::vector<float>(count, NAN), std::vector<float>(count, NAN),
             Storage(batch.dtype, batch.rows * hidden), Storage(batch.dtype, batch.rows * 3 * hidden)};
  std::vector<float> dropped(count, NAN);
  attention_scores(batch, qkv.data(), part(qkv, hidden), 3 * hidden, out.probabilities.data());
  attention_softmax(batch, out.probabilities.data(), out.probabilities.data());
  attention_dropout(batch, out.probabilities.data(), dropped.data());
  attention_context(batch, dropped.data(), part(qkv, 2 * hidden), 3 * hidden, out.context.data());

  std::vector<float>& gradient = out.dprobabilities;
  attention_context_backward(batch, dcontext.data(), dropped.data(), part(qkv, 2 * hidden), 3 * hidden,
                             gradient.data(), part(out.dqkv, 2 * hidden));
  attention_dropout(batch, gradient.data(), gradient.data());
  attention_softmax_backward(batch, gradient.data(), out.probabilities.data(), gradient.data());
  attention_scores_backward(batch, gradient.data(), qkv.data(), part(qkv, hidden), 3 * hidden,
                            out.dqkv.data(), part(out.dqkv, hidden));
  return out;
}

TEST(AttentionUnfused, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const bool causal : {false, true}) {
      for (const float p : {0.0F, 0.1F}) {
        SCOPED_TRACE(fmt::format("{} causal {} p {}", dtype_name(dtype), causal, p));
        const AttentionCase x({1, 7, 0, 33, 130}, 2, 3, 11, causal, p, dtype);
        Storage qkv = Storage::uniform(dtype, x.batch.rows * 3 * x.hidden(), 1);
        Storage dcontext = Storage::uniform(dtype, x.batch.rows * x.hidden(), 2);
        const Result got = run(x, qkv, dcontext);
        // Delta comes from the probabilities here, so the reference's context must not be rounded.
        const Doubles context = reference_forward(x, qkv.doubles()).context;
        testing::expect_close(got.context, context, 141, dtype, "context");
        testing::expect_close(got.dqkv, reference_backward(x, qkv.doubles(), context, dcontext.doubles()),
                              141, dtype, "dqkv");
      }
    }
  }
}

TEST(AttentionUnfused, MaskedColumnsAndHoles) {
  const AttentionCase x({2, 3}, 1, 1, 4, true, 0.0F, DType::kF32);
  Storage qkv = Storage::uniform(DType::kF32, x.batch.rows * 12, 1);
  const int64_t rows = x.batch.rows;
  std::vector<float> scores(rows * 3, NAN);
  attention_scores(x.batch, qkv.data(), part(qkv, 4), 12, scores.data());
  // Rows: hole, two tokens, hole, three tokens, hole.
  const std::vector<int64_t> visible = {0, 1, 2, 0, 1, 2, 3, 0};
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < 3; ++k) {
      EXPECT_EQ(std::isfinite(scores[row * 3 + k]), k < visible[row]);
      if (k >= visible[row]) {
        EXPECT_EQ(scores[row * 3 + k], -INFINITY);
      }
    }
  }
  attention_softmax(x.batch, scores.data(), scores.data());
  for (int64_t row = 0; row < rows; ++row) {
    float sum = 0.0F;
    for (int64_t k = 0; k < 3; ++k) sum += scores[row * 3 + k];
    // Three quotients, and as many sums.
    EXPECT_NEAR(sum, visible[row] > 0 ? 1.0F : 0.0F, 6 * 0x1p-24F);
  }
}

TEST(AttentionUnfused, BitwiseTheSameWithAnyNumberOfThreads) {
  const AttentionCase x({40, 17}, 1, 5, 8, true, 0.1F, DType::kF32);
  Storage qkv = Storage::uniform(DType::kF32, x.batch.rows * 3 * x.hidden(), 1);
  Storage dcontext = Storage::uniform(DType::kF32, x.batch.rows * x.hidden(), 2);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const Result one = run(x, qkv, dcontext);
  omp_set_num_threads(2);
  const Result two = run(x, qkv, dcontext);
  omp_set_num_threads(threads);
  EXPECT_EQ(one.context.bytes(), two.context.bytes());
  EXPECT_EQ(one.dqkv.bytes(), two.dqkv.bytes());
}

TEST(AttentionUnfused, OtherDtypesAreInternalErrors) {
  AttentionCase x({2}, 0, 1, 4, false, 0.0F, DType::kF32);
  x.batch.dtype = DType::kF64;
  EXPECT_THROW(attention_scores(x.batch, nullptr, nullptr, 12, nullptr), InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
