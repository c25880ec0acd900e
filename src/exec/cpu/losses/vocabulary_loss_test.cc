// The loss of a vocabulary against naive double sums of the same operands: every arrangement of the work, odd sizes,
// ignored labels, extreme logits; the bits with another number of threads; the workspace.
#include "exec/cpu/losses/vocabulary_loss.h"

#include "exec/cpu/kernel_testing.h"
#include "exec/cpu/losses/loss.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;

struct Gradients {
  bool of_x;
  bool of_weight;
};

struct VocabularyCase {
  VocabularyCase(DType type, int64_t token_count, int64_t hidden_size, int64_t entries)
      : dtype(type),
        tokens(token_count),
        hidden(hidden_size),
        vocabulary(entries),
        x(random_tensor(type, tokens * hidden, 1)),
        // Logits of a few units.
        weight(
            random_tensor(type, vocabulary * hidden, 2, 0.0F, 2.0F / std::sqrt(static_cast<float>(hidden)))),
        dx(x),
        dweight(random_tensor(DType::kF32, vocabulary * hidden, 3)),
        maximum(DType::kF32, tokens),
        sum(DType::kF32, tokens) {
    for (int64_t t = 0; t < tokens; ++t)
      labels.push_back(t % 4 == 2 ? kIgnoredLabel : static_cast<int32_t>((t * 7919 + 1) % vocabulary));
  }

  VocabularyLossShape shape(bool gives_loss, Gradients gradients) const {
    return {.dtype = dtype,
            .tokens = tokens,
            .hidden = hidden,
            .vocabulary = vocabulary,
            .gives_loss = gives_loss,
            .gives_dx = gradients.of_x,
            .gives_dweight = gradients.of_weight,
            .most_workspace_bytes = most_workspace_bytes};
  }
  // `in_place`: dx lies in x.
  void run(const VocabularyLossShape& shape, bool accumulate = false, bool in_place = false) {
    const VocabularyLoss plan(shape);
    plan.compile();
    keeps_exponentials = plan.keeps_exponentials();
    block_rows = plan.block_rows();
    Tensor scratch = test_support::workspace(plan.workspace_bytes() + 64);
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    plan.run({.tokens = tokens,
              .label_smoothing = label_smoothing,
              .z_loss = z_loss,
              .x = x.data(),
              .weight = weight.data(),
              .labels = labels.data(),
              .target_count = &target_count,
              .gradient_scale = &gradient_scale,
              .row_maximum = maximum.floats(),
              .row_sum = sum.floats(),
              .loss = &loss,
              .right = &right,
              .accumulate_loss = accumulate,
              .dx = in_place ? x.data() : dx.data(),
              .dweight = dweight.floats(),
              .accumulate_dweight = accumulate,
              .workspace = reinterpret_cast<void*>((address + 63) / 64 * 64)});
    if (in_place) std::swap(x, dx);
  }

  DType dtype;
  int64_t tokens;
  int64_t hidden;
  int64_t vocabulary;
  int64_t most_workspace_bytes = kVocabularyWorkspaceBytes;
  float label_smoothing = 0;
  float z_loss = 0;
  float target_count = 5;
  float gradient_scale = 8;
  float loss = -1;
  float right = -1;
  bool keeps_exponentials = false;
  int64_t block_rows = 0;
  std::vector<int32_t> labels;
  Tensor x, weight, dx, dweight, maximum, sum;
};

// In double, with how far rounding may take each number from them.
struct Expected {
  explicit Expected(const VocabularyCase& c)
      : dx(static_cast<size_t>(c.tokens * c.hidden)),
        dx_terms(dx.size()),
        dweight(static_cast<size_t>(c.vocabulary * c.hidden)),
        dweight_terms(dweight.size()),
        x(doubles(c.x)),
        weight(doubles(c.weight)) {
    for (int64_t t = 0; t < c.tokens; ++t) {
      if (c.labels[static_cast<size_t>(t)] != kIgnoredLabel) add_token(c, t);
    }
    loss /= static_cast<double>(c.target_count);
    loss_terms /= static_cast<double>(c.target_count);
  }

