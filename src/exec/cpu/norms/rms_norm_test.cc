#include "exec/cpu/norms/rms_norm.h"

#include "exec/cpu/elementwise/elementwise.h"
#include "exec/cpu/kernel_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::kStorages;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::tolerance;
using test_support::with_threads;
using test_support::workspace;

constexpr float kRmsEpsilon = 1e-5F;

struct RmsNormCase {
  RmsNormCase(DType storage, int64_t row_count, int64_t columns)
      : dtype(storage),
        rows(row_count),
        hidden(columns),
        x(random_tensor(dtype, rows * hidden, 1)),
        dy(random_tensor(dtype, rows * hidden, 2)),
        gamma(random_tensor(DType::kF32, hidden, 3, 1.0F, 0.3F)),
        y(dtype, rows * hidden),
        dx(dtype, rows * hidden),
        rstd(DType::kF32, rows),
        dgamma(DType::kF32, hidden) {}

  void forward() {
    rms_norm_forward({.dtype = dtype,
                      .rows = rows,
                      .hidden = hidden,
                      .epsilon = kRmsEpsilon,
                      .x = x.data(),
                      .gamma = gamma.floats(),
                      .y = y.data(),
                      .rstd = rstd.floats()});
  }
  void backward(bool accumulate, Tensor& gradient_of_x, const Tensor* addend = nullptr) {
    Tensor scratch = workspace(rms_norm_backward_workspace_bytes(rows, hidden));
    rms_norm_backward({.dtype = dtype,
                       .rows = rows,
                       .hidden = hidden,
                       .dy = dy.data(),
                       .dx_addend = addend == nullptr ? nullptr : addend->data(),
                       .x = x.data(),
                       .rstd = rstd.floats(),
                       .gamma = gamma.floats(),
                       .dx = gradient_of_x.data(),
                       .dgamma = dgamma.floats(),
                       .accumulate = accumulate,
                       .workspace = scratch.data()});
  }

  DType dtype;
  int64_t rows;
  int64_t hidden;
  Tensor x, dy, gamma, y, dx, rstd, dgamma;
};

// A sum of H products, a square root, a quotient and two products.
double roundings(int64_t hidden) {
  return 8.0 + std::sqrt(static_cast<double>(hidden));
}

double exact_rstd(const RmsNormCase& c, int64_t row) {
  double squares = 0;
  for (int64_t i = 0; i < c.hidden; ++i) {
    const double value = c.x[row * c.hidden + i];
    squares += value * value;
  }
  return 1.0 / std::sqrt(squares / static_cast<double>(c.hidden) + static_cast<double>(kRmsEpsilon));
}

void check_rms_forward(const RmsNormCase& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const double rstd = exact_rstd(c, r);
    ASSERT_NEAR(c.rstd[r], rstd, tolerance(DType::kF32, rstd, rstd, roundings(c.hidden)));
    for (int64_t i = 0; i < c.hidden; ++i) {
      const double expected = static_cast<double>(c.x[r * c.hidden + i]) * rstd * c.gamma[i];
      ASSERT_NEAR(c.y[r * c.hidden + i], expected,
                  tolerance(c.dtype, expected, std::abs(expected), roundings(c.hidden)));
    }
  }
}

// The analytic gradient in double. `start`: what dgamma held before. `addend`: another gradient of x, or null.
void check_rms_backward(const RmsNormCase& c, const Tensor& dx, double start,
                        const Tensor* addend = nullptr) {
  std::vector<double> dgamma(static_cast<size_t>(c.hidden), start);
  std::vector<double> allowed(static_cast<size_t>(c.hidden));
  for (int64_t r = 0; r < c.rows; ++r) {
    const double rstd = exact_rstd(c, r);
    double product = 0;
    double magnitude = 0;
    for (int64_t i = 0; i < c.hidden; ++i) {
      const double term =
          static_cast<double>(c.dy[r * c.hidden + i]) * c.gamma[i] * c.x[r * c.hidden + i] * rstd;
      product += term / static_cast<double>(c.hidden);
      magnitude += std::abs(term) / static_cast<double>(c.hidden);
    }
    for (int64_t i = 0; i < c.hidden; ++i) {
      const int64_t at = r * c.hidden + i;
      const double normal = static_cast<double>(c.x[at]) * rstd;
      const double scaled = static_cast<double>(c.dy[at]) * c.gamma[i];
      const double other = addend == nullptr ? 0 : (*addend)[at];
      const double expected = rstd * (scaled - normal * product) + other;
      // The terms are rounded before they may cancel.
      const double terms = rstd * (std::abs(scaled) + std::abs(normal) * magnitude) + std::abs(other);
      ASSERT_NEAR(dx[at], expected, tolerance(c.dtype, expected, terms, 2 * roundings(c.hidden)))
          << r << " " << i;
      const double gradient = static_cast<double>(c.dy[at]) * normal;
      dgamma[static_cast<size_t>(i)] += gradient;
      allowed[static_cast<size_t>(i)] +=
          tolerance(DType::kF32, 0.0, std::abs(gradient), roundings(c.hidden) + static_cast<double>(c.rows));
    }
  }
  for (int64_t i = 0; i < c.hidden; ++i) {
    const auto k = static_cast<size_t>(i);
    ASSERT_NEAR(c.dgamma[i], dgamma[k],
                allowed[k] + tolerance(DType::kF32, 0.0, std::abs(start), static_cast<double>(c.rows + 1)))
        << i;
  }
}

