#include "exec/cpu/optimizers/adafactor.h"

#include <array>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "exec/cpu/optimizers/optimizer_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::check_golden;
using test_support::GoldenModel;
using test_support::GoldenShape;
using test_support::kGoldenMatrices;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;
using test_support::workspace;

// States: of rows, of columns (or of elements), first moment.
std::vector<AdafactorParameter> parameters_of(GoldenModel& model, const AdafactorSettings& settings) {
  std::vector<AdafactorParameter> list;
  for (size_t t = 0; t < model.shapes.size(); ++t) {
    const auto& shape = model.shapes[t];
    const bool is_matrix = shape.rows > 1;
    std::vector<Tensor>& states = model.states[t];
    list.push_back({.matrices = shape.matrices,
                    .rows = shape.rows,
                    .columns = shape.columns,
                    .weight = model.weight(t),
                    .gradient = model.gradients[t].floats(),
                    .row_moment = is_matrix ? states[0].floats() : nullptr,
                    .column_moment = is_matrix ? states[1].floats() : nullptr,
                    .second_moment = is_matrix ? nullptr : states[0].floats(),
                    .first_moment = settings.beta1 ? states[2].floats() : nullptr,
                    .weight_decay = GoldenModel::decay(t)});
  }
  return list;
}

class AdafactorGolden : public test_support::EveryTarget {};

TEST_P(AdafactorGolden, Adafactor) {
  const auto check = [](const std::string& name, const AdafactorSettings& settings,
                        const std::vector<GoldenShape>& shapes = kGoldenMatrices) {
    check_golden(name, shapes, 16, [&](GoldenModel& model, const UpdateScalars& scalars, uint32_t applied) {
      Tensor scratch = workspace(adafactor_workspace_bytes(6, 70, 131));
      adafactor_update(parameters_of(model, settings), settings, scalars, &applied, scratch.data());
    });
  };
  check("adafactor", {});
  check("adafactor_moment", {.clip_threshold = 0.5, .decay_rate = -0.7, .beta1 = 0.9});
  check("adafactor_scaled", {.gradient_epsilon = 1e-12, .scale_parameter = true});
  check("adafactor_relative", {.scale_parameter = true, .relative_step = true});
  check("adafactor_warmup", {.relative_step = true, .warmup_init = true});
  check("adalomo", {.scale_parameter = true});
  // Parameters [2, 70, 19] and [2, 3, 4, 31]: two and six matrices.
  check("adafactor_dimensions", {.clip_threshold = 0.5, .beta1 = 0.9, .scale_parameter = true},
        {{70, 19, 2}, {1, 17}, {4, 31, 6}});
}

INSTANTIATE_TEST_SUITE_P(Targets, AdafactorGolden, test_support::every_target(), test_support::target_name);

struct FactoredWeight {
  FactoredWeight(int64_t matrix_count, int64_t row_count, int64_t column_count)
      : matrices(matrix_count),
        rows(row_count),
        columns(column_count),
        weight(random_tensor(DType::kF32, matrices * rows * columns, 1)),
        gradient(random_tensor(DType::kF32, matrices * rows * columns, 2)),
        row_moment(random_tensor(DType::kF32, matrices * rows, 3, 5.0F, 0.5F)),
        column_moment(random_tensor(DType::kF32, matrices * columns, 4, 5.0F, 0.5F)) {}
  void update(const UpdateScalars& scalars, const AdafactorSettings& settings = {.scale_parameter = true}) {
    const std::vector<AdafactorParameter> list{{.matrices = matrices,
                                                .rows = rows,
                                                .columns = columns,
                                                .weight = {.value = weight.floats()},
                                                .gradient = gradient.floats(),
                                                .row_moment = row_moment.floats(),
                                                .column_moment = column_moment.floats(),
                                                .second_moment = nullptr,
                                                .first_moment = nullptr,
                                                .weight_decay = 0.1F}};
    const uint32_t applied = 5;
    Tensor scratch = workspace(adafactor_workspace_bytes(matrices, rows, columns));
    adafactor_update(list, settings, scalars, &applied, scratch.data());
  }
  int64_t matrices, rows, columns;
  Tensor weight, gradient, row_moment, column_moment;
};

