#include "exec/cpu/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "exec/cpu/attention/attention_reference.h"
#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/simd/bf16_dots.h"

namespace shoehorn::cpu {
namespace {

using test_support::AttentionCase;
using test_support::AttentionShape;
using test_support::Doubles;
using test_support::Operands;
using test_support::Storage;

const std::vector<AttentionMask> kMasks = {AttentionMask::full(), AttentionMask::causal(),
                                           AttentionMask::sliding_window(1),
                                           AttentionMask::sliding_window(21)};

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

// How many matrices hold q, k and v: each its own, or what one matrix lacks is beside the others in the last.
enum class Layout { kThree, kQueriesAndRest, kOne };

// Matrices of a layout, filled from or read into dense ones.
class Matrices {
 public:
  Matrices(const AttentionCase& x, Layout layout, const Operands& from) : batch_(x.batch) {
    const int64_t queries = batch_.query_columns();
    const int64_t keys = batch_.key_columns();
    if (layout == Layout::kOne) {
      widths_ = {queries + 2 * keys};
      places_ = {{0, 0}, {0, queries}, {0, queries + keys}};
    } else if (layout == Layout::kQueriesAndRest) {
      widths_ = {queries, 2 * keys};
      places_ = {{0, 0}, {1, 0}, {1, keys}};
    } else {
      widths_ = {queries, keys, keys};
      places_ = {{0, 0}, {1, 0}, {2, 0}};
    }
    for (size_t m = 0; m < widths_.size(); ++m)
      storages_.emplace_back(batch_.dtype, (m == 0 ? batch_.query_rows : batch_.key_rows) * widths_[m]);
    copy(from.q, 0);
    copy(from.k, 1);
    copy(from.v, 2);
  }
  ConstHeadRows rows(size_t part) { return {at(part), widths_[places_[part].first]}; }
  HeadRows gradient_rows(size_t part) { return {at(part), widths_[places_[part].first]}; }
  void read(Operands& to) {
    copy(to.q, 0);
    copy(to.k, 1);
    copy(to.v, 2);
  }

 private:
  void* at(size_t part) {
    Storage& storage = storages_[places_[part].first];
    return static_cast<uint8_t*>(storage.data()) + places_[part].second * storage.element_bytes();
  }
  // From a dense matrix that is const, to one that is not.
  template <class Dense>
  void copy(Dense& dense, size_t part) {
    const auto [m, column] = places_[part];
    const int64_t columns = part == 0 ? batch_.query_columns() : batch_.key_columns();
    for (int64_t i = 0; i < dense.size(); ++i) {
      const int64_t place = i / columns * widths_[m] + column + i % columns;
      if constexpr (std::is_const_v<Dense>) {
        storages_[m].set(place, dense.at(i));
      } else {
        dense.set(i, storages_[m].at(place));
      }
    }
  }