class RmsNorm : public test_support::EveryTarget {};

TEST_P(RmsNorm, ForwardAndBackward) {
  for (const DType dtype : kStorages) {
    for (const int64_t hidden : {1, 2, 7, 16, 31, 257, 2113}) {
      for (const int64_t rows : {0, 1, 3, 65, 130}) {
        if (rows * hidden > 70000) continue;
        SCOPED_TRACE(fmt::format("{} R {} H {}", dtype_name(dtype), rows, hidden));
        RmsNormCase c(dtype, rows, hidden);
        c.forward();
        check_rms_forward(c);
        c.backward(false, c.dx);
        check_rms_backward(c, c.dx, 0);
        for (int64_t i = 0; i < hidden; ++i) c.dgamma.set(i, 2.0F);
        c.backward(true, c.dx);
        check_rms_backward(c, c.dx, 2);
        const Tensor addend = random_tensor(dtype, rows * hidden, 4);
        c.backward(false, c.dx, &addend);
        check_rms_backward(c, c.dx, 0, &addend);
      }
    }
  }
}

// What is turned behind the norm is the norm turned, rounded once; in place too.
TEST_P(RmsNorm, TurnedHeads) {
  for (const DType dtype : kStorages) {
    for (const int64_t pairs : {1, 4, 9, 64}) {
      constexpr int64_t kTokens = 45, kGroups = 3;
      const int64_t hidden = 2 * pairs;
      RmsNormCase plain(dtype, kTokens * kGroups, hidden);
      Tensor table = random_tensor(DType::kF32, kTokens * hidden, 7);
      plain.forward();
      Tensor turned(dtype, plain.x.count()), rstd(DType::kF32, plain.rows);
      const auto forward = [&](const Tensor& x, Tensor& y) {
        rms_norm_forward({.dtype = dtype,
                          .rows = plain.rows,
                          .hidden = hidden,
                          .epsilon = kRmsEpsilon,
                          .x = x.data(),
                          .gamma = plain.gamma.floats(),
                          .y = y.data(),
                          .rstd = rstd.floats(),
                          .table = table.floats(),
                          .groups = kGroups});
      };
      forward(plain.x, turned);
      EXPECT_EQ(rstd.bytes(), plain.rstd.bytes());
      // Gradients of what was turned are those of the norm, turned back.
      RmsNormCase back = plain;
      for (int64_t row = 0; row < plain.rows; ++row) {
        const double exact = exact_rstd(plain, row);
        for (int64_t i = 0; i < pairs; ++i) {
          const int64_t at = row * hidden + i, of_table = row / kGroups * hidden + i;
          const double cosine = table[of_table], sine = table[of_table + pairs];
          const double first = plain.x[at] * exact * plain.gamma[i];
          const double second = plain.x[at + pairs] * exact * plain.gamma[i + pairs];
          const double size = (std::abs(first) + std::abs(second)) * (std::abs(cosine) + std::abs(sine));
          for (const auto& [place, expected] :
               {std::pair{at, first * cosine - second * sine}, {at + pairs, second * cosine + first * sine}})
            ASSERT_NEAR(turned[place], expected, tolerance(dtype, expected, size, roundings(hidden) + 3));
          back.dy.set(at, static_cast<float>(plain.dy[at] * cosine + plain.dy[at + pairs] * sine));
          back.dy.set(at + pairs, static_cast<float>(plain.dy[at + pairs] * cosine - plain.dy[at] * sine));
        }
      }
      Tensor scratch = workspace(rms_norm_backward_workspace_bytes(plain.rows, hidden));
      Tensor dx = plain.dy;  // over dy
      rms_norm_backward({.dtype = dtype,
                         .rows = plain.rows,
                         .hidden = hidden,
                         .dy = dx.data(),
                         .dx_addend = nullptr,
                         .x = plain.x.data(),
                         .rstd = rstd.floats(),
                         .gamma = plain.gamma.floats(),
                         .dx = dx.data(),
                         .dgamma = plain.dgamma.floats(),
                         .accumulate = false,
                         .workspace = scratch.data(),
                         .table = table.floats(),
                         .groups = kGroups});
      if (dtype == DType::kF32) {
        back.dgamma = plain.dgamma;
        check_rms_backward(back, dx, 0);
      }
      Tensor in_place = plain.x;
      forward(in_place, in_place);
      EXPECT_EQ(in_place.bytes(), turned.bytes()) << "y over x";
    }
  }
}

