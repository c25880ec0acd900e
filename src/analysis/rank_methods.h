// The ways in which the ranks of a run can share a step, beside each other: what a rank of each holds and sends, and how
// long a step takes. Nothing runs: each is built and planned.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analysis/step_time.h"
#include "session/session.h"

namespace shoehorn {

struct RankMethod {
  std::string name;          // "ddp", "zero_stage 1", "zero_stage 3, groups of 8", "dp"
  std::string refusal = {};  // why the run cannot have it; the rest is then 0
  int64_t arena_bytes = 0;
  int64_t sent_bytes = 0;  // in a step, by the first rank; of local SGD on average
  // The same over the links between hosts, by the rank that sends most there; none where one host has all ranks.
  std::optional<int64_t> between_hosts_bytes = {};
  StepTime time = {};
};

// Data parallel and the three stages of ZeRO, with a zero_group_size each stage within such groups too, and local SGD or
// DataParallel where the run has it, of the run that `options` describe, which has several ranks.
std::vector<RankMethod> compare_rank_methods(const Model& model, const SessionOptions& options,
                                             const std::function<StepTime(const Session&)>& time_of);

// A line a method. The times only where they are of this machine and its link or bounds of them (`has_times`).
std::string format_rank_methods(const std::vector<RankMethod>& methods, bool has_times);
// [{"name", "arena_bytes", "sent_bytes_in_step", of several hosts "between_hosts_bytes_in_step", …}] with what
// to_json(StepTime) has, or {"name", "refusal"}
nlohmann::json to_json(const std::vector<RankMethod>& methods, bool has_times);

}  // namespace shoehorn
