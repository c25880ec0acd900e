#include "analysis/rank_methods.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace shoehorn {

namespace {

constexpr int64_t kStages = 4;  // 0 to 3

std::string name_of(const RankOptions& ranks) {
  if (ranks.local_steps() > 0) return fmt::format("local SGD, {}", ranks.local_steps());
  if (ranks.are_replicas()) return "dp";
  if (ranks.zero_stage == 0) return "ddp";
  const std::string name = fmt::format("zero_stage {}", ranks.zero_stage);
  return ranks.zero_group_size == 0 ? name : fmt::format("{}, groups of {}", name, ranks.zero_group_size);
}

// Every stage over all ranks, those that groups share by where there are some, and local SGD or DataParallel where the run has it.
std::vector<RankOptions> options_to_compare(const RankOptions& given) {
  RankOptions ranks = given;
  const int64_t group_size = std::exchange(ranks.zero_group_size, 0);
  ranks.local_sgd_steps = 0;
  ranks.mode = ParallelMode::kDistributed;
  std::vector<RankOptions> all;
  for (ranks.zero_stage = 0; ranks.zero_stage < kStages; ++ranks.zero_stage) all.push_back(ranks);
  if (group_size > 0) {
    ranks.zero_group_size = group_size;
    for (ranks.zero_stage = 1; ranks.zero_stage < kStages; ++ranks.zero_stage) all.push_back(ranks);
  }
  if (given.local_steps() > 0 || given.are_replicas()) all.push_back(given);
  return all;
}

}  // namespace

std::vector<RankMethod> compare_rank_methods(const Model& model, const SessionOptions& options,
                                             const std::function<StepTime(const Session&)>& time_of) {
  SessionOptions base = options;
  base.step.dump_directory.clear();
  base.step.activation_budget.reset();  // the set that it chose stays
  std::vector<RankMethod> methods;
  for (const RankOptions& ranks : options_to_compare(options.step.ranks)) {
    RankMethod& method = methods.emplace_back(RankMethod{.name = name_of(ranks)});
    base.step.ranks = ranks;
    try {
      const Session session(model, base);
      method.arena_bytes = session.plan().arena_bytes();
      method.sent_bytes = session.sent_bytes_in_step(0);
      if (const StepTraffic traffic = step_traffic(session); traffic.has_several_hosts)
        method.between_hosts_bytes = std::llround(traffic.between_hosts_bytes());
      method.time = time_of(session);
    } catch (const UserError& error) {
      method.refusal = error.what();
    }
  }
  return methods;
}

std::string format_rank_methods(const std::vector<RankMethod>& methods, bool has_times) {
  std::string text = "Of a rank, by the way in which ranks share a step (--zero_stage)\n";
  size_t width = 14;
  const bool has_several_hosts = std::ranges::any_of(
      methods, [](const RankMethod& method) { return method.between_hosts_bytes.has_value(); });
  for (const RankMethod& method : methods) width = std::max(width, method.name.size() + 2);
  text += fmt::format("  {:<{}}{:>14}{:>16}{}{}\n", "", width, "arenas", "sent in a step",
                      has_several_hosts ? fmt::format("{:>16}", "between hosts") : "",
                      has_times ? fmt::format("{:>12}{:>22}", "step", "without overlap") : "");
  for (const RankMethod& method : methods) {
    if (!method.refusal.empty()) {
      text += fmt::format("  {:<{}}{}\n", method.name, width, method.refusal);
      continue;
    }
    text += fmt::format("  {:<{}}{:>14}{:>16}", method.name, width, format_bytes(method.arena_bytes),
                        format_bytes(method.sent_bytes));
    if (method.between_hosts_bytes) text += fmt::format("{:>16}", format_bytes(*method.between_hosts_bytes));
    if (has_times) {
      const StepTime& time = method.time;
      const std::string unhidden =
          time.messages ? fmt::format("{:.3f} s", time.messages->unhidden_step_seconds()) : "no link";
      text += fmt::format("{:>10.3f} s{:>22}", time.seconds, unhidden);
    }
    text += "\n";
  }
  return text;
}

nlohmann::json to_json(const std::vector<RankMethod>& methods, bool has_times) {
  nlohmann::json all = nlohmann::json::array();
  for (const RankMethod& method : methods) {
    nlohmann::json one = {{"name", method.name}};
    if (!method.refusal.empty()) {
      one["refusal"] = method.refusal;
    } else {
      one["arena_bytes"] = method.arena_bytes;
      one["sent_bytes_in_step"] = method.sent_bytes;
      if (method.between_hosts_bytes) one["between_hosts_bytes_in_step"] = *method.between_hosts_bytes;
      if (has_times) one.update(to_json(method.time));
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace shoehorn
