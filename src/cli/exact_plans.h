// The bytes of plans to the byte: as processes of their own tell them, which `train` will be. Those of a search lack what
// such a process holds besides its arenas (fit/plan_search.h).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fit/plan_search.h"

namespace shoehorn {

// What `plan --json` says of the flags, which are `given` and `added`, in a process of its own. UserError for flags that it
// refuses.
nlohmann::json plan_in_process(const std::vector<std::string>& given, const std::vector<std::string>& added);

struct ExactPlan {
  int64_t arena_bytes = 0;
  int64_t process_bytes = 0;  // the peak of the whole process
  std::string program;        // its hash (session/program_hash.h)
};

ExactPlan exact_plan_of(const nlohmann::json& plan);

class ExactPlans {
 public:
  // `planned`: the flags of `plan` besides those of each candidate.
  explicit ExactPlans(std::vector<std::string> planned) : planned_(std::move(planned)) {}

  // As many at a time as processors and memory allow. Flags that were asked about before start no process.
  void plan(const std::vector<PlannedCandidate*>& candidates);

  // The hash of the program of one that was planned.
  const std::string& program_of(const PlannedCandidate& planned) const {
    return plans_.at(planned.run.flags).program;
  }

  // Of a list of which no plan beats another; those that another one beats by the exact bytes are left out.
  void plan_frontier(std::vector<PlannedCandidate>& frontier);

  // All that a report prints of a result, but for its best plans.
  void plan_rows(FitResult& result);

 private:
  std::vector<std::string> planned_;
  std::map<std::vector<std::string>, ExactPlan> plans_;  // by the flags that a candidate adds
};

}  // namespace shoehorn
