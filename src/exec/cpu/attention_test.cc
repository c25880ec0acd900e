#include "exec/cpu/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"
#include "exec/cpu/attention_reference.h"
#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using testing::AttentionCase;
using testing::Doubles;
using testing::Storage;

// Scratch with a canary behind it, aligned as the kernels ask.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) : bytes_(bytes), data_(std::aligned_alloc(64, bytes + 64), &std::free) {
    std::memset(data_.get(), 0xff, bytes + 64);  // NaN wherever something unwritten is read
  }
  void* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }
  bool intact() const {
    const uint8_t* canary = static_cast<const uint8_t*>(data_.get()) + bytes_;
    for (int i = 0; i < 64; ++i) {
      if (canary[i] != 0xff) return false;
    }
    return true;
  }

 private:
  int64_t bytes_;
  std::unique_ptr<void, decltype(&std::free)> data_;
};

struct Result {
  Storage context;
  std::vector<float> logsumexp;
  Storage dqkv;
};

Result run(const AttentionCase& x, Storage& qkv, Storage& dcontext, int threads) {
  const AttentionBatch& batch = x.batch;
  const int64_t hidden = x.hidden();
  Result out{Storage(batch.dtype, batch.rows * hidden), std::vector<float>(batch.heads * batch.rows, NAN),
             Storage(batch.dtype, batch.rows * 3 * hidden)};
  const Workspace forward(
      attention_forward_workspace_bytes(batch.max_sequence_length, batch.heads, batch.head_size, threads));
  attention_forward({.batch = batch,
                     .qkv = qkv.data(),
                     .qkv_stride = 3 * hidden,
                     .context = out.context.data(),
                     .logsumexp = out.logsumexp.data(),
                     .threads = threads,
                     .workspace = forward.data(),
                     .workspace_bytes = forward.bytes()});
  const Workspace backward(
      attention_backward_workspace_bytes(batch.max_sequence_length, batch.heads, batch.head_size, threads));
  attention_backward({.batch = batch,
                      .dcontext = dcontext.data(),
                      .qkv = qkv.data(),
                      .qkv_stride = 3 * hidden,
                      .context = out.context.data(),
                      .logsumexp = out.logsumexp.data(),
                      .dqkv = out.dqkv.data(),
                      .dqkv_stride = 3 * hidden,
                      .threads = threads,
                      .workspace = backward.data(),
                      .workspace_bytes = backward.bytes()});
  EXPECT_TRUE(forward.intact());
  EXPECT_TRUE(backward.intact());
  return out;
}

void expect_matches_reference(const std::vector<int32_t>& lengths, int64_t gap, int64_t heads,
                              int64_t head_size, bool causal, float p, DType dtype) {
  const AttentionCase x(lengths, gap, heads, head_size, causal, p, dtype);
  const int64_t hidden = x.hidden();
  Storage qkv = Storage::uniform(dtype, x.batch.rows * 3 * hidden, 1);
  Storage dcontext = Storage::uniform(dtype, x.batch.rows * hidden, 2);
  const Result got = run(x, qkv, dcontext, 2);

  const int64_t terms = head_size + x.batch.max_sequence_length;
  const testing::ReferenceForward expected = reference_forward(x, qkv.doubles());
  testing::expect_close(got.context, expected.context, terms, dtype, "context");
  for (size_t i = 0; i < got.logsumexp.size(); ++i) {
    ASSERT_NEAR(got.logsumexp[i], expected.logsumexp[i],
                4 * dtype_epsilon(DType::kF32) * std::sqrt(static_cast<double>(terms)) * 4);
  }
  // The kernel takes delta from the stored, rounded context, and so does the reference.
  testing::expect_close(got.dqkv,
                        reference_backward(x, qkv.doubles(), got.context.doubles(), dcontext.doubles()),
                        terms, dtype, "dqkv");
}

class Attention : public testing::EveryTarget {};

