#include "analysis/pass_explanation.h"

#include <nlohmann/json.hpp>

#include "analysis/operation_anatomy.h"

namespace shoehorn {

namespace {

StepWork step_work_of(const Model& model, const SessionOptions& options, const MachineLimits& limits) {
  const Session session(model, options);
  const ClassWork total = total_of(operation_anatomy(planned_work(session), limits));
  return {total.nodes, total.flops, total.bytes, total.floor_seconds, session.plan().arena_bytes()};
}

nlohmann::json work_json(const StepWork& work) {
  return {{"nodes", work.nodes},
          {"flops", work.flops},
          {"bytes", work.bytes},
          {"floor_seconds", work.seconds},
          {"arena_bytes", work.arena_bytes}};
}

}  // namespace

std::vector<PassEffect> explain_passes(const Model& model, const SessionOptions& options,
                                       const MachineLimits& limits) {
  SessionOptions base = options;
  base.step.dump_directory.clear();
  base.step.activation_budget.reset();  // the set that it chose stays
  const StepWork as_asked = step_work_of(model, base, limits);
  std::vector<PassEffect> effects;
  for (const Pass& pass : pass_list()) {
    if (!pass.can_skip) continue;
    PassEffect effect{.name = pass.name,
                      .exactness = pass.exactness,
                      .is_skipped = is_skipped(pass, base.step),
                      .with = as_asked,
                      .without = as_asked};
    if (!effect.is_skipped) {
      SessionOptions skipping = base;
      skipping.step.skip_passes.insert(pass.name);
      if (pass.name == "rematerialize") skipping.step.recompute_set.clear();
      effect.without = step_work_of(model, skipping, limits);
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

nlohmann::json to_json(const std::vector<PassEffect>& effects) {
  nlohmann::json passes = nlohmann::json::object();
  for (const PassEffect& effect : effects) {
    passes[effect.name] = {{"exactness", exactness_name(effect.exactness)},
                           {"skipped", effect.is_skipped},
                           {"with", work_json(effect.with)},
                           {"without", work_json(effect.without)}};
  }
  return passes;
}

}  // namespace shoehorn
