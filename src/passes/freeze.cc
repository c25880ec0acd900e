#include "passes/freeze.h"

#include <algorithm>
#include <regex>

#include "base/error.h"

namespace shoehorn {

namespace {

std::regex parse_pattern(const std::string& pattern) {
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    throw user_error("[--freeze {}] expected a regular expression, got '{}'", pattern, error.what());
  }
}

}  // namespace

void freeze(ProgramFamily& family, const StepOptions& options) {
  if (options.freeze.empty()) return;
  std::vector<Parameter>& parameters = family.state->parameters();
  for (const std::string& pattern : options.freeze) {
    const std::regex expression = parse_pattern(pattern);
    bool matched = false;
    for (Parameter& parameter : parameters) {
      if (!std::regex_search(parameter.name, expression)) continue;
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