TEST_P(Attention, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t head_size : {1, 8, 24, 64, 67}) {
      for (const float p : {0.0F, 0.1F}) {
        for (const bool causal : {false, true}) {
          SCOPED_TRACE(fmt::format("{} D {} p {} causal {}", dtype_name(dtype), head_size, p, causal));
          expect_matches_reference({1, 7, 33, 130}, 3, 2, head_size, causal, p, dtype);
        }
      }
    }
  }
}

// More keys than a block of keys, more queries than a block of queries, forward and backward.
TEST_P(Attention, MatchesReferenceBeyondOneBlock) {
  for (const bool causal : {false, true}) {
    SCOPED_TRACE(causal);
    expect_matches_reference({545, 70}, 0, 1, 16, causal, 0.25F, DType::kF32);
    expect_matches_reference({1100}, 1, 1, 5, causal, 0.1F, DType::kF32);
    expect_matches_reference({257, 48}, 1, 1, 128, causal, 0.1F, DType::kBF16);
    expect_matches_reference({257, 48}, 1, 1, 45, causal, 0.1F, DType::kF16);
  }
}

// Without dropout a row of probabilities sums to one: values that are all the same are the context, and dV
// sums up to the sum of dcontext.
TEST_P(Attention, EightThousandTokensInAFixedForwardWorkspace) {
  const AttentionCase x({8192}, 0, 1, 4, true, 0.0F, DType::kF32);
  Storage qkv = Storage::uniform(DType::kF32, x.batch.rows * 12, 1);
  Storage dcontext = Storage::uniform(DType::kF32, x.batch.rows * 4, 2);
  for (int64_t row = 0; row < 8192; ++row) {
    for (int64_t i = 0; i < 4; ++i) qkv.set(row * 12 + 8 + i, 0.75F);
  }
  const Result got = run(x, qkv, dcontext, 2);
  const double tolerance = 4 * dtype_epsilon(DType::kF32) * std::sqrt(8192.0);
  for (int64_t i = 0; i < got.context.size(); ++i) ASSERT_NEAR(got.context.at(i), 0.75, tolerance) << i;
  for (int64_t i = 0; i < 4; ++i) {
    double dvalues = 0;
    double expected = 0;
    for (int64_t row = 0; row < 8192; ++row) {
      dvalues += got.dqkv.at(row * 12 + 8 + i);
      expected += dcontext.at(row * 4 + i);
    }
    EXPECT_NEAR(dvalues, expected, tolerance * std::sqrt(8192.0));
  }
  EXPECT_EQ(attention_forward_workspace_bytes(8192, 1, 64, 1),
            attention_forward_workspace_bytes(100000, 1, 64, 1));
}

// A peaked softmax: scores far apart, where the online maximum changes from block to block and small terms
// underflow.
TEST_P(Attention, LargeScores) {
  AttentionCase x({1100}, 0, 1, 8, false, 0.1F, DType::kF32);
  x.batch.scale = 40.0F;
  Storage qkv = Storage::uniform(DType::kF32, x.batch.rows * 24, 9);
  Storage dcontext = Storage::uniform(DType::kF32, x.batch.rows * 8, 2);
  const Result got = run(x, qkv, dcontext, 1);
  const testing::ReferenceForward expected = reference_forward(x, qkv.doubles());
  // A score of up to 320 has an absolute rounding error of 320 epsilons, and so have the probabilities
  // relatively.
  for (int64_t i = 0; i < got.context.size(); ++i) {
    ASSERT_NEAR(got.context.at(i), expected.context[i], 4 * 320 * dtype_epsilon(DType::kF32));
  }
  // Each of the 1100 terms of a gradient has that error; scores' gradients are scaled by 40 on the way.
  const Doubles gradients = reference_backward(x, qkv.doubles(), got.context.doubles(), dcontext.doubles());
  for (int64_t i = 0; i < got.dqkv.size(); ++i) {
    ASSERT_NEAR(got.dqkv.at(i), gradients[static_cast<size_t>(i)],
                40 * 4 * 320 * dtype_epsilon(DType::kF32) * std::sqrt(1100.0))
        << i;
  }
}