// The sum as add gives it, and of it the norm that rms_norm gives, bit for bit; wherever z lies.
TEST_P(RmsNorm, OfAResidualSumIsThatOfTheStoredSum) {
  for (const DType dtype : kStorages) {
    for (const int64_t hidden : {1, 7, 31, 257}) {
      constexpr int64_t kRows = 67;
      RmsNormCase c(dtype, kRows, hidden);
      const Tensor x = random_tensor(dtype, kRows * hidden, 5);
      const Tensor residual = random_tensor(dtype, kRows * hidden, 6);
      add({.dtype = dtype, .count = x.count(), .a = x.data(), .b = residual.data(), .sum = c.x.data()});
      c.forward();
      for (const int where : {0, 1, 2}) {
        Tensor inputs[] = {x, residual, Tensor(dtype, x.count())};
        Tensor& z = inputs[where];
        Tensor y(dtype, x.count()), rstd(DType::kF32, kRows);
        residual_rms_norm_forward({.dtype = dtype,
                                   .rows = kRows,
                                   .hidden = hidden,
                                   .epsilon = kRmsEpsilon,
                                   .x = inputs[0].data(),
                                   .residual = inputs[1].data(),
                                   .gamma = c.gamma.floats(),
                                   .z = z.data(),
                                   .y = y.data(),
                                   .rstd = rstd.floats()});
        EXPECT_EQ(z.bytes(), c.x.bytes()) << where;
        EXPECT_EQ(y.bytes(), c.y.bytes()) << where;
        EXPECT_EQ(rstd.bytes(), c.rstd.bytes()) << where;
      }
    }
  }
}

TEST_P(RmsNorm, InPlaceAndInAnyNumberOfThreads) {
  for (const DType dtype : kStorages) {
    RmsNormCase c(dtype, 130, 45);
    c.forward();
    c.backward(false, c.dx);
    RmsNormCase other(dtype, 130, 45);
    with_threads(3, [&] {
      other.forward();
      other.backward(false, other.dy);
    });
    EXPECT_EQ(other.dy.bytes(), c.dx.bytes()) << "dx over dy";
    EXPECT_EQ(other.dgamma.bytes(), c.dgamma.bytes());
    RmsNormCase over_x(dtype, 130, 45);
    over_x.rstd = c.rstd;
    over_x.backward(false, over_x.x);
    EXPECT_EQ(over_x.x.bytes(), c.dx.bytes()) << "dx over x";
    Tensor addend = random_tensor(dtype, 130 * 45, 4);
    c.backward(false, c.dx, &addend);
    c.backward(false, addend, &addend);
    EXPECT_EQ(addend.bytes(), c.dx.bytes()) << "dx over its addend";
    RmsNormCase in_place(dtype, 130, 45);
    rms_norm_forward({.dtype = dtype,
                      .rows = 130,
                      .hidden = 45,
                      .epsilon = kRmsEpsilon,
                      .x = in_place.x.data(),
                      .gamma = in_place.gamma.floats(),
                      .y = in_place.x.data(),
                      .rstd = in_place.rstd.floats()});
    EXPECT_EQ(in_place.x.bytes(), c.y.bytes()) << "y over x";
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RmsNorm, test_support::every_target(), test_support::target_name);

}  // namespace
}  // namespace shoehorn::cpu
