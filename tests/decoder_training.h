// What the tests of toy decoders share: batches of six samples of two classes, training on them, and a check of where
// parameters lie.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "toy_training.h"

namespace shoehorn::test_support {

inline std::vector<Sample> six_samples(uint32_t seed) {
  return random_samples(6, seed, 20, 2);
}

inline const Split kSixInOneMicroBatch = {{0, 1, 2, 3, 4, 5}};

struct TrainedDecoder {
  std::vector<float> losses;
  Weights weights;
};

// The same six samples in every step, or others in each.
inline TrainedDecoder train_decoder(const ToyModel& model, const StepOptions& step, uint32_t steps,
                                    bool is_one_batch) {
  TrainingRun run(model, session_options(step));
  TrainedDecoder trained;
  for (uint32_t i = 0; i < steps; ++i) {
    trained.losses.push_back(run.step(six_samples(is_one_batch ? 3 : 17 + i), kSixInOneMicroBatch, 1e-2F));
  }
  trained.weights = read_weights(run.session());
  return trained;
}

// What is written to a parameter by its name comes back, wherever and whichever way round it lies.
inline void expect_parameters_keep_their_places(const ToyModel& model, const StepOptions& step) {
  Session session(model, session_options(step));
  session.reserve();
  Weights weights = random_weights(session);
  for (auto& [name, values] : weights) {
    for (float& value : values) value = std::round(value * 64) / 64;  // a number of any precision
  }
  write_weights(session, weights);
  for (const auto& [name, values] : read_weights(session)) EXPECT_TRUE(values == weights.at(name)) << name;
}

}  // namespace shoehorn::test_support
