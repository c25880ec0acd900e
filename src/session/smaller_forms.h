// Searches smaller forms of a run that does not fit. Planner plans one candidate; MicroBatchSearch tries micro-batch
// sizes and recomputation, which make a training run smaller without changing its maths.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session/memory_alternatives.h"

namespace shoehorn {

// A layer-major step holds every micro-batch's nodes; beyond this many it is no longer worth offering.
inline constexpr int64_t kMaxUnrolledMicroBatches = 32;

// Largest first.
std::vector<int64_t> divisors_of(int64_t number);

// The flags that recompute every layer; empty if the step already does, or recomputes what a budget or a set says.
std::string recompute_flags(const StepOptions& step);

bool is_by_layer(const StepOptions& step);

// A run that may be offered to the user.
struct Candidate {
  SessionOptions options;
  std::string flags = {};  // each behind a space
  std::string evaluation_flag = {};
  MathsChange change = MathsChange::kExact;
  bool has_other_products = false;  // than the requested run: another precision, or adapters

  std::string all_flags() const;
};

// Plans candidates; collects those that fit and remembers the smallest. The model and the forecast of the
// requested run must outlive it.
class Planner {
 public:
  Planner(const Model& model, const MemoryForecast& forecast);

  // The candidate's session if it fits beside what the process held when the run was planned; else null. If
  // evaluation needs the most memory, its batch is halved until it no longer does.
  std::unique_ptr<Session> plan_that_fits(Candidate& candidate);

  // True if the candidate fits, including what its own session holds. The requested run is still in memory,
  // so this peak is higher than in a process of its own.
  bool offer(Candidate candidate);

  // True if the part that smaller micro-batches cannot shrink is already too large: weights, optimizer states
  // and, if the update follows the whole backward, all gradients.
  bool is_hopeless(const Candidate& candidate);

  // The largest int64 if nothing was planned.
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

// Tries the whole micro-batch, then its divisors with accumulation. Each size is tried as it is, then with
// recomputed layers, then also with layer-major accumulation. The planner must outlive it.
class MicroBatchSearch {
 public:
  MicroBatchSearch(Planner& planner, Candidate base, int64_t micro_batch_size);

  // Offers the first rung that fits, which has the largest micro-batch; false if none does.
  bool climb();

  // Plans the smallest form.
  void plan_smallest();

 private:
  std::vector<Candidate> rungs(int64_t size) const;
  bool may_fit_at(size_t index);
  bool offer_at(size_t index);

  Planner& planner_;
  Candidate base_;
  int64_t micro_batch_size_;
  std::vector<int64_t> sizes_;  // largest first; sizes with at least one rung that can run
};

}  // namespace shoehorn