  const AttentionBatch& batch_;
  std::vector<int64_t> widths_;
  std::vector<std::pair<size_t, int64_t>> places_;  // of q, k and v: the matrix, and the first column in it
  std::vector<Storage> storages_;
};

struct Result {
  Storage context;
  std::vector<float> logsumexp;
  Operands gradients;
};

Result run(const AttentionCase& x, Operands& in, Storage& dcontext, int threads,
           Layout layout = Layout::kThree) {
  AttentionBatch batch = x.batch;
  batch.bias = static_cast<const float*>(in.bias.data());
  Result out{Storage(batch.dtype, batch.query_rows * batch.query_columns()),
             std::vector<float>(batch.heads * batch.query_rows, NAN), Operands::empty(x)};
  Matrices values(x, layout, in);
  const Workspace forward(attention_forward_workspace_bytes(batch, threads));
  attention_forward({.batch = batch,
                     .q = values.rows(0),
                     .k = values.rows(1),
                     .v = values.rows(2),
                     .context = out.context.data(),
                     .logsumexp = out.logsumexp.data(),
                     .threads = threads,
                     .workspace = forward.data(),
                     .workspace_bytes = forward.bytes()});
  Matrices gradients(x, layout, out.gradients);
  const Workspace backward(attention_backward_workspace_bytes(batch, threads));
  attention_backward({.batch = batch,
                      .dcontext = dcontext.data(),
                      .q = values.rows(0),
                      .k = values.rows(1),
                      .v = values.rows(2),
                      .context = out.context.data(),
                      .logsumexp = out.logsumexp.data(),
                      .dq = gradients.gradient_rows(0),
                      .dk = gradients.gradient_rows(1),
                      .dv = gradients.gradient_rows(2),
                      .dbias = static_cast<float*>(out.gradients.bias.data()),
                      .threads = threads,
                      .workspace = backward.data(),
                      .workspace_bytes = backward.bytes()});
  gradients.read(out.gradients);
  EXPECT_TRUE(forward.intact());
  EXPECT_TRUE(backward.intact());
  return out;
}

Storage random_dcontext(const AttentionCase& x) {
  return Storage::uniform(x.batch.dtype, x.batch.query_rows * x.batch.query_columns(), 9);
}

void expect_same_bits(const Result& a, const Result& b) {
  EXPECT_EQ(a.context.bytes(), b.context.bytes());
  EXPECT_EQ(std::memcmp(a.logsumexp.data(), b.logsumexp.data(), a.logsumexp.size() * sizeof(float)), 0);
  EXPECT_EQ(a.gradients.q.bytes(), b.gradients.q.bytes());
  EXPECT_EQ(a.gradients.k.bytes(), b.gradients.k.bytes());
  EXPECT_EQ(a.gradients.v.bytes(), b.gradients.v.bytes());
  EXPECT_EQ(a.gradients.bias.bytes(), b.gradients.bias.bytes());
}

// Whether probabilities and the gradients of scores are rounded to bf16 before they are multiplied.
bool multiplies_pairs(DType dtype) {
  return dtype == DType::kBF16 && (hwy::SupportedTargets() & HWY_AVX3) != 0 && has_fast_bf16_dots();
}

void expect_matches_reference(const AttentionShape& shape) {
  const AttentionCase x(shape);
  Operands in = Operands::uniform(x, 1);
  Storage dcontext = random_dcontext(x);
  const Result got = run(x, in, dcontext, 2);

  // A score is a sum over a head, a context one over the keys, a gradient of a key one over the queries of a
  // group, and one of the bias over those of all sequences.
  int64_t queries = 0;
  if (shape.has_bias) queries = x.batch.query_rows;
  const int64_t terms = shape.head_size + std::max(x.batch.max_key_length, queries) +
                        x.batch.group() * x.batch.max_query_length;
  const test_support::ReferenceForward expected = reference_forward(x, in.doubles());
  const bool rounds = multiplies_pairs(shape.dtype);
  test_support::expect_close(got.context, expected.context, terms, shape.dtype, "context",
                             rounds ? &expected.magnitude : nullptr);
  for (size_t i = 0; i < got.logsumexp.size(); ++i) {
    ASSERT_NEAR(got.logsumexp[i], expected.logsumexp[i],
                4 * dtype_epsilon(DType::kF32) * std::sqrt(static_cast<double>(terms)) * 4);
  }
  // The kernel takes delta from the stored, rounded context, and so does the reference.
  test_support::ReferenceOperands magnitudes;
  const test_support::ReferenceOperands gradients =
      reference_backward(x, in.doubles(), got.context.doubles(), dcontext.doubles(), &magnitudes);
  test_support::expect_close(got.gradients, gradients, terms, shape.dtype, rounds ? &magnitudes : nullptr);
}

class Attention : public test_support::EveryTarget {};

TEST_P(Attention, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const int64_t head_size : {1, 8, 24, 64, 67}) {
      for (const float p : {0.0F, 0.1F}) {
        for (const AttentionMask& mask :
             {AttentionMask::full(), AttentionMask::causal(), AttentionMask::sliding_window(21)}) {
          SCOPED_TRACE(
              fmt::format("{} D {} p {} {}", dtype_name(dtype), head_size, p, test_support::mask_name(mask)));
          expect_matches_reference({.lengths = {1, 7, 33, 130},
                                    .gap = 3,
                                    .heads = 2,
                                    .head_size = head_size,
                                    .mask = mask,
                                    .p = p,
                                    .dtype = dtype});
        }
      }
    }
  }
}

