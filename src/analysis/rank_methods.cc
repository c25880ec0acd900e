#include "analysis/rank_methods.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"

namespace shoehorn {

namespace {

constexpr int64_t kStages = 4;  // 0 to 3

std::string name_of_stage(int64_t stage) {
  return stage == 0 ? "ddp" : fmt::format("zero_stage {}", stage);
}

}  // namespace

std::vector<RankMethod> compare_rank_methods(const Model& model, const SessionOptions& options,
                                             const std::function<StepTime(const Session&)>& time_of) {
  SessionOptions base = options;
  base.step.dump_directory.clear();
  base.step.activation_budget.reset();  // the set that it chose stays
  base.step.ranks.local_sgd_steps = 0;
  std::vector<RankMethod> methods;
  const auto add = [&](const std::string& name) {
    RankMethod& method = methods.emplace_back(RankMethod{.name = name});
    try {
      const Session session(model, base);
      method.arena_bytes = session.plan().arena_bytes();
      method.sent_bytes = session.sent_bytes_in_step(0);
      method.time = time_of(session);
    } catch (const UserError& error) {
      method.refusal = error.what();
    }
  };
  for (int64_t stage = 0; stage < kStages; ++stage) {
    base.step.ranks.zero_stage = stage;
    add(name_of_stage(stage));
  }
  if (const int64_t alone = options.step.ranks.local_steps(); alone > 0) {
    base.step.ranks.zero_stage = options.step.ranks.zero_stage;
    base.step.ranks.local_sgd_steps = alone;
    add(fmt::format("local SGD, {}", alone));
  }
  return methods;
}

std::string format_rank_methods(const std::vector<RankMethod>& methods, bool has_times) {
  std::string text = "Of a rank, by the way in which ranks share a step (--zero_stage)\n";
  text += fmt::format("  {:<14}{:>14}{:>16}{}\n", "", "arenas", "sent in a step",
                      has_times ? fmt::format("{:>12}{:>22}", "step", "without overlap") : "");
  for (const RankMethod& method : methods) {
    if (!method.refusal.empty()) {
      text += fmt::format("  {:<14}{}\n", method.name, method.refusal);
      continue;
    }
    text += fmt::format("  {:<14}{:>14}{:>16}", method.name, format_bytes(method.arena_bytes),
                        format_bytes(method.sent_bytes));
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
      if (has_times) one.update(to_json(method.time));
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace shoehorn