// The update of One in double precision, from the definition.
std::vector<double> updated_in_double(const FactoredWeight& one, double scale, double learning_rate,
                                      double threshold) {
  const double beta2t = 1.0 - std::pow(6.0, -0.8);
  const int64_t size = one.rows * one.columns;
  std::vector<double> u(static_cast<size_t>(one.matrices * size));
  double squares = 0;
  for (int64_t matrix = 0; matrix < one.matrices; ++matrix) {
    const auto square = [&](int64_t row, int64_t column) {
      const double g = scale * static_cast<double>(one.gradient[matrix * size + row * one.columns + column]);
      return g * g + 1e-30;
    };
    std::vector<double> of_row, of_column;
    for (int64_t row = 0; row < one.rows; ++row) {
      double sum = 0;
      for (int64_t column = 0; column < one.columns; ++column) sum += square(row, column);
      of_row.push_back(beta2t * static_cast<double>(one.row_moment[matrix * one.rows + row]) +
                       (1.0 - beta2t) * sum / static_cast<double>(one.columns));
    }
    for (int64_t column = 0; column < one.columns; ++column) {
      double sum = 0;
      for (int64_t row = 0; row < one.rows; ++row) sum += square(row, column);
      of_column.push_back(beta2t * static_cast<double>(one.column_moment[matrix * one.columns + column]) +
                          (1.0 - beta2t) * sum / static_cast<double>(one.rows));
    }
    const double mean = std::accumulate(of_row.begin(), of_row.end(), 0.0) / static_cast<double>(one.rows);
    for (int64_t i = 0; i < size; ++i) {
      const double moments = of_row[static_cast<size_t>(i / one.columns)] / mean *
                             of_column[static_cast<size_t>(i % one.columns)];
      const double g = scale * static_cast<double>(one.gradient[matrix * size + i]);
      u[static_cast<size_t>(matrix * size + i)] = g / std::sqrt(moments);
      squares += g * g / moments;
    }
  }
  const double clipping = std::max(1.0, std::sqrt(squares / static_cast<double>(u.size())) / threshold);
  std::vector<double> weights;
  for (size_t i = 0; i < u.size(); ++i) {
    const auto w = static_cast<double>(one.weight[static_cast<int64_t>(i)]);
    weights.push_back(w - 0.1 * learning_rate * w - learning_rate / clipping * u[i]);
  }
  return weights;
}

class Adafactor : public test_support::EveryTarget {};

