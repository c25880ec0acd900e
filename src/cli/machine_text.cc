#include "cli/machine_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace shoehorn {

std::string format_machine(const MachineFacts& machine) {
  return fmt::format("{}, {}, {} threads, {}{}", machine.cpu, machine.isa, machine.threads, machine.products,
                     machine.bf16_products ? "" : " (bf16 products run as fp32 panels)");
}

nlohmann::ordered_json to_json(const MachineFacts& machine) {
  return {{"cpu", machine.cpu},
          {"isa", machine.isa},
          {"threads", machine.threads},
          {"products", machine.products},
          {"bf16_products", machine.bf16_products}};
}

}  // namespace shoehorn
