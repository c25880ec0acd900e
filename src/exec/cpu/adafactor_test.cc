#include "exec/cpu/adafactor.h"

#include "base/error.h"
#include "exec/cpu/optimizer_testing.h"

namespace shoehorn::cpu {
namespace {

using testing::check_golden;
using testing::GoldenModel;
using testing::kGoldenMatrices;
using testing::on_every_target;
using testing::random_tensor;
using testing::Tensor;
using testing::with_threads;
using testing::workspace;

// States: of rows, of columns (or of elements), first moment.
std::vector<AdafactorParameter> parameters_of(GoldenModel& model, const AdafactorSettings& settings) {
  std::vector<AdafactorParameter> list;
  for (size_t t = 0; t < model.shapes.size(); ++t) {
    const auto& shape = model.shapes[t];
    const bool is_matrix = shape.rows > 1;
    std::vector<Tensor>& states = model.states[t];
    list.push_back({.rows = shape.rows,
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

TEST(OptimizerGolden, Adafactor) {
  on_every_target([] {
    const auto check = [](const std::string& name, const AdafactorSettings& settings) {
      check_golden(
          name, kGoldenMatrices, 16, [&](GoldenModel& model, const UpdateScalars& scalars, uint32_t applied) {
            Tensor scratch = workspace(adafactor_workspace_bytes(70, 131));
            adafactor_update(parameters_of(model, settings), settings, scalars, &applied, scratch.data());
          });
    };
    check("adafactor", {});
    check("adafactor_moment", {.clip_threshold = 0.5, .decay_rate = -0.7, .beta1 = 0.9});
    check("adafactor_scaled", {.gradient_epsilon = 1e-12, .scale_parameter = true});
    check("adafactor_relative", {.scale_parameter = true, .relative_step = true});
    check("adafactor_warmup", {.relative_step = true, .warmup_init = true});
    check("adalomo", {.scale_parameter = true});
  });
}

struct One {
  One(int64_t row_count, int64_t column_count)
      : rows(row_count),
        columns(column_count),
        weight(random_tensor(DType::kF32, rows * columns, 1)),
        gradient(random_tensor(DType::kF32, rows * columns, 2)),
        row_moment(random_tensor(DType::kF32, rows, 3, 1.0F, 2.0F)),
        column_moment(random_tensor(DType::kF32, columns, 4, 1.0F, 2.0F)) {}
  void update(const UpdateScalars& scalars) {
    const std::vector<AdafactorParameter> list{{.rows = rows,
                                                .columns = columns,
                                                .weight = {.value = weight.floats()},
                                                .gradient = gradient.floats(),
                                                .row_moment = row_moment.floats(),
                                                .column_moment = column_moment.floats(),
                                                .second_moment = nullptr,
                                                .first_moment = nullptr,
                                                .weight_decay = 0.1F}};
    const uint32_t applied = 5;
    Tensor scratch = workspace(adafactor_workspace_bytes(rows, columns));
    adafactor_update(list, {.scale_parameter = true}, scalars, &applied, scratch.data());
  }
  int64_t rows, columns;
  Tensor weight, gradient, row_moment, column_moment;
};

TEST(Adafactor, ThreadsLeaveNoTrace) {
  const float learning_rate = 0.01F;
  One one(700, 129);
  One other = one;
  with_threads(1, [&] { one.update({.learning_rate = &learning_rate}); });
  with_threads(3, [&] { other.update({.learning_rate = &learning_rate}); });
  EXPECT_EQ(other.weight.bytes(), one.weight.bytes());
  EXPECT_EQ(other.row_moment.bytes(), one.row_moment.bytes());
  EXPECT_EQ(other.column_moment.bytes(), one.column_moment.bytes());
}

TEST(Adafactor, ScaledGradientsAreThoseOfTheirSize) {
  const float learning_rate = 0.01F, quarter = 0.25F;
  One scaled(70, 19);
  One small = scaled;
  for (int64_t i = 0; i < 70 * 19; ++i) small.gradient.set(i, 0.25F * small.gradient[i]);
  scaled.update({.learning_rate = &learning_rate, .gradient_scale = &quarter});
  small.update({.learning_rate = &learning_rate});
  EXPECT_EQ(scaled.weight.bytes(), small.weight.bytes());
}

TEST(Adafactor, NanShowsAndSkippingChangesNothing) {
  const float learning_rate = 0.01F;
  const int32_t skip = 1;
  One one(4, 9);
  one.gradient.set(11, NAN);
  const One before = one;
  one.update({.learning_rate = &learning_rate, .skip = &skip});
  EXPECT_EQ(one.weight.bytes(), before.weight.bytes());
  EXPECT_EQ(one.row_moment.bytes(), before.row_moment.bytes());
  one.update({.learning_rate = &learning_rate});
  EXPECT_TRUE(std::isnan(one.weight[0])) << "the clipping takes all of a parameter together";
}

TEST(Adafactor, MomentsAreOfAMatrixOrOfAVector) {
  const float learning_rate = 0.01F;
  const uint32_t applied = 0;
  Tensor weight(DType::kF32, 6), scratch = workspace(adafactor_workspace_bytes(2, 3));
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
