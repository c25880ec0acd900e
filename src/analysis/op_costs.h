// What operations cost on one machine: learned from nodes that were timed there, predicted for nodes of other shapes.
//
// The time of a node is its work at the machine's rates (flops at the rate of products, plus bytes at the memory's)
// times a factor. The factor depends on what picks the kernel (op, element types, transposes, accumulation: the node's
// kind) and on the shape. It is interpolated between the measured shapes of the kind by Gaussian-process regression
// in the logarithms of the sizes (Rasmussen and Williams, "Gaussian processes for machine learning", 2006, algorithm 2.1):
// at a measured shape it is what was measured, between shapes it goes from one to the other, and its standard
// deviation grows with the distance.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "ops/op_info.h"
#include "plan/machine_profile.h"

namespace shoehorn {

// What the time of a node depends on.
struct OpWork {
  std::string op = {};    // "matmul"
  std::string kind = {};  // "matmul float32,float32>float32 n t": the op and what else picks its kernel
  OpClass op_class = OpClass::kElementwise;
  DType operands = DType::kF32;  // of a product
  double flops = 0;
  double bytes = 0;                // read and written
  std::vector<double> sizes = {};  // logarithms to the base of 2; as many in each node of a kind

  bool operator<(const OpWork& other) const;
};

// `cost` may be for smaller counts than the program's.
OpWork op_work(const OpContext& context, const Cost& cost);

struct OpSample {
  OpWork work;
  double seconds = 0;
};

// How fast the machine is, compared with the samples, of which the least time of each shape counts.
struct MachineClock {
  double products = 1;  // times of tensor contractions, as a multiple
  double memory = 1;    // of everything else
  double spread =
      0;  // by how much some steps in a row are faster or slower than others: standard deviation, as a share
  double error = 0;  // standard deviation of all this, as a share
};

struct OpEstimate {
  double seconds = 0;
  double error = 0;          // standard deviation, as a share of the seconds
  bool is_measured = false;  // a shape of this kind was timed
};

class OpCosts {
 public:
  // Samples of one shape are averaged. CHECKs that limits and seconds are above 0.
  OpCosts(const MachineLimits& limits, std::vector<OpSample> samples);
  OpCosts(OpCosts&&) = default;  // not copyable: what is interpolated refers to the samples
  OpCosts& operator=(OpCosts&&) = default;

  OpEstimate estimate(const OpWork& work) const;

  const MachineLimits& limits() const { return limits_; }
  const std::vector<OpSample>& samples() const { return samples_; }
  const MachineClock& clock() const { return clock_; }
  void set_clock(const MachineClock& clock) { clock_ = clock; }

 private:
  // The shapes of one kind, ready to be interpolated.
  struct Shapes {
    std::vector<const OpSample*> samples;
    double mean = 0;                // of the factors' logarithms
    double variance = 0;            // of these around the mean
    std::vector<double> factor;     // lower triangle of the Cholesky factor of their covariance, row by row
    std::vector<double> residuals;  // the covariance's inverse times what the factors differ from the mean
  };
  double work_seconds(const OpWork& work) const;
  Shapes shapes_of(std::vector<const OpSample*> samples) const;

  MachineLimits limits_;
  std::vector<OpSample> samples_;
  MachineClock clock_;
  std::map<std::string, Shapes> kinds_;
  std::map<std::string, Shapes> ops_;  // of all kinds, for a kind that nobody timed
  std::map<OpClass, Shapes> classes_;
};

// [{"kind", "op", "class", "operands", "flops", "bytes", "sizes", "seconds"}]
nlohmann::json to_json(std::span<const OpSample> samples);
// UserError naming `source` for anything else than what to_json writes.
std::vector<OpSample> op_samples_from_json(const nlohmann::json& json, const std::string& source);

}  // namespace shoehorn