  static std::vector<double> doubles(const Tensor& tensor) {
    std::vector<double> values;
    for (int64_t i = 0; i < tensor.count(); ++i) values.push_back(static_cast<double>(tensor[i]));
    return values;
  }

  void add_token(const VocabularyCase& c, int64_t t) {
    const auto label = static_cast<size_t>(c.labels[static_cast<size_t>(t)]);
    const auto smoothing = static_cast<double>(c.label_smoothing);
    const auto entries = static_cast<double>(c.vocabulary);
    std::vector<double> logits;
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      double logit = 0;
      double terms = 0;
      for (int64_t h = 0; h < c.hidden; ++h) {
        const double term =
            x[static_cast<size_t>(t * c.hidden + h)] * weight[static_cast<size_t>(v * c.hidden + h)];
        logit += term;
        terms += std::abs(term);
      }
      logits.push_back(logit);
      largest_terms = std::max(largest_terms, terms);
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    double mean = 0;
    for (const double logit : logits) {
      sum += std::exp(logit - largest);
      mean += logit / entries;
    }
    const double log_sum = largest + std::log(sum);
    const double z_loss = static_cast<double>(c.z_loss) * log_sum * log_sum;
    loss += log_sum - (1 - smoothing) * logits[label] - smoothing * mean + z_loss;
    loss_terms += std::abs(log_sum) + std::abs(logits[label]) + z_loss;
    const double factor = static_cast<double>(c.gradient_scale) / static_cast<double>(c.target_count);
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      const auto at = static_cast<size_t>(v);
      const double p = (1 + 2 * static_cast<double>(c.z_loss) * log_sum) * std::exp(logits[at] - log_sum);
      const double target = (at == label ? 1 - smoothing : 0) + smoothing / entries;
      const double gradient = factor * (p - target);
      const double terms = factor * (std::abs(p) + target);
      for (int64_t h = 0; h < c.hidden; ++h) {
        const auto i = static_cast<size_t>(t * c.hidden + h);
        const auto j = static_cast<size_t>(v * c.hidden + h);
        dx[i] += gradient * weight[j];
        dx_terms[i] += terms * std::abs(weight[j]);
        dweight[j] += gradient * x[i];
        dweight_terms[j] += terms * std::abs(x[i]);
      }
    }
  }

  // Half steps of float32 by which a logit, and so the logarithm of a probability, may be off.
  double logit_roundings(const VocabularyCase& c) const {
    return (4 + std::sqrt(static_cast<double>(c.hidden))) * (1 + largest_terms);
  }

  double loss = 0, loss_terms = 0, largest_terms = 0;
  std::vector<double> dx, dx_terms, dweight, dweight_terms;
  std::vector<double> x, weight;
};

void expect_loss(const VocabularyCase& c, const Expected& expected, double times = 1) {
  const double roundings = 16 + expected.logit_roundings(c);
  EXPECT_NEAR(static_cast<double>(c.loss), times * expected.loss,
              times * roundings * 0x1p-24 * (expected.loss_terms + 1));
}

// What products read may be rounded to their type before: `rounded` of a product's two factors.
double relative_error(const VocabularyCase& c, const Expected& expected, int rounded) {
  const double sums = std::sqrt(static_cast<double>(std::max(c.vocabulary, c.tokens)));
  const double narrowed = c.dtype == DType::kF32 ? 0 : rounded * 0.5 * dtype_epsilon(c.dtype);
  return (16 + sums + 4 * expected.logit_roundings(c)) * 0x1p-24 + narrowed;
}

void expect_dx(const VocabularyCase& c, const Expected& expected) {
  const double relative = relative_error(c, expected, 1);
  for (int64_t i = 0; i < c.dx.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_NEAR(static_cast<double>(c.dx[i]), expected.dx[at],
                test_support::tolerance(c.dtype, expected.dx[at], 0, 0) + relative * expected.dx_terms[at])
        << "dx " << i / c.hidden << ", " << i % c.hidden;
  }
}

void expect_dweight(const VocabularyCase& c, const Expected& expected, const Tensor* before = nullptr) {
  const double relative = relative_error(c, expected, c.keeps_exponentials ? 2 : 1);
  for (int64_t i = 0; i < c.dweight.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double there = before == nullptr ? 0 : static_cast<double>((*before)[i]);
    ASSERT_NEAR(static_cast<double>(c.dweight[i]), there + expected.dweight[at],
                relative * (expected.dweight_terms[at] + std::abs(there)) + 1e-38)
        << "dW " << i / c.hidden << ", " << i % c.hidden;
  }
}

