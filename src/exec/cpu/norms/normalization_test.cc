#include "exec/cpu/norms/normalization.h"

#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;
using test_support::workspace;

constexpr float kEpsilon = 1e-5F;

// Masks by the scalar definition: 0 or the scale, [R, H].
std::vector<double> multipliers(const Dropout& dropout, int64_t rows, int64_t hidden) {
  std::vector<double> result(static_cast<size_t>(rows * hidden), 1.0);
  if (!drops(dropout)) return result;
  const PhiloxKey key = philox_key(dropout.seed, *dropout.step, dropout.stream_id);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t f = 0; f < hidden; ++f) {
      const auto block =
          philox4x32_10(key, {static_cast<uint32_t>(f / 8), static_cast<uint32_t>(dropout.position[r]),
                              static_cast<uint32_t>(dropout.sample[r]), 0});
      const uint32_t word = block[static_cast<size_t>(f % 8 / 2)];
      const uint32_t bits = f % 2 == 0 ? word & 0xffffU : word >> 16;
      const bool dropped = bits < drop_threshold(dropout.p);
      result[static_cast<size_t>(r * hidden + f)] =
          dropped ? 0.0 : static_cast<double>(keep_scale(dropout.p));
    }
  }
  return result;
}

// Inputs and outputs of one case of the fused kernels.
struct NormalizationCase {
  NormalizationCase(DType storage, int64_t row_count, int64_t columns, float drop_probability, bool has_bias,
                    bool has_addend)
      : dtype(storage), rows(row_count), hidden(columns), with_bias(has_bias), with_addend(has_addend) {
    for (int64_t r = 0; r < rows; ++r) {
      sample.push_back(static_cast<int32_t>(r / 7));
      position.push_back(static_cast<int32_t>(r % 7));
    }
    dropout = {.p = drop_probability,
               .seed = 42,
               .stream_id = 3,
               .step = &step,
               .sample = sample.data(),
               .position = position.data()};
    x = random_tensor(dtype, rows * hidden, 1);
    residual = random_tensor(dtype, rows * hidden, 2, 0.5F);
    dy = random_tensor(dtype, rows * hidden, 3);
    addend = random_tensor(dtype, rows * hidden, 4);
    bias = random_tensor(DType::kF32, hidden, 5);
    gamma = random_tensor(DType::kF32, hidden, 6, 1.0F, 0.3F);
    beta = random_tensor(DType::kF32, hidden, 7);
    z = y = dz = dx = Tensor(dtype, rows * hidden);
    mean = rstd = Tensor(DType::kF32, rows);
    dbias = dgamma = dbeta = Tensor(DType::kF32, hidden);
  }

  void forward() {
    bias_dropout_residual_layer_norm_forward({.dtype = dtype,
                                              .rows = rows,
                                              .hidden = hidden,
                                              .epsilon = kEpsilon,
                                              .dropout = dropout,
                                              .x = x.data(),
                                              .bias = with_bias ? bias.floats() : nullptr,
                                              .residual = residual.data(),
                                              .gamma = gamma.floats(),
                                              .beta = beta.floats(),
                                              .z = z.data(),
                                              .y = y.data(),
                                              .mean = mean.floats(),
                                              .rstd = rstd.floats()});
  }

  void backward(NormAccumulation accumulate = {}) {
    Tensor scratch = workspace(bias_dropout_residual_layer_norm_backward_workspace_bytes(rows, hidden));
    bias_dropout_residual_layer_norm_backward({.dtype = dtype,
                                               .rows = rows,
                                               .hidden = hidden,
                                               .dropout = dropout,
                                               .dy = dy.data(),
                                               .dz_addend = with_addend ? addend.data() : nullptr,
                                               .z = z.data(),
                                               .mean = mean.floats(),
                                               .rstd = rstd.floats(),
                                               .gamma = gamma.floats(),
                                               .dresidual = dz.data(),
                                               .dx = dx.data(),
                                               .dbias = with_bias ? dbias.floats() : nullptr,
                                               .dgamma = dgamma.floats(),
                                               .dbeta = dbeta.floats(),
                                               .accumulate = accumulate,
                                               .workspace = scratch.data()});
  }

  DType dtype;
  int64_t rows;
  int64_t hidden;
  bool with_bias;
  bool with_addend;
  uint32_t step = 9;
  std::vector<int32_t> sample, position;
  Dropout dropout;
  Tensor x{DType::kF32, 0}, residual = x, dy = x, addend = x, bias = x, gamma = x, beta = x;
  Tensor z = x, y = x, mean = x, rstd = x, dz = x, dx = x, dbias = x, dgamma = x, dbeta = x;
};

struct Statistics {
  double mean;
  double rstd;
};

