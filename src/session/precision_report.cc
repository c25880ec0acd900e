#include "session/precision_report.h"

#include <fmt/format.h>

namespace shoehorn {

std::string half_products_text(bool is_fp16, const MachineProfile& machine) {
  if (machine.has_products_of(is_fp16 ? DType::kF16 : DType::kBF16)) return "native";
  return fmt::format("as fp32 panels: {} has no fast ones on this processor", machine.products);
}

std::string format_precision(const TrainingArguments& args, const MachineProfile& machine) {
  if (args.bf16) {
    const char* masters =
        args.master_weights == "none" ? "; no master weights: updates round stochastically" : "";
    return fmt::format("bf16 products: {}{}\n", half_products_text(false, machine), masters);
  }
  if (!args.fp16) return {};
  const std::string scale = args.loss_scale != 0
                                ? fmt::format("{:g}, fixed", args.loss_scale)
                                : fmt::format("2^{} at first, dynamic", args.initial_scale_power);
  return fmt::format("fp16 products: {}; loss scale {}\n", half_products_text(true, machine), scale);
}

}  // namespace shoehorn
