#include "lab/machine_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/plural.h"
#include "exec/backend/thread_count.h"
#include "session/precision_report.h"

namespace shoehorn {

std::string format_machine(const MachineProfile& machine) {
  // Of this machine also what decided the number.
  const ThreadCount here = thread_count();
  const std::string threads = machine == this_machine() && machine.threads == here.threads
                                  ? describe(here)
                                  : plural(machine.threads, "thread");
  return fmt::format("{}, {}, {}, {}{}", machine.cpu, machine.isa, threads, machine.products,
                     machine.bf16_products ? "" : " (bf16 products run as fp32 panels)");
}

nlohmann::ordered_json to_json(const MachineProfile& machine) {
  return {{"cpu", machine.cpu},
          {"isa", machine.isa},
          {"threads", machine.threads},
          {"products", machine.products},
          {"bf16_products", machine.bf16_products}};
}

std::string format_absent_machine(const MachineProfile& machine) {
  return fmt::format(
      "Planned for another machine: {}\n"
      "  Workspaces are an upper bound, not what its libraries ask for. Besides the arenas a process is taken to "
      "hold\n"
      "  what `shoehorn env` held there: no data.\n",
      format_machine(machine));
}

nlohmann::ordered_json absent_machine_to_json(const MachineProfile& machine) {
  nlohmann::ordered_json json = to_json(machine);
  json["workspaces"] = "upper bound";
  return json;
}

std::vector<std::string> half_product_remarks(const std::vector<const Rung*>& measured) {
  const auto has = [&measured](const char* flag) {
    return std::any_of(measured.begin(), measured.end(), [flag](const Rung* rung) {
      return std::find(rung->flags.begin(), rung->flags.end(), flag) != rung->flags.end();
    });
  };
  std::vector<std::string> lines;
  for (const bool is_fp16 : {true, false}) {
    const bool is_native = this_machine().has_products_of(is_fp16 ? DType::kF16 : DType::kBF16);
    if (!is_native && has(is_fp16 ? "--fp16" : "--bf16")) {
      lines.push_back(
          fmt::format("shoehorn's {} products: {}", is_fp16 ? "fp16" : "bf16", half_products_text(is_fp16)));
    }
  }
  return lines;
}

}  // namespace shoehorn