Statistics statistics(const std::vector<double>& row) {
  double sum = 0;
  for (const double v : row) sum += v;
  const double mean = sum / static_cast<double>(row.size());
  double squares = 0;
  for (const double v : row) squares += (v - mean) * (v - mean);
  return {mean, 1.0 / std::sqrt(squares / static_cast<double>(row.size()) + static_cast<double>(kEpsilon))};
}

std::vector<double> row_of(const Tensor& tensor, int64_t row, int64_t hidden) {
  std::vector<double> result;
  for (int64_t i = 0; i < hidden; ++i) result.push_back(static_cast<double>(tensor[row * hidden + i]));
  return result;
}

void check_forward(const NormalizationCase& c) {
  const std::vector<double> mask = multipliers(c.dropout, c.rows, c.hidden);
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t i = 0; i < c.hidden; ++i) {
      const int64_t at = r * c.hidden + i;
      const double input =
          static_cast<double>(c.x[at]) + (c.with_bias ? static_cast<double>(c.bias[i]) : 0.0);
      const double expected = static_cast<double>(c.residual[at]) + mask[static_cast<size_t>(at)] * input;
      ASSERT_NEAR(static_cast<double>(c.z[at]), expected, tolerance(c.dtype, expected, 10.0, 4))
          << r << " " << i;
    }
    const std::vector<double> z = row_of(c.z, r, c.hidden);
    const Statistics s = statistics(z);
    const double roundings = 8.0 + std::sqrt(static_cast<double>(c.hidden));
    ASSERT_NEAR(static_cast<double>(c.mean[r]), s.mean, tolerance(DType::kF32, s.mean, 3.0, roundings));
    ASSERT_NEAR(static_cast<double>(c.rstd[r]), s.rstd, tolerance(DType::kF32, s.rstd, s.rstd, roundings));
    for (int64_t i = 0; i < c.hidden; ++i) {
      const double normal = (z[static_cast<size_t>(i)] - s.mean) * s.rstd;
      const double expected = normal * static_cast<double>(c.gamma[i]) + static_cast<double>(c.beta[i]);
      // Where a row varies little, rstd magnifies the rounding of the mean.
      const double magnitude = (3.0 + 3.0 * s.rstd) * 2.0;
      ASSERT_NEAR(static_cast<double>(c.y[r * c.hidden + i]), expected,
                  tolerance(c.dtype, expected, magnitude, roundings));
    }
  }
}

// What the gradients of the parameters held before.
struct Start {
  double dbias = 0;
  double dgamma = 0;
  double dbeta = 0;
};

// The analytic gradient in double, from the z that forward stored.
void check_backward(const NormalizationCase& c, const Start& start) {
  const size_t columns = static_cast<size_t>(c.hidden);
  const std::vector<double> mask = multipliers(c.dropout, c.rows, c.hidden);
  // The sums of the parameters' gradients, and how far from them rounding may lead.
  struct Sum {
    double value;
    double of_terms = 0;   // what the terms may be off
    double magnitude = 0;  // of the terms, without their signs
    void add(double term, double term_tolerance) {
      value += term;
      of_terms += term_tolerance;
      magnitude += std::abs(term);
    }
    // Each addition rounds once, the first one to what is there included.
    double allowed(int64_t terms) const {
      return of_terms + tolerance(DType::kF32, 0.0, magnitude + 2.0, static_cast<double>(terms + 1));
    }
  };
  std::vector<Sum> dbias(columns, {start.dbias}), dgamma(columns, {start.dgamma}),
      dbeta(columns, {start.dbeta});
  const double roundings = 16.0 + 2.0 * std::sqrt(static_cast<double>(c.hidden));
  for (int64_t r = 0; r < c.rows; ++r) {
    const std::vector<double> z = row_of(c.z, r, c.hidden);
    const std::vector<double> dy = row_of(c.dy, r, c.hidden);
    const Statistics s = statistics(z);
    double sum = 0, product_sum = 0;
    for (size_t i = 0; i < columns; ++i) {
      const double g = dy[i] * static_cast<double>(c.gamma[static_cast<int64_t>(i)]);
      sum += g;
      product_sum += g * (z[i] - s.mean) * s.rstd;
    }
    for (size_t i = 0; i < columns; ++i) {
      const int64_t at = r * c.hidden + static_cast<int64_t>(i);
      const double normal = (z[i] - s.mean) * s.rstd;
      const double g = dy[i] * static_cast<double>(c.gamma[static_cast<int64_t>(i)]);
      double dz = s.rstd * (g - sum / static_cast<double>(columns) -
                            normal * product_sum / static_cast<double>(columns));
      if (c.with_addend) dz += static_cast<double>(c.addend[at]);
      const double dx = dz * mask[static_cast<size_t>(at)];
      // Where a row varies little, rstd magnifies the rounding of the mean: once in `normal`, again in dz.
      const double magnitude = 4.0 * s.rstd * (1.0 + s.rstd) + 4.0;
      ASSERT_NEAR(static_cast<double>(c.dz[at]), dz, tolerance(c.dtype, dz, magnitude, roundings))
          << r << " " << i;
      ASSERT_NEAR(static_cast<double>(c.dx[at]), dx, tolerance(c.dtype, dx, 2.0 * magnitude, roundings));
      // Sums take what a row gives before it is rounded to its storage.
      dbias[i].add(dx, tolerance(DType::kF32, 0.0, 2.0 * magnitude, roundings));
      dgamma[i].add(dy[i] * normal,
                    tolerance(DType::kF32, 0.0, std::abs(dy[i]) * 4.0 * (1.0 + s.rstd), roundings));
      dbeta[i].add(dy[i], 0.0);
    }
  }
  for (int64_t i = 0; i < c.hidden; ++i) {
    const auto expect_sum = [&](const Tensor& found, const Sum& sum) {
      ASSERT_NEAR(static_cast<double>(found[i]), sum.value, sum.allowed(c.rows)) << i;
    };
    const size_t k = static_cast<size_t>(i);
    if (c.with_bias) expect_sum(c.dbias, dbias[k]);
    expect_sum(c.dgamma, dgamma[k]);
    expect_sum(c.dbeta, dbeta[k]);
  }
}