struct Size {
  int64_t tokens, hidden, vocabulary;
};
constexpr Size kSizes[] = {{1, 1, 2}, {7, 5, 65}, {33, 16, 300}, {21, 24, 4999}, {1100, 8, 70}};

class VocabularyLossTest : public test_support::EveryTarget {};

TEST_P(VocabularyLossTest, LossAndGradientsTogether) {
  for (const DType dtype : kStorages) {
    for (const auto& [tokens, hidden, vocabulary] : kSizes) {
      for (const float smoothing : {0.0F, 0.125F}) {
        SCOPED_TRACE(
            fmt::format("{} {}x{}x{} e {}", dtype_name(dtype), tokens, hidden, vocabulary, smoothing));
        VocabularyCase c(dtype, tokens, hidden, vocabulary);
        c.label_smoothing = smoothing;
        c.z_loss = smoothing * 0.25F;
        const Expected expected(c);
        // The weight trained, and then frozen; the input trained or not.
        c.run(c.shape(true, {true, true}));
        expect_loss(c, expected);
        expect_dx(c, expected);
        expect_dweight(c, expected);
        const Tensor before = c.dweight;
        c.run(c.shape(true, {false, true}), true);
        expect_loss(c, expected, 2);
        expect_dweight(c, expected, &before);
        c.dx = random_tensor(dtype, tokens * hidden, 9);
        c.run(c.shape(true, {true, false}));
        expect_loss(c, expected);
        expect_dx(c, expected);
      }
    }
  }
}

TEST_P(VocabularyLossTest, LossAndThenGradients) {
  for (const DType dtype : kStorages) {
    for (const auto& [tokens, hidden, vocabulary] : kSizes) {
      SCOPED_TRACE(fmt::format("{} {}x{}x{}", dtype_name(dtype), tokens, hidden, vocabulary));
      VocabularyCase c(dtype, tokens, hidden, vocabulary);
      c.label_smoothing = 0.125F;
      c.z_loss = 0.0625F;
      const Expected expected(c);
      c.run(c.shape(true, {false, false}));
      expect_loss(c, expected);
      VocabularyCase frozen = c;
      frozen.run(frozen.shape(false, {true, false}), false, true);
      expect_dx(frozen, expected);
      const Tensor before = c.dweight;
      c.run(c.shape(false, {true, true}), true);
      expect_dx(c, expected);
      expect_dweight(c, expected, &before);
    }
  }
}

// A small workspace has blocks of a few tokens, whose exponentials are kept, or logits made twice where that costs less.
TEST_P(VocabularyLossTest, ManyBlocksWithExponentialsKeptAndLogitsMadeTwice) {
  for (const DType dtype : kStorages) {
    for (const bool keeps : {true, false}) {
      VocabularyCase c(dtype, 400, 64, keeps ? 300 : 5000);
      c.most_workspace_bytes = keeps ? 1 : 1 << 20;
      const Expected expected(c);
      c.run(c.shape(true, {true, true}), false, true);
      if (c.dtype == DType::kF32) {
        EXPECT_EQ(c.keeps_exponentials, keeps);
      }
      EXPECT_LT(c.block_rows, 400 * 3 / 4) << "tokens with a label";
      expect_loss(c, expected);
      expect_dx(c, expected);
      expect_dweight(c, expected);
      c.run(c.shape(true, {true, false}));
      expect_dx(c, expected);
    }
  }
}

