// Names of modules, as --lora_target, --lora_modules_to_save and adapter_config.json give them.
#pragma once

#include <string_view>

namespace shoehorn {

// Whether `name` means this module: it is the module's path or its last parts, as PEFT matches
// target_modules.
bool names_module(std::string_view module, std::string_view name);

// Whether `name` means the module of this parameter, or one that holds it.
bool names_module_of(std::string_view parameter, std::string_view name);

}  // namespace shoehorn
