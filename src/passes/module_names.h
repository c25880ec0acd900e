// Matches module names as given by --lora_target, --lora_modules_to_save and adapter_config.json.
#pragma once

#include <string_view>

namespace shoehorn {

// True if `name` is the path of `module` or its last parts; this is how PEFT matches target_modules.
bool names_module(std::string_view module, std::string_view name);

// True if `name` means the module of this parameter, or a module that contains it.
bool names_module_of(std::string_view parameter, std::string_view name);

}  // namespace shoehorn