// Query heads that share keys, sequences with more or fewer keys than queries, none of either, and a bias.
TEST_P(Attention, MatchesReferenceInGroupsWithKeysOfTheirOwn) {
  struct Heads {
    int64_t queries, keys;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const Heads heads : {Heads{3, 3}, Heads{6, 2}, Heads{4, 1}}) {
      for (const bool own_keys : {false, true}) {
        for (const bool has_bias : {false, true}) {
          for (const AttentionMask& mask : kMasks) {
            SCOPED_TRACE(fmt::format("{} heads {} of {} own keys {} bias {} {}", dtype_name(dtype),
                                     heads.keys, heads.queries, own_keys, has_bias,
                                     test_support::mask_name(mask)));
            AttentionShape shape{.lengths = {5, 0, 33, 60, 9, 3},
                                 .gap = 1,
                                 .heads = heads.queries,
                                 .key_value_heads = heads.keys,
                                 .head_size = 7,
                                 .mask = mask,
                                 .p = has_bias ? 0.1F : 0.0F,
                                 .dtype = dtype,
                                 .has_bias = has_bias};
            if (own_keys) shape.key_lengths = {12, 4, 33, 41, 0, 70};
            expect_matches_reference(shape);
          }
        }
      }
    }
  }
}

// More keys than a block of keys, more queries than a block of queries, forward and backward; windows that lie
// in one block, span two, and leave whole blocks out.
TEST_P(Attention, MatchesReferenceBeyondOneBlock) {
  for (const AttentionMask& mask : {AttentionMask::full(), AttentionMask::causal(),
                                    AttentionMask::sliding_window(30), AttentionMask::sliding_window(600)}) {
    SCOPED_TRACE(test_support::mask_name(mask));
    expect_matches_reference({.lengths = {545, 70}, .head_size = 16, .mask = mask, .p = 0.25F});
    expect_matches_reference({.lengths = {1100}, .gap = 1, .head_size = 5, .mask = mask, .p = 0.1F});
    expect_matches_reference({.lengths = {257, 48},
                              .gap = 1,
                              .heads = 2,
                              .key_value_heads = 1,
                              .head_size = 128,
                              .mask = mask,
                              .p = 0.1F,
                              .dtype = DType::kBF16});
    expect_matches_reference(
        {.lengths = {257, 48}, .gap = 1, .head_size = 45, .mask = mask, .p = 0.1F, .dtype = DType::kF16});
    // Generation with a cache, and more queries than keys: whole blocks of them see nothing.
    expect_matches_reference({.lengths = {150, 600},
                              .key_lengths = {1300, 200},
                              .heads = 3,
                              .key_value_heads = 1,
                              .head_size = 3,
                              .mask = mask,
                              .p = 0.1F,
                              .has_bias = true});
  }
}

TEST_P(Attention, HeadsOf256Columns) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_matches_reference({.lengths = {70},
                              .heads = 2,
                              .key_value_heads = 1,
                              .head_size = 256,
                              .mask = AttentionMask::causal(),
                              .dtype = dtype});
  }
}

// The greatest of the products is then the least score.
TEST_P(Attention, NegativeScale) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    AttentionCase x({.lengths = {70}, .head_size = 8, .dtype = dtype});
    x.batch.scale = -3.0F;
    Operands in = Operands::uniform(x, 1);
    Storage dcontext = random_dcontext(x);
    const Result got = run(x, in, dcontext, 1);
    test_support::expect_close(got.context, reference_forward(x, in.doubles()).context, 78, dtype, "context");
  }
}