TEST_P(Adafactor, OneUpdateInDouble) {
  const float learning_rate = 0.01F, half = 0.5F;

  for (const auto& [matrices, rows, columns] :
       {std::array<int64_t, 3>{1, 1, 1}, {1, 200, 33}, {3, 65, 16}, {2, 1, 7}, {5, 130, 129}}) {
    // The second threshold clips.
    for (const double threshold : {1.0, 0.01}) {
      FactoredWeight one(matrices, rows, columns);
      const std::vector<double> expected =
          updated_in_double(one, 0.5, static_cast<double>(learning_rate), threshold);
      one.update({.learning_rate = &learning_rate, .gradient_scale = &half}, {.clip_threshold = threshold});
      // Weights below 4 round twice, and updates are a few hundredths with sums of 130 squares behind them.
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(one.weight[static_cast<int64_t>(i)]), expected[i],
                    2 * 4 * 0x1p-24 + 0.1 * 130 * 0x1p-24)
            << matrices << " x " << rows << " x " << columns << " at " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Adafactor, test_support::every_target(), test_support::target_name);

TEST(Adafactor, ThreadsLeaveNoTrace) {
  const float learning_rate = 0.01F;
  FactoredWeight one(2, 700, 129);
  FactoredWeight other = one;
  with_threads(1, [&] { one.update({.learning_rate = &learning_rate}); });
  with_threads(3, [&] { other.update({.learning_rate = &learning_rate}); });
  EXPECT_EQ(other.weight.bytes(), one.weight.bytes());
  EXPECT_EQ(other.row_moment.bytes(), one.row_moment.bytes());
  EXPECT_EQ(other.column_moment.bytes(), one.column_moment.bytes());
}

TEST(Adafactor, ScaledGradientsAreThoseOfTheirSize) {
  const float learning_rate = 0.01F, quarter = 0.25F;
  FactoredWeight scaled(1, 70, 19);
  FactoredWeight small = scaled;
  for (int64_t i = 0; i < 70 * 19; ++i) small.gradient.set(i, 0.25F * small.gradient[i]);
  scaled.update({.learning_rate = &learning_rate, .gradient_scale = &quarter});
  small.update({.learning_rate = &learning_rate});
  EXPECT_EQ(scaled.weight.bytes(), small.weight.bytes());
}

TEST(Adafactor, NanShowsAndSkippingChangesNothing) {
  const float learning_rate = 0.01F;
  const int32_t skip = 1;
  FactoredWeight one(1, 4, 9);
  one.gradient.set(11, NAN);
  const FactoredWeight before = one;
  one.update({.learning_rate = &learning_rate, .skip = &skip});
  EXPECT_EQ(one.weight.bytes(), before.weight.bytes());
  EXPECT_EQ(one.row_moment.bytes(), before.row_moment.bytes());
  one.update({.learning_rate = &learning_rate});
  EXPECT_TRUE(std::isnan(one.weight[0])) << "the clipping takes all of a parameter together";
  FactoredWeight apart(2, 4, 9);
  apart.gradient.set(11, NAN);
  apart.update({.learning_rate = &learning_rate});
  EXPECT_TRUE(std::isnan(apart.weight[40])) << "also of its other matrices";
}

// Processes with parts of one parameter: rows, counted over all matrices; of a vector (no rows) elements.
class PartsOfAParameter {
 public:
  PartsOfAParameter(int64_t matrices, int64_t rows, int64_t columns, const AdafactorSettings& settings)
      : settings_(settings),
        matrices_(matrices),
        rows_(rows),
        columns_(columns),
        weight_(random_tensor(DType::kF32, size(), 1)),
        gradient_(random_tensor(DType::kF32, size(), 2)),
        first_moment_(random_tensor(DType::kF32, size(), 5)),
        row_moment_(random_tensor(DType::kF32, is_vector() ? columns : matrices * rows, 3, 5.0F, 0.5F)),
        column_moment_(random_tensor(DType::kF32, matrices * columns, 4, 5.0F, 0.5F)) {}

  bool is_vector() const { return rows_ == 0; }
  int64_t size() const { return matrices_ * std::max<int64_t>(1, rows_) * columns_; }
  // What is cut: rows, or elements.
  int64_t units() const { return is_vector() ? columns_ : matrices_ * rows_; }

  std::vector<double> sums(int64_t begin, int64_t end) {
    const AdafactorSums layout{is_vector() ? 0 : matrices_, columns_, settings_.scale_parameter};
    std::vector<double> sums(static_cast<size_t>(layout.size()), NAN);
    adafactor_sums(part(begin, end), settings_, scalars(), &applied_, sums.data(),
                   scratch(begin, end).data());
    return sums;
  }
  void update() {
    Tensor all = workspace(adafactor_workspace_bytes(matrices_, std::max<int64_t>(1, rows_), columns_));
    AdafactorParameter whole = part(0, units());
    whole.part.reset();
    adafactor_update({&whole, 1}, settings_, scalars(), &applied_, all.data());
  }
  // Each part by the sums of all, as processes do that have the column moments each.
  void update_in_parts(const std::vector<int64_t>& ends) {
    std::vector<double> total;
    int64_t begin = 0;
    for (const int64_t end : ends) {
      const std::vector<double> of_part = sums(std::exchange(begin, end), end);
      total.resize(of_part.size());
      for (size_t i = 0; i < total.size(); ++i) total[i] += of_part[i];
    }
    const Tensor before = column_moment_;
    begin = 0;
    std::optional<Tensor> after;
    for (const int64_t end : ends) {
      column_moment_ = before;
      Tensor factors = workspace(adafactor_part_workspace_bytes(matrices_, columns_));
      adafactor_update_part(part(begin, end), settings_, scalars(), &applied_, total.data(), factors.data());
      if (after) {
        EXPECT_EQ(column_moment_.bytes(), after->bytes()) << "rows from " << begin;
      }
      after = column_moment_;
      begin = end;
    }
  }
  void expect_near(const PartsOfAParameter& other, double tolerance) const {
    const auto expect = [&](const Tensor& a, const Tensor& b, const char* what) {
      for (int64_t i = 0; i < a.count(); ++i)
        ASSERT_NEAR(static_cast<double>(a[i]), static_cast<double>(b[i]), tolerance) << what << " " << i;
    };
    expect(weight_, other.weight_, "weight");
    expect(first_moment_, other.first_moment_, "first moment");
    expect(column_moment_, other.column_moment_, "column");
    EXPECT_EQ(row_moment_.bytes(), other.row_moment_.bytes()) << "a row's moment is its own";
  }
  const Tensor& weight() const { return weight_; }
  const Tensor& gradient() const { return gradient_; }
  const Tensor& row_moment() const { return row_moment_; }
  uint32_t applied() const { return applied_; }

 private:
  UpdateScalars scalars() const { return {.learning_rate = &learning_rate_, .gradient_scale = &scale_}; }
  Tensor scratch(int64_t begin, int64_t end) const {
    return workspace(is_vector() ? adafactor_sums_workspace_bytes(1, 1, end - begin, 1)
                                 : adafactor_sums_workspace_bytes(matrices_, rows_, columns_, end - begin));
  }
  AdafactorParameter part(int64_t begin, int64_t end) {
    const int64_t first = is_vector() ? begin : begin * columns_;
    float* own = row_moment_.floats() + begin;
    return {.matrices = matrices_,
            .rows = std::max<int64_t>(1, rows_),
            .columns = columns_,
            .weight = {.value = weight_.floats() + first},
            .gradient = gradient_.floats() + first,
            .row_moment = is_vector() ? nullptr : own,
            .column_moment = is_vector() ? nullptr : column_moment_.floats(),
            .second_moment = is_vector() ? own : nullptr,
            .first_moment = settings_.beta1 ? first_moment_.floats() + first : nullptr,
            .weight_decay = 0.1F,
            .part = AdafactorPart{begin, end - begin}};
  }

  AdafactorSettings settings_;
  int64_t matrices_, rows_, columns_;
  uint32_t applied_ = 5;
  float learning_rate_ = 0.01F;
  float scale_ = 0.5F;
  Tensor weight_, gradient_, first_moment_, row_moment_, column_moment_;
};

// Where parts end, of so many rows or elements: nothing, one, within a chunk of 64 rows and at its end, beyond a matrix.
std::vector<int64_t> uneven_ends(int64_t units) {
  std::vector<int64_t> ends;
  for (const int64_t end : {0, 1, 1, 64, 100, 131}) ends.push_back(std::min(int64_t{end}, units));
  ends.insert(ends.end(), {std::max(ends.back(), units - 1), units, units});
  return ends;
}

// The sums of a part are those of its elements in double, from the definition.
TEST_P(Adafactor, SumsOfPartsInDouble) {
  for (const auto& [matrices, rows, columns] :
       {std::array<int64_t, 3>{1, 200, 33}, {3, 65, 16}, {1, 3, 7}, {5, 1, 40}}) {
    PartsOfAParameter one(matrices, rows, columns, {.scale_parameter = true});
    const double beta2t = 1.0 - std::pow(static_cast<double>(one.applied()) + 1.0, -0.8);
    int64_t begin = 0;
    for (const int64_t end : uneven_ends(one.units())) {
      const AdafactorSums layout{matrices, columns, true};
      std::vector<double> expected(static_cast<size_t>(layout.size()));
      for (int64_t row = begin; row < end; ++row) {
        double* of_matrix = expected.data() + row / rows * layout.of_matrix();
        const auto squared = [&](int64_t i) {
          const double g = 0.5 * static_cast<double>(one.gradient()[row * columns + i]);
          return g * g;
        };
        double moment = 0;
        for (int64_t i = 0; i < columns; ++i) moment += squared(i) / static_cast<double>(columns);
        moment = beta2t * static_cast<double>(one.row_moment()[row]) + (1.0 - beta2t) * moment;
        of_matrix[2 * columns] += moment;
        for (int64_t i = 0; i < columns; ++i) {
          of_matrix[i] += squared(i);
          of_matrix[columns + i] += squared(i) / moment;
          const auto w = static_cast<double>(one.weight()[row * columns + i]);
          expected.back() += w * w;
        }
      }
      const std::vector<double> sums = one.sums(begin, end);
      // In float: at most 64 rows, or a row of 40, and the few operations of each term.
      for (size_t i = 0; i < sums.size(); ++i)
        ASSERT_NEAR(sums[i], expected[i], expected[i] * (64 + 12) * 0x1p-24)
            << matrices << " x " << rows << " at " << i;
      begin = end;
    }
  }
}

// Parts by the sums of all are updated as the whole is: only sums over rows are rounded elsewhere.
TEST_P(Adafactor, PartsAreUpdatedAsTheWhole) {
  for (const AdafactorSettings& settings :
       {AdafactorSettings{}, AdafactorSettings{.clip_threshold = 0.01, .beta1 = 0.9},
        AdafactorSettings{.scale_parameter = true, .relative_step = true}}) {
    // The last is a vector.
    for (const auto& [matrices, rows, columns] :
         {std::array<int64_t, 3>{1, 200, 33}, {3, 65, 16}, {1, 3, 7}, {5, 1, 40}, {1, 0, 150}}) {
      PartsOfAParameter whole(matrices, rows, columns, settings);
      PartsOfAParameter parts = whole;
      whole.update();
      parts.update_in_parts(uneven_ends(parts.units()));
      // Numbers below 8 that a relative 64 roundings of the sums change by less than an update of a few hundredths.
      parts.expect_near(whole, 8 * 0x1p-24 + 0.1 * (64 + 12) * 0x1p-24);
    }
  }
}

// Chunks begin at the same rows wherever a matrix is cut: at their ends nothing is rounded elsewhere but in double.
TEST_P(Adafactor, PartsOfWholeChunksHaveTheBitsOfTheWhole) {
  PartsOfAParameter whole(1, 200, 33, {.scale_parameter = true});
  PartsOfAParameter parts = whole;
  whole.update();
  parts.update_in_parts({64, 192, 200});
  parts.expect_near(whole, 0);
}

TEST(Adafactor, MomentsAreOfAMatrixOrOfAVector) {
  const float learning_rate = 0.01F;
  const uint32_t applied = 0;
  Tensor weight(DType::kF32, 6), scratch = workspace(adafactor_workspace_bytes(1, 2, 3));
  const std::vector<AdafactorParameter> list{{.rows = 2,
                                              .columns = 3,
                                              .weight = {.value = weight.floats()},
                                              .gradient = weight.floats(),
                                              .row_moment = nullptr,
                                              .column_moment = nullptr,
                                              .second_moment = weight.floats(),
                                              .first_moment = nullptr,
                                              .weight_decay = 0}};
  EXPECT_THROW(adafactor_update(list, {}, {.learning_rate = &learning_rate}, &applied, scratch.data()),
               InternalError);
}

}  // namespace
}  // namespace shoehorn::cpu