// Logits of ±10,000: nothing overflows, and what is certain has no gradient.
TEST_P(VocabularyLossTest, ExtremeLogits) {
  for (const bool trains_weight : {true, false}) {
    VocabularyCase c(DType::kF32, 3, 1, 4100);
    c.labels = {4000, 7, 4099};
    for (int64_t v = 0; v < c.vocabulary; ++v) c.weight.set(v, v == 4000 ? 100.0F : -100.0F);
    c.x = Tensor(DType::kF32, {100.0F, 100.0F, -100.0F});
    c.target_count = 1;
    c.gradient_scale = 1;
    c.run(c.shape(true, {true, trains_weight}));
    // The first is right, the second is 20,000 from it, the third is one of 4,099 alike.
    EXPECT_NEAR(static_cast<double>(c.loss), 20000 + std::log(4099.0), 20000 * 0x1p-22);
    EXPECT_EQ(c.right, 1.0F);
    EXPECT_EQ(c.dx[0], 0.0F);
    EXPECT_NEAR(static_cast<double>(c.dx[1]), 200.0, 200 * 0x1p-20);
    EXPECT_NEAR(static_cast<double>(c.dx[2]), 0.0, 100 * 64 * 0x1p-20);
    if (trains_weight) {
      EXPECT_NEAR(static_cast<double>(c.dweight[4000]), 100.0, 100 * 0x1p-20);
    }
  }
}

TEST_P(VocabularyLossTest, NotANumberShowsInTheLoss) {
  for (const bool trains_weight : {true, false}) {
    VocabularyCase c(DType::kF32, 5, 3, 2500);
    c.weight.set(2400 * 3, NAN);
    c.run(c.shape(true, {true, trains_weight}));
    EXPECT_TRUE(std::isnan(c.loss));
    EXPECT_TRUE(std::isnan(c.dx[0]));
  }
}

// One entry is the largest in each chunk, and the last of them of all: sums of dx, and the exponentials of dW, are
// scaled to it.
TEST_P(VocabularyLossTest, LargestLogitsInTheLastChunk) {
  for (const DType dtype : kStorages) {
    VocabularyCase c(dtype, 40, 48, 6000);
    for (int64_t v = 0; v < c.vocabulary; ++v) {
      for (int64_t h = 0; h < c.hidden; ++h)
        c.weight.set(v * c.hidden + h, c.weight[v * c.hidden + h] * (1.0F + static_cast<float>(v) / 1500.0F));
    }
    const Expected expected(c);
    for (const bool trains_weight : {false, true}) {
      c.run(c.shape(true, {true, trains_weight}));
      EXPECT_EQ(c.keeps_exponentials, trains_weight);
      expect_loss(c, expected);
      expect_dx(c, expected);
    }
    expect_dweight(c, expected);
  }
}

// Of a label that is nearly certain the gradient is a small difference of p and 1: it is right to float32's precision of
// these, whatever type the products read.
TEST_P(VocabularyLossTest, GradientsOfNearlyCertainLabelsKeepTheirDigits) {
  for (const DType dtype : kStorages) {
    VocabularyCase c(dtype, 1, 4, 3000);
    c.labels = {1234};
    c.target_count = 1;
    c.gradient_scale = 1;
    c.x = Tensor(dtype, {1.0F, 1.5F, -0.75F, 2.0F});
    for (int64_t i = 0; i < c.weight.count(); ++i) c.weight.set(i, 0.0F);
    c.weight.set(1234 * 4, 15.0F);
    c.run(c.shape(true, {false, true}));
    EXPECT_TRUE(c.keeps_exponentials);
    const double gradient = -2999.0 / (std::exp(15.0) + 2999.0);  // about -0.0009
    for (int64_t h = 0; h < 4; ++h)
      EXPECT_NEAR(static_cast<double>(c.dweight[1234 * 4 + h]), gradient * static_cast<double>(c.x[h]),
                  std::sqrt(3000.0) * 0x1p-24 * std::abs(static_cast<double>(c.x[h])));
  }
}

TEST_P(VocabularyLossTest, AllLabelsIgnored) {
  for (const bool accumulate : {false, true}) {
    VocabularyCase c(DType::kBF16, 20, 8, 70);
    c.labels.assign(20, kIgnoredLabel);
    const Tensor before = c.dweight;
    c.loss = 3;
    c.run(c.shape(true, {true, true}), accumulate);
    EXPECT_EQ(c.loss, accumulate ? 3.0F : 0.0F);
    EXPECT_EQ(c.right, 0.0F);
    for (int64_t i = 0; i < c.dx.count(); ++i) EXPECT_EQ(c.dx[i], 0.0F);
    for (int64_t i = 0; i < c.dweight.count(); ++i) EXPECT_EQ(c.dweight[i], accumulate ? before[i] : 0.0F);
  }
}