// Without dropout a row of probabilities sums to one: values that are all the same are the context, and dV
// sums up to the sum of dcontext.
TEST_P(Attention, EightThousandTokensInAFixedForwardWorkspace) {
  AttentionCase x({.lengths = {8192}, .head_size = 4, .mask = AttentionMask::causal()});
  Operands in = Operands::uniform(x, 1);
  Storage dcontext = random_dcontext(x);
  for (int64_t i = 0; i < in.v.size(); ++i) in.v.set(i, 0.75F);
  const Result got = run(x, in, dcontext, 2);
  const double tolerance = 4 * dtype_epsilon(DType::kF32) * std::sqrt(8192.0);
  for (int64_t i = 0; i < got.context.size(); ++i) ASSERT_NEAR(got.context.at(i), 0.75, tolerance) << i;
  for (int64_t i = 0; i < 4; ++i) {
    double dvalues = 0;
    double expected = 0;
    for (int64_t row = 0; row < 8192; ++row) {
      dvalues += got.gradients.v.at(row * 4 + i);
      expected += dcontext.at(row * 4 + i);
    }
    EXPECT_NEAR(dvalues, expected, tolerance * std::sqrt(8192.0));
  }
  const int64_t bytes = attention_forward_workspace_bytes(x.batch, 1);
  x.batch.max_query_length = x.batch.max_key_length = 100000;
  EXPECT_EQ(attention_forward_workspace_bytes(x.batch, 1), bytes);
}

// A peaked softmax: scores far apart, where the online maximum changes from block to block and small terms
// underflow.
TEST_P(Attention, LargeScores) {
  AttentionCase x({.lengths = {1100}, .head_size = 8, .p = 0.1F});
  x.batch.scale = 40.0F;
  Operands in = Operands::uniform(x, 9);
  Storage dcontext = random_dcontext(x);
  const Result got = run(x, in, dcontext, 1);
  const test_support::ReferenceForward expected = reference_forward(x, in.doubles());
  // A score of up to 320 has an absolute rounding error of 320 epsilons, and so have the probabilities
  // relatively.
  for (int64_t i = 0; i < got.context.size(); ++i) {
    ASSERT_NEAR(got.context.at(i), expected.context[i], 4 * 320 * dtype_epsilon(DType::kF32));
  }
  // Each of the 1100 terms of a gradient has that error; scores' gradients are scaled by 40 on the way.
  const test_support::ReferenceOperands gradients =
      reference_backward(x, in.doubles(), got.context.doubles(), dcontext.doubles());
  const auto expect_near = [](const Storage& found, const Doubles& wanted) {
    for (int64_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found.at(i), wanted[static_cast<size_t>(i)],
                  40 * 4 * 320 * dtype_epsilon(DType::kF32) * std::sqrt(1100.0))
          << i;
    }
  };
  expect_near(got.gradients.q, gradients.q);
  expect_near(got.gradients.k, gradients.k);
  expect_near(got.gradients.v, gradients.v);
}

TEST_P(Attention, BitwiseTheSameWithAnyNumberOfThreads) {
  for (const AttentionMask& mask : kMasks) {
    const AttentionCase x({.lengths = {600, 40, 0, 129},
                           .gap = 2,
                           .heads = 6,
                           .key_value_heads = 2,
                           .head_size = 24,
                           .mask = mask,
                           .p = 0.1F,
                           .has_bias = true});
    Operands in = Operands::uniform(x, 1);
    Storage dcontext = random_dcontext(x);
    const Result one = run(x, in, dcontext, 1);
    for (const int threads : {2, 3}) expect_same_bits(one, run(x, in, dcontext, threads));
  }
}