TEST_P(Attention, BitwiseTheSameWithAnyNumberOfThreads) {
  const AttentionCase x({600, 40, 0, 129}, 2, 3, 24, true, 0.1F, DType::kF32);
  Storage qkv = Storage::uniform(DType::kF32, x.batch.rows * 3 * x.hidden(), 1);
  Storage dcontext = Storage::uniform(DType::kF32, x.batch.rows * x.hidden(), 2);
  const Result one = run(x, qkv, dcontext, 1);
  for (const int threads : {2, 3}) {
    const Result many = run(x, qkv, dcontext, threads);
    EXPECT_EQ(one.context.bytes(), many.context.bytes());
    EXPECT_EQ(one.dqkv.bytes(), many.dqkv.bytes());
    EXPECT_EQ(std::memcmp(one.logsumexp.data(), many.logsumexp.data(), one.logsumexp.size() * sizeof(float)),
              0);
  }
}

// The same sequence gives the same bits wherever it stands and whatever stands beside it.
TEST_P(Attention, BitwiseTheSameInAnyPacking) {
  const int64_t hidden = 48;
  const AttentionCase alone({130}, 0, 2, 24, false, 0.1F, DType::kF32);
  AttentionCase packed({77, 130, 300}, 5, 2, 24, false, 0.1F, DType::kF32);
  packed.sample[1] = alone.sample[0];
  Storage qkv = Storage::uniform(DType::kF32, packed.batch.rows * 3 * hidden, 1);
  Storage dcontext = Storage::uniform(DType::kF32, packed.batch.rows * hidden, 2);
  Storage qkv_alone(DType::kF32, 130 * 3 * hidden);
  Storage dcontext_alone(DType::kF32, 130 * hidden);
  const int64_t first = packed.start[1];
  for (int64_t i = 0; i < qkv_alone.size(); ++i) qkv_alone.set(i, qkv.at(first * 3 * hidden + i));
  for (int64_t i = 0; i < dcontext_alone.size(); ++i) dcontext_alone.set(i, dcontext.at(first * hidden + i));
  const Result in_pack = run(packed, qkv, dcontext, 2);
  const Result by_itself = run(alone, qkv_alone, dcontext_alone, 2);
  for (int64_t i = 0; i < by_itself.context.size(); ++i) {
    ASSERT_EQ(by_itself.context.at(i), in_pack.context.at(first * hidden + i));
  }
  for (int64_t i = 0; i < by_itself.dqkv.size(); ++i) {
    ASSERT_EQ(by_itself.dqkv.at(i), in_pack.dqkv.at(first * 3 * hidden + i));
  }
}

TEST_P(Attention, HolesAreZeros) {
  const AttentionCase x({5, 0, 9}, 4, 2, 8, false, 0.0F, DType::kBF16);
  Storage qkv(DType::kBF16, x.batch.rows * 48);  // NaN everywhere but in the sequences
  Storage dcontext(DType::kBF16, x.batch.rows * 16);
  std::vector<bool> taken(x.batch.rows, false);
  for (size_t s = 0; s < x.start.size(); ++s) {
    for (int64_t row = x.start[s]; row < x.start[s] + x.length[s]; ++row) {
      taken[row] = true;
      for (int64_t i = 0; i < 48; ++i) qkv.set(row * 48 + i, 0.5F);
      for (int64_t i = 0; i < 16; ++i) dcontext.set(row * 16 + i, 0.25F);
    }
  }
  const Result got = run(x, qkv, dcontext, 2);
  for (int64_t row = 0; row < x.batch.rows; ++row) {
    for (int64_t i = 0; i < 16; ++i) ASSERT_EQ(got.context.at(row * 16 + i), taken[row] ? 0.5F : 0.0F);
    for (int64_t i = 0; i < 48; ++i) {
      ASSERT_TRUE(std::isfinite(got.dqkv.at(row * 48 + i)));
      if (!taken[row]) {
        ASSERT_EQ(got.dqkv.at(row * 48 + i), 0.0F);
      }
    }
    if (!taken[row]) {
      ASSERT_EQ(got.logsumexp[row], 0.0F);
    }
  }
}