class Normalization : public test_support::EveryTarget {};

TEST_P(Normalization, FusedForwardAndBackward) {
  for (const DType dtype : kStorages) {
    for (const int64_t hidden : {1, 2, 7, 16, 31, 48, 257, 2113}) {
      for (const int64_t rows : {0, 1, 3, 65, 130}) {
        if (rows * hidden > 70000) continue;
        SCOPED_TRACE(fmt::format("{} R {} H {}", dtype_name(dtype), rows, hidden));
        NormalizationCase c(dtype, rows, hidden, hidden % 2 == 0 ? 0.0F : 0.1F, hidden != 31, rows % 2 == 1);
        c.forward();
        check_forward(c);
        c.backward();
        check_backward(c, {});
        // Each gradient is added to what is there, or written over it, whatever the others are.
        for (const int wanted : {7, 1, 2, 4}) {
          for (Tensor* t : {&c.dbias, &c.dgamma, &c.dbeta}) {
            for (int64_t i = 0; i < hidden; ++i) t->set(i, 2.0F);
          }
          const NormAccumulation sums{
              .dgamma = (wanted & 1) != 0, .dbeta = (wanted & 2) != 0, .dbias = (wanted & 4) != 0};
          c.backward(sums);
          check_backward(c, {.dbias = sums.dbias ? 2.0 : 0.0,
                             .dgamma = sums.dgamma ? 2.0 : 0.0,
                             .dbeta = sums.dbeta ? 2.0 : 0.0});
        }
      }
    }
  }
}

// The loss sum(dy * y), as a function of x and residual, by central differences in double.
double loss(const NormalizationCase& c, int64_t perturbed, bool in_x, double by) {
  const std::vector<double> mask = multipliers(c.dropout, c.rows, c.hidden);
  double total = 0;
  for (int64_t r = 0; r < c.rows; ++r) {
    std::vector<double> z;
    for (int64_t i = 0; i < c.hidden; ++i) {
      const int64_t at = r * c.hidden + i;
      const double shift = at == perturbed ? by : 0.0;
      const double x = static_cast<double>(c.x[at]) + static_cast<double>(c.bias[i]) + (in_x ? shift : 0.0);
      z.push_back(static_cast<double>(c.residual[at]) + (in_x ? 0.0 : shift) +
                  mask[static_cast<size_t>(at)] * x);
    }
    const Statistics s = statistics(z);
    for (int64_t i = 0; i < c.hidden; ++i) {
      const double y = (z[static_cast<size_t>(i)] - s.mean) * s.rstd * static_cast<double>(c.gamma[i]);
      total += static_cast<double>(c.dy[r * c.hidden + i]) * y;
    }
  }
  return total;
}

TEST(Normalization, GradientIsTheDifferenceQuotient) {
  NormalizationCase c(DType::kF32, 5, 13, 0.25F, true, false);
  c.forward();
  c.backward();
  for (int64_t at = 0; at < c.rows * c.hidden; ++at) {
    constexpr double kStep = 1e-5;
    const double dx = (loss(c, at, true, kStep) - loss(c, at, true, -kStep)) / (2 * kStep);
    const double dz = (loss(c, at, false, kStep) - loss(c, at, false, -kStep)) / (2 * kStep);
    // As in check_backward, with rows whose rstd is about 1; what the quotient is off is far below.
    const double allowed = tolerance(DType::kF32, 0.0, 12.0, 16.0 + 2.0 * std::sqrt(13.0));
    EXPECT_NEAR(static_cast<double>(c.dx[at]), dx, 2.0 * allowed);
    EXPECT_NEAR(static_cast<double>(c.dz[at]), dz, allowed);
  }
}