// A bias that is not trained costs no table a sequence, and changes nothing else.
TEST_P(Attention, ABiasMayBeFixed) {
  AttentionCase x({.lengths = {60, 41}, .heads = 2, .head_size = 9, .has_bias = true});
  Operands in = Operands::uniform(x, 1);
  Storage dcontext = random_dcontext(x);
  const Result trained = run(x, in, dcontext, 2);
  const int64_t bytes = attention_backward_workspace_bytes(x.batch, 1);
  x.batch.trains_bias = false;
  EXPECT_EQ(attention_backward_workspace_bytes(x.batch, 1), bytes - 2 * x.bias_elements() * 4);
  const Result fixed = run(x, in, dcontext, 2);
  EXPECT_EQ(trained.context.bytes(), fixed.context.bytes());
  EXPECT_EQ(trained.gradients.q.bytes(), fixed.gradients.q.bytes());
  EXPECT_EQ(trained.gradients.k.bytes(), fixed.gradients.k.bytes());
  EXPECT_EQ(trained.gradients.v.bytes(), fixed.gradients.v.bytes());
}

// One product of query, key and value, one of the query and one of the others, or three.
TEST_P(Attention, BitwiseTheSameInAnyLayout) {
  for (const int64_t key_value_heads : {4, 2}) {
    const AttentionCase x({.lengths = {60, 41},
                           .gap = 2,
                           .heads = 4,
                           .key_value_heads = key_value_heads,
                           .head_size = 9,
                           .mask = AttentionMask::causal(),
                           .p = 0.1F,
                           .dtype = DType::kBF16});
    Operands in = Operands::uniform(x, 1);
    Storage dcontext = random_dcontext(x);
    const Result three = run(x, in, dcontext, 2);
    expect_same_bits(three, run(x, in, dcontext, 2, Layout::kQueriesAndRest));
    expect_same_bits(three, run(x, in, dcontext, 2, Layout::kOne));
  }
}

// Heads that share keys give what they give with copies of these keys, but for the sum of the gradients.
TEST_P(Attention, AGroupReadsOneHeadOfKeys) {
  AttentionShape shape{.lengths = {77, 20}, .heads = 6, .key_value_heads = 2, .head_size = 5, .p = 0.1F};
  const AttentionCase grouped(shape);
  shape.key_value_heads = 6;
  const AttentionCase copied(shape);
  Operands in = Operands::uniform(grouped, 1);
  Operands copies = Operands::uniform(copied, 1);
  for (int64_t i = 0; i < copies.k.size(); ++i) {
    const int64_t from = i / 30 * 10 + i % 30 / 15 * 5 + i % 5;
    copies.k.set(i, in.k.at(from));
    copies.v.set(i, in.v.at(from));
  }
  Storage dcontext = random_dcontext(grouped);
  const Result shared = run(grouped, in, dcontext, 2);
  const Result separate = run(copied, copies, dcontext, 2);
  EXPECT_EQ(shared.context.bytes(), separate.context.bytes());
  EXPECT_EQ(shared.gradients.q.bytes(), separate.gradients.q.bytes());
}

// The same sequence gives the same bits wherever it stands and whatever stands beside it.
TEST_P(Attention, BitwiseTheSameInAnyPacking) {
  for (const AttentionMask& mask : kMasks) {
    const AttentionCase alone({.lengths = {130}, .heads = 2, .head_size = 24, .mask = mask, .p = 0.1F});
    AttentionCase packed(
        {.lengths = {77, 130, 300}, .gap = 5, .heads = 2, .head_size = 24, .mask = mask, .p = 0.1F});
    packed.sample[1] = alone.sample[0];
    Operands in = Operands::uniform(packed, 1);
    Storage dcontext = random_dcontext(packed);
    Operands in_alone = Operands::empty(alone);
    Storage dcontext_alone(DType::kF32, dcontext.size());
    const int64_t first = packed.start[1] * int64_t{48};
    for (int64_t i = 0; i < in_alone.q.size(); ++i) {
      in_alone.q.set(i, in.q.at(first + i));
      in_alone.k.set(i, in.k.at(first + i));
      in_alone.v.set(i, in.v.at(first + i));
      dcontext_alone.set(i, dcontext.at(first + i));
    }
    const Result in_pack = run(packed, in, dcontext, 2);
    const Result by_itself = run(alone, in_alone, dcontext_alone, 2);
    for (int64_t i = 0; i < by_itself.context.size(); ++i) {
      ASSERT_EQ(by_itself.context.at(i), in_pack.context.at(first + i));
      ASSERT_EQ(by_itself.gradients.q.at(i), in_pack.gradients.q.at(first + i));
      ASSERT_EQ(by_itself.gradients.k.at(i), in_pack.gradients.k.at(first + i));
      ASSERT_EQ(by_itself.gradients.v.at(i), in_pack.gradients.v.at(first + i));
    }
  }
}

