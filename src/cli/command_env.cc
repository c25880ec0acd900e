#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/memory_limit.h"
#include "cli/commands.h"
#include "cli/dtype_table.h"
#include "exec/cpu/machine_limits.h"
#include "exec/cpu/matmul.h"
#include "train/argument_table.h"
#include "train/precision_report.h"

namespace shoehorn {

int run_env(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kEnv, words);
  if (parsed.help) {
    fmt::print("{}", help_text(Command::kEnv));
    return 0;
  }
  if (parsed.arguments.dtypes) {
    fmt::print("{}", parsed.arguments.json ? dtype_table_json() + "\n" : format_dtype_table());
    return 0;
  }
  const MachineFacts facts = machine_facts();
  const MemoryLimit memory = binding_memory_limit();
  const MachineLimits limits = measure_machine_limits();
  if (parsed.arguments.json) {
    const nlohmann::json result = {{"cpu", facts.cpu},
                                   {"isa", facts.isa},
                                   {"threads", facts.threads},
                                   {"products", facts.products},
                                   {"bf16_products", facts.bf16_products},
                                   {"fp16_products", cpu::has_products_of(DType::kF16)},
                                   {"fp32_flops", limits.fp32_flops},
                                   {"bf16_flops", limits.bf16_flops},
                                   {"bytes_per_second", limits.bytes_per_second},
                                   {"available_memory_bytes", memory.available_bytes},
                                   {"memory_limit", memory_limit_name(memory.kind)}};
    fmt::print("{}\n", result.dump(2));
    return 0;
  }
  const auto row = [](const char* what, const std::string& value) {
    fmt::print("  {:<22}{}\n", what, value);
  };
  fmt::print("This machine\n");
  row("processor", facts.cpu);
  row("kernels for", facts.isa);
  row("threads", fmt::format("{}", facts.threads));
  row("products by", facts.products);
  row("bf16 products", half_products_text(false));
  row("fp16 products", half_products_text(true));
  row("memory available", fmt::format("{}, of {}", format_bytes(memory.available_bytes), describe(memory)));
  fmt::print("Measured limits\n");
  row("fp32 products", fmt::format("{:.1f} GFLOP/s", limits.fp32_flops / 1e9));
  row("bf16 products", fmt::format("{:.1f} GFLOP/s", limits.bf16_flops / 1e9));
  row("memory bandwidth", fmt::format("{:.1f} GB/s read and written", limits.bytes_per_second / 1e9));
  return 0;
}

}  // namespace shoehorn