TEST_P(Attention, NotANumberIsNotHidden) {
  const AttentionCase x({40}, 0, 1, 8, false, 0.0F, DType::kF32);
  Storage qkv = Storage::uniform(DType::kF32, 40 * 24, 1);
  Storage dcontext = Storage::uniform(DType::kF32, 40 * 8, 2);
  qkv.set(5 * 24 + 8 + 3, std::numeric_limits<float>::quiet_NaN());  // in a key: every query meets it
  const Result got = run(x, qkv, dcontext, 1);
  for (int64_t i = 0; i < got.context.size(); ++i) ASSERT_TRUE(std::isnan(got.context.at(i)));
  for (int64_t i = 0; i < got.dqkv.size(); ++i) ASSERT_TRUE(std::isnan(got.dqkv.at(i)));
}

TEST_P(Attention, NoSequences) {
  const AttentionCase x({}, 3, 2, 8, false, 0.1F, DType::kF32);
  Storage qkv(DType::kF32, 3 * 48);
  Storage dcontext(DType::kF32, 3 * 16);
  const Result got = run(x, qkv, dcontext, 2);
  for (int64_t i = 0; i < got.dqkv.size(); ++i) ASSERT_EQ(got.dqkv.at(i), 0.0F);
}

INSTANTIATE_TEST_SUITE_P(Targets, Attention, testing::every_target(), testing::target_name);

// The reference's own gradient, by central differences of a weighted sum of its context.
TEST(AttentionReference, BackwardIsTheGradientOfForward) {
  for (const bool causal : {false, true}) {
    const AttentionCase x({1, 6, 11}, 1, 2, 3, causal, 0.3F, DType::kF32);
    Doubles qkv = Storage::uniform(DType::kF32, x.batch.rows * 18, 4).doubles();
    const Doubles dcontext = Storage::uniform(DType::kF32, x.batch.rows * 6, 5).doubles();
    const auto loss = [&] {
      const Doubles context = reference_forward(x, qkv).context;
      double sum = 0;
      for (size_t i = 0; i < context.size(); ++i) sum += context[i] * dcontext[i];
      return sum;
    };
    const Doubles dqkv = reference_backward(x, qkv, reference_forward(x, qkv).context, dcontext);
    for (size_t i = 0; i < qkv.size(); ++i) {
      const double kept = qkv[i];
      const double step = 1e-5;
      qkv[i] = kept + step;
      const double above = loss();
      qkv[i] = kept - step;
      const double below = loss();
      qkv[i] = kept;
      ASSERT_NEAR(dqkv[i], (above - below) / (2 * step), 1e-9) << i;
    }
  }
}

TEST(AttentionArguments, BrokenContractsAreInternalErrors) {
  AttentionCase x({5, 9}, 1, 2, 8, false, 0.0F, DType::kF32);
  Storage qkv = Storage::uniform(DType::kF32, x.batch.rows * 48, 1);
  Storage dcontext = Storage::uniform(DType::kF32, x.batch.rows * 16, 1);
  x.start[1] = x.start[0] + 2;
  EXPECT_THROW(run(x, qkv, dcontext, 1), InternalError);
  x.start[1] = static_cast<int32_t>(x.batch.rows) - 2;
  EXPECT_THROW(run(x, qkv, dcontext, 1), InternalError);
  x.start[1] = 7;
  x.batch.max_sequence_length = 8;
  EXPECT_THROW(run(x, qkv, dcontext, 1), InternalError);
  x.batch.max_sequence_length = 9;
  x.batch.dropout.p = 1.0F;
  EXPECT_THROW(run(x, qkv, dcontext, 1), InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