TEST_P(Attention, HolesAreZeros) {
  const AttentionCase x({.lengths = {5, 0, 9}, .gap = 4, .heads = 2, .head_size = 8, .dtype = DType::kBF16});
  Operands in = Operands::empty(x);  // NaN everywhere but in the sequences
  Storage dcontext(DType::kBF16, x.batch.query_rows * 16);
  std::vector<bool> taken(x.batch.query_rows, false);
  for (size_t s = 0; s < x.start.size(); ++s) {
    for (int64_t row = x.start[s]; row < x.start[s] + x.length[s]; ++row) {
      taken[row] = true;
      for (int64_t i = row * 16; i < row * 16 + 16; ++i) {
        for (Storage* value : {&in.q, &in.k, &in.v}) value->set(i, 0.5F);
        dcontext.set(i, 0.25F);
      }
    }
  }
  const Result got = run(x, in, dcontext, 2);
  for (int64_t row = 0; row < x.batch.query_rows; ++row) {
    for (int64_t i = row * 16; i < row * 16 + 16; ++i) {
      ASSERT_EQ(got.context.at(i), taken[row] ? 0.5F : 0.0F);
      for (const Storage* gradient : {&got.gradients.q, &got.gradients.k, &got.gradients.v}) {
        ASSERT_TRUE(std::isfinite(gradient->at(i)));
        if (!taken[row]) {
          ASSERT_EQ(gradient->at(i), 0.0F);
        }
      }
    }
    if (!taken[row]) {
      ASSERT_EQ(got.logsumexp[row], 0.0F);
    }
  }
}

// Five queries, two keys: the first three stand before every key. The others see the first, and both.
TEST_P(Attention, AQueryThatSeesNoKeyGivesZeros) {
  const AttentionCase x({.lengths = {5},
                         .key_lengths = {2},
                         .head_size = 3,
                         .mask = AttentionMask::causal(),
                         .has_bias = true});
  Operands in = Operands::uniform(x, 1);
  Storage dcontext = random_dcontext(x);
  const Result got = run(x, in, dcontext, 1);
  for (int64_t i = 0; i < 9; ++i) {
    EXPECT_EQ(got.context.at(i), 0.0F);
    EXPECT_EQ(got.gradients.q.at(i), 0.0F);
  }
  for (int64_t query = 0; query < 3; ++query) EXPECT_EQ(got.logsumexp[query], 0.0F);
  const int64_t first_key = x.key_start[0] * int64_t{3};
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(got.context.at(9 + i), in.v.at(first_key + i));
  EXPECT_NE(got.logsumexp[4], 0.0F);
}

TEST_P(Attention, NotANumberIsNotHidden) {
  const AttentionCase x({.lengths = {40}, .head_size = 8});
  Operands in = Operands::uniform(x, 1);
  Storage dcontext = random_dcontext(x);
  in.k.set(5 * 8 + 3, std::numeric_limits<float>::quiet_NaN());  // in a key: every query meets it
  const Result got = run(x, in, dcontext, 1);
  for (int64_t i = 0; i < got.context.size(); ++i) ASSERT_TRUE(std::isnan(got.context.at(i)));
  for (const Storage* gradient : {&got.gradients.q, &got.gradients.k, &got.gradients.v}) {
    for (int64_t i = 0; i < gradient->size(); ++i) ASSERT_TRUE(std::isnan(gradient->at(i)));
  }
}