TEST_P(VocabularyLossTest, CountsRightLabels) {
  VocabularyCase c(DType::kF32, 5, 1, 5000);
  for (int64_t v = 0; v < c.vocabulary; ++v) c.weight.set(v, v == 40 || v == 4500 ? 2.0F : 1.0F);
  c.x = Tensor(DType::kF32, {1.0F, 1.0F, 1.0F, -1.0F, -1.0F});
  // Of the two largest the first; of the smallest the first of all; what is ignored does not count.
  c.labels = {40, 4500, kIgnoredLabel, 0, 1};
  c.run(c.shape(true, {false, false}));
  EXPECT_EQ(c.right, 2.0F);
}

INSTANTIATE_TEST_SUITE_P(Targets, VocabularyLossTest, test_support::every_target(),
                         test_support::target_name);

// Of narrower rows the library cuts sums by threads.
TEST(VocabularyLoss, BitsDoNotDependOnTheThreads) {
  for (const DType dtype : kStorages) {
    for (const bool trains_weight : {true, false}) {
      VocabularyCase one(dtype, 200, 128, 5000);
      one.label_smoothing = 0.125F;
      one.most_workspace_bytes = 2 << 20;
      VocabularyCase many = one;
      with_threads(1, [&] { one.run(one.shape(true, {true, trains_weight})); });
      with_threads(2, [&] { many.run(many.shape(true, {true, trains_weight})); });
      EXPECT_EQ(many.loss, one.loss);
      EXPECT_EQ(many.maximum.bytes(), one.maximum.bytes());
      EXPECT_EQ(many.sum.bytes(), one.sum.bytes());
      EXPECT_EQ(many.dx.bytes(), one.dx.bytes());
      EXPECT_EQ(many.dweight.bytes(), one.dweight.bytes());
    }
  }
}

TEST(VocabularyLoss, RefusesLabelsOutsideOfTheVocabulary) {
  for (const int32_t label : {-1, 70, -99}) {
    VocabularyCase c(DType::kF32, 4, 3, 70);
    c.labels[1] = label;
    EXPECT_THROW(c.run(c.shape(true, {true, true})), UserError);
    EXPECT_EQ(c.loss, -1.0F);
  }
}

// However many entries and tokens there are: a fixed size, and what the products of a chunk ask for.
TEST(VocabularyLoss, TheWorkspaceIsBounded) {
  for (const DType dtype : kStorages) {
    const auto bytes = [&](int64_t tokens, int64_t vocabulary, bool gives_loss, Gradients gradients) {
      const VocabularyLossShape shape{.dtype = dtype,
                                      .tokens = tokens,
                                      .hidden = 896,
                                      .vocabulary = vocabulary,
                                      .gives_loss = gives_loss,
                                      .gives_dx = gradients.of_x,
                                      .gives_dweight = gradients.of_weight};
      return VocabularyLoss(shape).workspace_bytes();
    };
    constexpr int64_t kMost = int64_t{128} << 20;
    for (const int64_t vocabulary : {32'768, 49'152, 151'936, 262'144}) {
      for (const int64_t tokens : {512, 2048, 8192, 1'048'576}) {
        SCOPED_TRACE(fmt::format("{} {} tokens, {} entries", dtype_name(dtype), tokens, vocabulary));
        EXPECT_LE(bytes(tokens, vocabulary, true, {true, true}), kMost);
        EXPECT_LE(bytes(tokens, vocabulary, true, {true, false}), kMost / 2);
        EXPECT_LE(bytes(tokens, vocabulary, true, {false, false}), kMost / 2);
        EXPECT_LE(bytes(tokens, vocabulary, false, {true, true}), kMost / 2);
      }
      EXPECT_EQ(bytes(2048, vocabulary, true, {true, true}), bytes(8192, vocabulary, true, {true, true}));
      EXPECT_EQ(bytes(2048, vocabulary, true, {true, false}), bytes(2048, 32'768, true, {true, false}))
          << "a frozen head's is the same for every vocabulary";
    }
  }
  release_unused_matmuls();
}

}  // namespace
}  // namespace shoehorn::cpu