TEST_P(Normalization, PlainIsFusedWithNothingBefore) {
  for (const DType dtype : kStorages) {
    NormalizationCase c(dtype, 67, 45, 0.0F, false, false);
    c.x = Tensor(dtype, 67 * 45);  // z = residual
    c.forward();
    c.backward();
    NormalizationCase p = c;
    layer_norm_forward({.dtype = dtype,
                        .rows = 67,
                        .hidden = 45,
                        .epsilon = kEpsilon,
                        .x = p.residual.data(),
                        .gamma = p.gamma.floats(),
                        .beta = p.beta.floats(),
                        .y = p.y.data(),
                        .mean = p.mean.floats(),
                        .rstd = p.rstd.floats()});
    Tensor scratch = workspace(layer_norm_backward_workspace_bytes(67, 45));
    layer_norm_backward({.dtype = dtype,
                         .rows = 67,
                         .hidden = 45,
                         .dy = p.dy.data(),
                         .x = p.residual.data(),
                         .mean = p.mean.floats(),
                         .rstd = p.rstd.floats(),
                         .gamma = p.gamma.floats(),
                         .dx = p.dy.data(),
                         .dgamma = p.dgamma.floats(),
                         .dbeta = p.dbeta.floats(),
                         .accumulate = {},
                         .workspace = scratch.data()});
    EXPECT_EQ(p.y.bytes(), c.y.bytes());
    EXPECT_EQ(p.mean.bytes(), c.mean.bytes());
    EXPECT_EQ(p.dy.bytes(), c.dz.bytes()) << "dx written over dy";
    EXPECT_EQ(p.dgamma.bytes(), c.dgamma.bytes());
    EXPECT_EQ(p.dbeta.bytes(), c.dbeta.bytes());
  }
}

TEST_P(Normalization, OutputIsMadeAgainBitForBit) {
  for (const DType dtype : kStorages) {
    for (const int64_t hidden : {1, 7, 48, 257}) {
      NormalizationCase c(dtype, 70, hidden, 0.1F, true, false);
      c.forward();
      Tensor z = c.z;
      const auto expect_again = [&](void* y, const Tensor& result) {
        layer_norm_output({.dtype = dtype,
                           .rows = c.rows,
                           .hidden = hidden,
                           .z = z.data(),
                           .mean = c.mean.floats(),
                           .rstd = c.rstd.floats(),
                           .gamma = c.gamma.floats(),
                           .beta = c.beta.floats(),
                           .y = y});
        EXPECT_EQ(result.bytes(), c.y.bytes()) << dtype_name(dtype) << " H " << hidden;
      };
      Tensor y(dtype, c.rows * hidden);
      expect_again(y.data(), y);
      expect_again(z.data(), z);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Normalization, test_support::every_target(), test_support::target_name);

TEST(Normalization, ThreadsLeaveNoTrace) {
  for (const DType dtype : kStorages) {
    NormalizationCase one(dtype, 333, 129, 0.1F, true, true);
    with_threads(1, [&] {
      one.forward();
      one.backward();
    });
    for (const int threads : {2, 3}) {
      NormalizationCase many(dtype, 333, 129, 0.1F, true, true);
      with_threads(threads, [&] {
        many.forward();
        many.backward();
      });
      EXPECT_EQ(many.y.bytes(), one.y.bytes());
      EXPECT_EQ(many.dx.bytes(), one.dx.bytes());
      EXPECT_EQ(many.dbias.bytes(), one.dbias.bytes());
      EXPECT_EQ(many.dgamma.bytes(), one.dgamma.bytes());
      EXPECT_EQ(many.dbeta.bytes(), one.dbeta.bytes());
    }
  }
}

TEST(Normalization, NanShows) {
  NormalizationCase c(DType::kF32, 2, 33, 0.0F, true, false);
  c.x.set(40, NAN);
  c.forward();
  EXPECT_FALSE(std::isnan(c.y[0]));
  for (int64_t i = 33; i < 66; ++i) EXPECT_TRUE(std::isnan(c.y[i]));
}

TEST(Normalization, RefusesOtherStorage) {
  EXPECT_THROW(layer_norm_forward({.dtype = DType::kF64,
                                   .rows = 0,
                                   .hidden = 1,
                                   .epsilon = kEpsilon,
                                   .x = nullptr,
                                   .gamma = nullptr,
                                   .beta = nullptr,
                                   .y = nullptr,
                                   .mean = nullptr,
                                   .rstd = nullptr}),
               InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
