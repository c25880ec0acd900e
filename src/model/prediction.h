// What a task predicts for a sample, as files of predictions have it.
#pragma once

#include <cstdint>
#include <vector>

namespace shoehorn {

// What a prediction consists of, and so which fields its file has.
enum class PredictionForm : uint8_t {
  kClass,    // one class, and a score for each
  kClasses,  // any number of classes, and a score for each
  kValues,   // a number for each output
};

struct Prediction {
  std::vector<int64_t> classes = {};  // the predicted ones, ascending; of kClass exactly one, of kValues none
  std::vector<double> scores = {};    // of each output: the probability of the class, or the value
};

}  // namespace shoehorn
