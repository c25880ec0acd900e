#include "passes/freeze.h"

#include <algorithm>

#include "base/error.h"
#include "base/pattern.h"

namespace shoehorn {

void freeze(ProgramFamily& family, const StepOptions& options) {
  if (options.freeze.empty()) return;
  std::vector<Parameter>& parameters = family.state->parameters();
  for (const std::string& pattern : options.freeze) {
    const Pattern expression(pattern, "--freeze");
    bool matched = false;
    for (Parameter& parameter : parameters) {
      if (!expression.is_found_in(parameter.name)) continue;
      parameter.trainable = false;
      matched = true;
    }
    if (!matched) {
      throw user_error(
          "[--freeze {}] expected a pattern of parameters' names such as {}, got one that none has", pattern,
          parameters.empty() ? "none" : parameters.front().name);
    }
  }
  const bool is_any_left = std::any_of(parameters.begin(), parameters.end(),
                                       [](const Parameter& parameter) { return parameter.trainable; });
  if (!is_any_left) throw user_error("[--freeze] expected a parameter that is left to train, got none");
}

}  // namespace shoehorn
