#include "passes/module_names.h"

namespace shoehorn {

bool names_module(std::string_view module, std::string_view name) {
  if (!module.ends_with(name)) return false;
  const std::string_view before = module.substr(0, module.size() - name.size());
  return before.empty() || before.ends_with('.');
}

bool names_module_of(std::string_view parameter, std::string_view name) {
  for (size_t dot = parameter.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = parameter.rfind('.', dot - 1)) {
    if (names_module(parameter.substr(0, dot), name)) return true;
  }
  return false;
}

}  // namespace shoehorn
