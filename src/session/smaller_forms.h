// Smaller forms of a run that does not fit: one candidate planned (Planner), and the micro-batches and
// recomputation that make a training run smaller without other maths (Ladder).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session/memory_alternatives.h"

namespace shoehorn {

// Flags that recompute every layer; empty where the step does already.
std::string recompute_flags(const StepOptions& step);

bool is_by_layer(const StepOptions& step);

// A run that may be offered.
struct Candidate {
  SessionOptions options;
  std::string flags = {};  // each behind a space
  std::string evaluation_flag = {};
  MathsChange change = MathsChange::kExact;
  bool has_other_products = false;  // than the run that was asked for: another precision, adapters

  std::string all_flags() const;
};

// Plans candidates; remembers what fits and the least of all. The model and the forecast of the run that was
// asked for outlive it.
class Planner {
 public:
  Planner(const Model& model, const MemoryForecast& forecast);

  // The session where it fits beside what the process held when the run was planned, else none. Where
  // evaluation is what needs most, its batch is halved until it is not.
  std::unique_ptr<Session> plan_that_fits(Candidate& candidate);

  // Whether it fits with what its session holds too. The run that was asked for is still in memory, so that
  // the peak is more than what a process of its own takes.
  bool offer(Candidate candidate);

  // Whether what no micro-batch makes smaller is too large already: weights, states, and of a step that uses
  // gradients behind its backward all of them.
  bool is_hopeless(const Candidate& candidate);

  // The largest int64 where nothing was planned.
  int64_t least_bytes() const;

  Alternatives result(std::vector<std::string> tried) &&;

 private:
  std::unique_ptr<Session> plan(const Candidate& candidate);
  int64_t peak_of(const Candidate& candidate, const Session& session) const;

  const Model& model_;
  const MemoryForecast& forecast_;
  int64_t resident_before_bytes_;
  std::vector<Alternative> fitting_;
  std::optional<Alternative> least_;
};

// The whole micro-batch, then its divisors, accumulated; each as it is, with layers recomputed, and then with
// all micro-batches by layer. The planner outlives it.
class Ladder {
 public:
  Ladder(Planner& planner, Candidate base, int64_t micro_batch_size);

  // Offers the first rung that fits, of the largest micro-batch; false where none does.
  bool climb();

  // Plans the smallest there is.
  void plan_smallest();

 private:
  std::vector<Candidate> rungs(int64_t size) const;
  bool may_fit_at(size_t index);
  bool offer_at(size_t index);

  Planner& planner_;
  Candidate base_;
  int64_t micro_batch_size_;
  std::vector<int64_t> sizes_;  // largest first; those of which some rung can be run
};

}  // namespace shoehorn
