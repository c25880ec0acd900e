#include "exec/cpu/optimizers/optimizer_elementwise.h"

#include "base/error.h"
#include "exec/cpu/optimizers/optimizer_testing.h"

namespace shoehorn::cpu {
namespace {

using test_support::check_golden;
using test_support::GoldenModel;
using test_support::kGoldenVectors;
using test_support::random_tensor;
using test_support::Tensor;
using test_support::with_threads;

class ElementwiseOptimizerGolden : public test_support::EveryTarget {};

TEST_P(ElementwiseOptimizerGolden, Adagrad) {
  for (const auto& [name, settings] : {std::pair<std::string, AdagradSettings>{"adagrad", {}},
                                       {"adagrad_decay", {.lr_decay = 0.1, .epsilon = 1e-6}}}) {
    check_golden(name, kGoldenVectors, 4,
                 [&](GoldenModel& model, const UpdateScalars& scalars, uint32_t applied) {
                   adagrad_update(model.tensors(1), settings, scalars, &applied);
                 });
  }
}

TEST_P(ElementwiseOptimizerGolden, RmsProp) {
  // Steps are up to 0.1 there, and the centred variance loses digits where a mean is subtracted.
  const auto check = [](const std::string& name, const RmsPropSettings& settings, size_t states,
                        double roundings) {
    check_golden(name, kGoldenVectors, roundings,
                 [&](GoldenModel& model, const UpdateScalars& scalars, uint32_t) {
                   rmsprop_update(model.tensors(states), settings, scalars);
                 });
  };
  check("rmsprop", {}, 1, 8);
  check("rmsprop_momentum", {.alpha = 0.9, .epsilon = 1e-6, .momentum = 0.9}, 2, 16);
  check("rmsprop_centered", {.alpha = 0.9, .epsilon = 1e-6, .momentum = 0.5, .centered = true}, 3, 64);
}

TEST_P(ElementwiseOptimizerGolden, Lion) {
  check_golden("lion", kGoldenVectors, 4, [](GoldenModel& model, const UpdateScalars& scalars, uint32_t) {
    lion_update(model.tensors(1), {.beta1 = 0.9, .beta2 = 0.99}, scalars);
  });
}

INSTANTIATE_TEST_SUITE_P(Targets, ElementwiseOptimizerGolden, test_support::every_target(),
                         test_support::target_name);

// One tensor with random states, of which a test takes as many as an update wants.
struct ElementwiseWeight {
  explicit ElementwiseWeight(int64_t count)
      : weight(random_tensor(DType::kF32, count, 1)), gradient(random_tensor(DType::kF32, count, 2)) {
    for (uint32_t i = 0; i < 3; ++i) states.push_back(random_tensor(DType::kF32, count, 3 + i, 5.0F, 0.5F));
  }
  StatefulTensor tensor(size_t kept) {
    StatefulTensor made{.count = weight.count(),
                        .weight = {.value = weight.floats()},
                        .gradient_dtype = DType::kF32,
                        .gradient = gradient.data(),
                        .weight_decay = 0.05F};
    for (size_t i = 0; i < kept; ++i) made.states[i] = states[i].floats();
    return made;
  }
  Tensor weight, gradient;
  std::vector<Tensor> states;
};

struct Update {
  const char* name;
  size_t states;
  std::function<void(std::span<const StatefulTensor>, const UpdateScalars&)> run;
};

std::vector<Update> updates() {
  static const uint32_t applied = 3;
  return {{"adagrad", 1, [](auto list, const auto& scalars) { adagrad_update(list, {}, scalars, &applied); }},
          {"rmsprop", 1, [](auto list, const auto& scalars) { rmsprop_update(list, {}, scalars); }},
          {"lion", 1, [](auto list, const auto& scalars) { lion_update(list, {}, scalars); }}};
}

TEST(OptimizerElementwise, ThreadsLeaveNoTraceAndSkippingChangesNothing) {
  const float learning_rate = 0.01F, half = 0.5F;
  for (const Update& update : updates()) {
    const ElementwiseWeight original(70001);
    ElementwiseWeight one = original;
    with_threads(1, [&] {
      const std::vector<StatefulTensor> list{one.tensor(update.states)};
      update.run(list, {.learning_rate = &learning_rate, .gradient_scale = &half});
    });
    EXPECT_NE(one.weight.bytes(), original.weight.bytes());
    ElementwiseWeight three = original;
    with_threads(3, [&] {
      const std::vector<StatefulTensor> list{three.tensor(update.states)};
      update.run(list, {.learning_rate = &learning_rate, .gradient_scale = &half});
    });
    EXPECT_EQ(three.weight.bytes(), one.weight.bytes()) << update.name;
    EXPECT_EQ(three.states[0].bytes(), one.states[0].bytes()) << update.name;
    EXPECT_EQ(three.gradient.bytes(), original.gradient.bytes()) << update.name;

    ElementwiseWeight skipped = original;
    const int32_t skip = 1;
    const std::vector<StatefulTensor> list{skipped.tensor(update.states)};
    update.run(list, {.learning_rate = &learning_rate, .skip = &skip});
    EXPECT_EQ(skipped.weight.bytes(), original.weight.bytes()) << update.name;
    EXPECT_EQ(skipped.states[0].bytes(), original.states[0].bytes()) << update.name;
  }
}

TEST(OptimizerElementwise, NanShowsAndStatesAreCounted) {
  const float learning_rate = 0.01F;
  for (const Update& update : updates()) {
    ElementwiseWeight one(20);
    one.gradient.set(7, NAN);
    std::vector<StatefulTensor> list{one.tensor(update.states)};
    update.run(list, {.learning_rate = &learning_rate});
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(one.weight[i]), i == 7) << update.name;
    list[0] = one.tensor(update.states + 1);
    EXPECT_THROW(update.run(list, {.learning_rate = &learning_rate}), InternalError) << update.name;
    list[0] = one.tensor(0);
    EXPECT_THROW(update.run(list, {.learning_rate = &learning_rate}), InternalError) << update.name;
  }
}

TEST(Lion, AStepWithoutDirectionIsNone) {
  Tensor weight(DType::kF32, 3), gradient(DType::kF32, 3), moment(DType::kF32, 3);
  for (int64_t i = 0; i < 3; ++i) weight.set(i, 0.5F);
  gradient.set(1, 1e-30F);
  gradient.set(2, -INFINITY);
  const float learning_rate = 0.25F;
  const std::vector<StatefulTensor> list{{.count = 3,
                                          .weight = {.value = weight.floats()},
                                          .gradient_dtype = DType::kF32,
                                          .gradient = gradient.data(),
                                          .states = {moment.floats()}}};
  lion_update(list, {}, {.learning_rate = &learning_rate});
  EXPECT_EQ(weight[0], 0.5F);
  EXPECT_EQ(weight[1], 0.25F);
  EXPECT_EQ(weight[2], 0.75F);
}

}  // namespace
}  // namespace shoehorn::cpu
