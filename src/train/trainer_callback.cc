#include "train/trainer_callback.h"

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

using nlohmann::json;

json to_json(const CallbackState& state) {
  return {{"args", argument_to_json(state.args)}, {"attributes", argument_to_json(state.attributes)}};
}

Kwargs kwargs_of(const json& object, const char* name, const std::string& source) {
  const std::string what = fmt::format("{}: {}", source, name);
  const bool is_there = object.is_object() && object.contains(name);
  if (!is_there || !object[name].is_object())
    throw user_error("[{}] expected an object, got {}", what, is_there ? object[name].dump() : "nothing");
  const ArgumentSpec spec = {.name = name, .kind = ArgumentKind::kKwargs};
  return std::get<Kwargs>(argument_from_json(spec, object[name], what));
}

}  // namespace

void TrainerCallback::restore(const CallbackState&, const std::string& source) {
  throw user_error("[{}] expected a callback that keeps no state, got the state of one", source);
}

std::map<std::string, std::vector<TrainerCallback*>> CallbackList::stateful() const {
  std::map<std::string, std::vector<TrainerCallback*>> by_name;
  for (const std::shared_ptr<TrainerCallback>& callback : callbacks_) {
    if (const std::string name = callback->state_name(); !name.empty())
      by_name[name].push_back(callback.get());
  }
  return by_name;
}

void CallbackList::keep_states(TrainerState& state) const {
  for (const auto& [name, callbacks] : stateful()) {
    json kept = to_json(callbacks[0]->state());
    if (callbacks.size() > 1) {
      kept = json::array();
      for (const TrainerCallback* callback : callbacks) kept.push_back(to_json(callback->state()));
    }
    state.other_callbacks[name] = format_json(kept, {.indent = -1, .final_newline = false});
  }
}

void CallbackList::restore_states(const TrainerState& state, const std::string& source) const {
  for (const auto& [name, callbacks] : stateful()) {
    const auto found = state.other_callbacks.find(name);
    if (found == state.other_callbacks.end()) continue;
    const std::string what = fmt::format("{}: {}", source, name);
    json kept = parse_json(found->second, what);
    if (!kept.is_array()) kept = json::array({kept});
    for (size_t i = 0; i < std::min(callbacks.size(), kept.size()); ++i) {
      callbacks[i]->restore(
          {.args = kwargs_of(kept[i], "args", what), .attributes = kwargs_of(kept[i], "attributes", what)},
          what);
    }
  }
}

}  // namespace shoehorn
