// Every optimizer's kernel behind one signature, for tests of what they have in common.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "exec/cpu/optimizers/adafactor.h"
#include "exec/cpu/optimizers/eight_bit_testing.h"
#include "exec/cpu/optimizers/optimizer_elementwise.h"

namespace shoehorn::cpu::test_support {

inline const uint32_t kAppliedUpdates = 4;

// An optimizer's update of a weight of a given shape. Its states are the same in every call.
struct OptimizerUpdate {
  std::string name;
  std::function<void(const WeightView&, const Tensor& gradient, const GoldenShape&, const UpdateScalars&)>
      update;
};

inline std::vector<Tensor> random_states(int64_t count) {
  std::vector<Tensor> states;
  for (uint32_t i = 0; i < 3; ++i) states.push_back(random_tensor(DType::kF32, count, 3 + i, 5.0F, 0.5F));
  return states;
}

template <class Run>
OptimizerUpdate elementwise(const char* name, size_t kept, Run run) {
  return {name, [=](const WeightView& weight, const Tensor& gradient, const GoldenShape& shape,
                    const UpdateScalars& scalars) {
            std::vector<Tensor> states = random_states(shape.count());
            StatefulTensor tensor{.count = shape.count(),
                                  .weight = weight,
                                  .gradient_dtype = DType::kF32,
                                  .gradient = gradient.data(),
                                  .weight_decay = 0.05F};
            for (size_t i = 0; i < kept; ++i) tensor.states[i] = states[i].floats();
            const std::vector<StatefulTensor> list{tensor};
            run(std::span(list), scalars);
          }};
}

template <class Run>
OptimizerUpdate in_8bit(const char* name, size_t kept, Run run) {
  return {name, [=](const WeightView& weight, const Tensor& gradient, const GoldenShape& shape,
                    const UpdateScalars& scalars) {
            EightBitMoments moments(shape.count());
            EightBitTensor tensor{.count = shape.count(),
                                  .weight = weight,
                                  .gradient_dtype = DType::kF32,
                                  .gradient = gradient.data(),
                                  .weight_decay = 0.05F};
            moments.lend(tensor, kept);
            const std::vector<EightBitTensor> list{tensor};
            run(std::span(list), scalars);
          }};
}

inline void update_adafactor(const WeightView& weight, const Tensor& gradient, const GoldenShape& shape,
                             const UpdateScalars& scalars) {
  std::vector<Tensor> states = random_states(shape.count());
  const bool is_matrix = shape.rows > 1;
  const std::vector<AdafactorParameter> list{{.rows = shape.rows,
                                              .columns = shape.columns,
                                              .weight = weight,
                                              .gradient = static_cast<const float*>(gradient.data()),
                                              .row_moment = is_matrix ? states[0].floats() : nullptr,
                                              .column_moment = is_matrix ? states[1].floats() : nullptr,
                                              .second_moment = is_matrix ? nullptr : states[0].floats(),
                                              .first_moment = states[2].floats(),
                                              .weight_decay = 0.05F}};
  Tensor scratch = workspace(adafactor_workspace_bytes(1, shape.rows, shape.columns));
  adafactor_update(list, {.beta1 = 0.9, .scale_parameter = true}, scalars, &kAppliedUpdates, scratch.data());
}

inline std::vector<OptimizerUpdate> optimizer_updates() {
  return {
      elementwise("adamw", 2, [](auto list, const auto& s) { adamw_update(list, {}, s, &kAppliedUpdates); }),
      elementwise("sgd", 1, [](auto list, const auto& s) { sgd_update(list, {.momentum = 0.9}, s); }),
      elementwise("adagrad", 1,
                  [](auto list, const auto& s) { adagrad_update(list, {}, s, &kAppliedUpdates); }),
      elementwise("rmsprop", 1, [](auto list, const auto& s) { rmsprop_update(list, {}, s); }),
      elementwise("lion", 1, [](auto list, const auto& s) { lion_update(list, {}, s); }),
      in_8bit("adamw_8bit", 2,
              [](auto list, const auto& s) { adamw_8bit_update(list, {}, s, &kAppliedUpdates); }),
      in_8bit("lion_8bit", 1, [](auto list, const auto& s) { lion_8bit_update(list, {}, s); }),
      {"adafactor", update_adafactor},
  };
}

}  // namespace shoehorn::cpu::test_support
