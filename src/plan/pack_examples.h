// Packing problems shaped like training steps, for tests and benchmarks. Deterministic.
//
//   B batch, T tokens, H hidden, F feed-forward, V vocabulary, A heads; sizes in bytes of 4-byte elements
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "plan/pack.h"

namespace shoehorn {

class ExampleRandom {
 public:
  explicit ExampleRandom(uint64_t seed) : seed_(seed) {}
  // In [low, high], which differ by less than 2^32.
  int64_t between(int64_t low, int64_t high) {
    const auto block = philox4x32_10(philox_key(seed_, 0, 0), {counter_++, 0, 0, 0});
    return low + static_cast<int64_t>((uint64_t{block[0]} * static_cast<uint64_t>(high - low + 1)) >> 32);
  }

 private:
  uint64_t seed_;
  uint32_t counter_ = 0;
};

struct StepShape {
  int64_t layers = 12;
  int64_t tokens = 8 * 512;  // B * T
  int64_t hidden = 768;
  int64_t feed_forward = 3072;
  int64_t vocabulary = 50257;
  int64_t heads = 12;
  int64_t workspace_bytes = 3 << 20;
  bool recompute = false;   // a layer keeps only its input, and recomputes before its backward
  bool accumulate = false;  // gradients are added to buffers that live for the whole step
};

// One position per node. Until its backward a layer keeps what its products and norms read. Outputs of
// projections and gradients of activations live for a node or two. Every product has a workspace. Gradients
// of parameters live from their node to the end of the step; with `accumulate`, for one node, and a buffer of
// the same size lives always.
class TrainingStepExample {
 public:
  explicit TrainingStepExample(const StepShape& shape) : shape_(shape) {}

  std::vector<Interval> make() {
    const int64_t stream = 4 * shape_.tokens * shape_.hidden;
    std::vector<size_t> inputs;
    std::vector<std::vector<size_t>> saved;
    for (int64_t layer = 0; layer < shape_.layers; ++layer) {
      inputs.push_back(begin(stream));
      saved.push_back(forward());
      if (shape_.recompute) end_all(saved.back());
    }
    head();
    std::vector<size_t> parameter_gradients = std::exchange(parameter_gradients_, {});
    for (int64_t layer = shape_.layers; layer-- > 0;) {
      const auto index = static_cast<size_t>(layer);
      if (shape_.recompute) saved[index] = forward();
      backward(saved[index]);
      end_all({inputs[index]});
    }
    ++position_;  // the update reads all gradients
    for (const size_t gradient : parameter_gradients) intervals_[gradient].last = position_;
    for (const size_t gradient : parameter_gradients_) intervals_[gradient].last = position_;
    for (const size_t buffer : buffers_) intervals_[buffer].last = position_;
    return std::move(intervals_);
  }

 private:
  size_t begin(int64_t size_bytes) {
    intervals_.push_back({position_, position_, size_bytes});
    return intervals_.size() - 1;
  }

  void end_all(const std::vector<size_t>& values) {
    for (const size_t value : values) intervals_[value].last = position_;
  }

  // A value that only the next node reads.
  void pass_on(int64_t size_bytes) { intervals_.push_back({position_, position_ + 1, size_bytes}); }

  void product() {
    begin(shape_.workspace_bytes);
    ++position_;
  }

  std::vector<size_t> forward() {
    const int64_t stream = 4 * shape_.tokens * shape_.hidden;
    const int64_t wide = 4 * shape_.tokens * shape_.feed_forward;
    std::vector<size_t> saved;
    const auto norm = [&] {
      saved.push_back(begin(stream));
      saved.push_back(begin(4 * shape_.tokens));
      ++position_;
    };
    norm();
    saved.push_back(begin(3 * stream));
    product();
    saved.push_back(begin(stream));
    saved.push_back(begin(4 * shape_.tokens * shape_.heads));
    product();
    pass_on(stream);
    product();
    saved.push_back(begin(stream));
    ++position_;
    norm();
    saved.push_back(begin(wide));
    product();
    saved.push_back(begin(wide));
    ++position_;
    pass_on(stream);
    product();
    return saved;
  }

  void parameter_gradient(int64_t size_bytes) {
    if (shape_.accumulate) {
      pass_on(size_bytes);
      buffers_.push_back(intervals_.size());
      intervals_.push_back({0, 0, size_bytes});
    } else {
      parameter_gradients_.push_back(begin(size_bytes));
    }
  }

  void head() {
    const int64_t chunk = 4 * std::min<int64_t>(shape_.tokens, 1024) * shape_.vocabulary;
    for (int i = 0; i < 4; ++i) {
      pass_on(chunk);
      product();
    }
    parameter_gradient(4 * shape_.vocabulary * shape_.hidden);
    product();
  }

  // saved: norm, rstd, qkv, attention, log-sum-exp, residual, norm, rstd, up, activation
  void backward(const std::vector<size_t>& saved) {
    const int64_t stream = 4 * shape_.tokens * shape_.hidden;
    const int64_t wide = 4 * shape_.tokens * shape_.feed_forward;
    const size_t skip = begin(stream);
    const auto product_gradients = [&](int64_t input, int64_t parameter, std::vector<size_t> last_uses) {
      pass_on(input);
      product();
      parameter_gradient(parameter);
      end_all(last_uses);
      product();
    };
    product_gradients(wide, 4 * shape_.hidden * shape_.feed_forward, {saved[9]});
    pass_on(wide);
    end_all({saved[8]});
    ++position_;
    product_gradients(stream, 4 * shape_.hidden * shape_.feed_forward, {saved[6]});
    pass_on(stream);
    parameter_gradient(8 * shape_.hidden);
    end_all({saved[5], saved[7]});
    ++position_;
    product_gradients(stream, 4 * shape_.hidden * shape_.hidden, {});
    pass_on(3 * stream);
    end_all({saved[2], saved[3], saved[4]});
    product();
    product_gradients(stream, 12 * shape_.hidden * shape_.hidden, {saved[0]});
    parameter_gradient(8 * shape_.hidden);
    end_all({saved[1], skip});
    ++position_;
  }

  StepShape shape_;
  int64_t position_ = 0;
  std::vector<Interval> intervals_;
  std::vector<size_t> parameter_gradients_;
  std::vector<size_t> buffers_;
};

inline std::vector<Interval> random_intervals(ExampleRandom& random, int64_t count, int64_t positions,
                                              int64_t max_life, int64_t max_size) {
  std::vector<Interval> intervals;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t first = random.between(0, positions - 1);
    const int64_t last = std::min(positions - 1, first + random.between(0, max_life - 1));
    intervals.push_back({first, last, random.between(0, max_size)});
  }
  return intervals;
}

}  // namespace shoehorn