TEST_P(Attention, NoSequences) {
  const AttentionCase x({.gap = 3, .heads = 2, .head_size = 8, .p = 0.1F});
  Operands in = Operands::empty(x);
  Storage dcontext(DType::kF32, 3 * 16);
  const Result got = run(x, in, dcontext, 2);
  for (const Storage* gradient : {&got.gradients.q, &got.gradients.k, &got.gradients.v}) {
    for (int64_t i = 0; i < gradient->size(); ++i) ASSERT_EQ(gradient->at(i), 0.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Attention, test_support::every_target(), test_support::target_name);

// The reference's own gradient, by central differences of a weighted sum of its context.
TEST(AttentionReference, BackwardIsTheGradientOfForward) {
  for (const AttentionMask& mask :
       {AttentionMask::full(), AttentionMask::causal(), AttentionMask::sliding_window(3)}) {
    for (const bool own_keys : {false, true}) {
      AttentionShape shape{.lengths = {1, 6, 11},
                           .gap = 1,
                           .heads = 4,
                           .key_value_heads = 2,
                           .head_size = 3,
                           .mask = mask,
                           .p = 0.3F,
                           .has_bias = true};
      if (own_keys) shape.key_lengths = {3, 2, 12};
      const AttentionCase x(shape);
      test_support::ReferenceOperands in = Operands::uniform(x, 4).doubles();
      const Doubles dcontext = random_dcontext(x).doubles();
      const auto loss = [&] {
        const Doubles context = reference_forward(x, in).context;
        double sum = 0;
        for (size_t i = 0; i < context.size(); ++i) sum += context[i] * dcontext[i];
        return sum;
      };
      const test_support::ReferenceOperands gradients =
          reference_backward(x, in, reference_forward(x, in).context, dcontext);
      for (Doubles test_support::ReferenceOperands::* part :
           {&test_support::ReferenceOperands::q, &test_support::ReferenceOperands::k,
            &test_support::ReferenceOperands::v, &test_support::ReferenceOperands::bias}) {
        for (size_t i = 0; i < (in.*part).size(); ++i) {
          double& value = (in.*part)[i];
          const double kept = value;
          const double step = 1e-5;
          value = kept + step;
          const double above = loss();
          value = kept - step;
          const double below = loss();
          value = kept;
          ASSERT_NEAR((gradients.*part)[i], (above - below) / (2 * step), 1e-9) << i;
        }
      }
    }
  }
}

TEST(AttentionArguments, BrokenContractsAreInternalErrors) {
  AttentionCase x({.lengths = {5, 9}, .key_lengths = {4, 8}, .gap = 1, .heads = 4, .head_size = 8});
  const auto run_it = [&] {
    Operands in = Operands::uniform(x, 1);
    Storage dcontext = random_dcontext(x);
    run(x, in, dcontext, 1);
  };
  const auto expect_refused = [&] { EXPECT_THROW(run_it(), InternalError); };
  EXPECT_NO_THROW(run_it());
  const int32_t start = x.start[1];
  x.start[1] = x.start[0] + 2;
  expect_refused();
  x.start[1] = static_cast<int32_t>(x.batch.query_rows) - 2;
  expect_refused();
  x.start[1] = start;
  x.batch.max_query_length = 8;
  expect_refused();
  x.batch.max_query_length = 9;
  x.key_start[1] = x.key_start[0] + 1;
  expect_refused();
  x.key_start[1] = static_cast<int32_t>(x.batch.key_rows) - 8;
  x.batch.max_key_length = 7;
  expect_refused();
  x.batch.max_key_length = 8;
  x.batch.dropout.p = 1.0F;
  expect_refused();
  x.batch.dropout.p = 0.0F;
  x.batch.mask = AttentionMask::sliding_window(0);
  expect_refused();
  x.batch.mask = AttentionMask::full();
  x.batch.key_value_heads = 3;
  expect_refused();
}

}  // namespace
}  // namespace shoehorn::cpu
