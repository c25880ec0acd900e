#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "arguments/argument_table.h"
#include "base/format.h"
#include "base/memory_limit.h"
#include "base/other_load.h"
#include "base/thread_waits.h"
#include "cli/commands.h"
#include "cli/dtype_table.h"
#include "cli/stage_line.h"
#include "exec/backend/thread_count.h"
#include "exec/backends.h"
#include "session/precision_report.h"

namespace shoehorn {

namespace {

std::string peak_text(const ArithmeticPeak& peak) {
  if (!peak.is_measured) return "not run: this machine has none";
  return fmt::format("{:.1f} GFLOP/s, {:.1f} on one thread", peak.flops_all_threads / 1e9,
                     peak.flops_one_thread / 1e9);
}

nlohmann::json processors_to_json(const ThreadCount& count) {
  nlohmann::json json = {{"machine", count.processors.machine},
                         {"allowed", count.processors.allowed},
                         {"quota", nullptr},
                         {"text", describe(count)}};
  if (count.processors.quota) json["quota"] = count.processors.quota->processors;
  return json;
}

}  // namespace

CommandHelp help_of_env() {
  return {.name = "env",
          .introduction = "What was detected and measured about this machine.\n\n  shoehorn env [FLAGS]\n",
          .table = Command::kEnv};
}

int run_env(const std::vector<std::string>& words) {
  const ParsedArguments parsed = parse_arguments(Command::kEnv, words);
  use_threads(parsed.arguments.num_threads);
  if (parsed.arguments.dtypes) {
    fmt::print("{}", parsed.arguments.json ? dtype_table_json() + "\n" : format_dtype_table());
    return 0;
  }
  const std::unique_ptr<Backend> backend = make_backend();
  const MachineProfile& facts = backend->machine();
  const MemoryLimit memory = backend->memory_limit();
  OtherMachine measured{.profile = facts, .available_memory_bytes = memory.available_bytes};
  const OtherLoad others;
  measured.limits = silently_measured_limits(*backend, parsed.arguments);
  // When the libraries have run.
  measured.process_overhead_bytes = backend->measure_overhead_bytes(AddressSpace::kHost);
  const MachineLimits& limits = measured.limits;
  const std::vector<ArithmeticPeak> peaks = backend->measure_arithmetic_peaks();
  const std::optional<double> used_by_others = others.processors();
  if (parsed.arguments.json) {
    nlohmann::json result = to_json(measured, peaks, memory_limit_name(memory.kind));
    result["processors"] = processors_to_json(thread_count());
    result["processors"]["used_by_others"] = nullptr;  // not known
    if (used_by_others) result["processors"]["used_by_others"] = *used_by_others;
    result["thread_waits"] = thread_waits().setting;
    fmt::print("{}\n", result.dump(2));
    return 0;
  }
  const auto row = [](const char* what, const std::string& value) {
    fmt::print("  {:<28}{}\n", what, value);
  };
  fmt::print("This machine\n");
  row("processor", facts.cpu);
  row("kernels for", facts.isa);
  row("threads", describe(thread_count()));
  row("waiting threads", describe(thread_waits()));
  row("products by", facts.products);
  row("bf16 products", half_products_text(false));
  row("fp16 products", half_products_text(true));
  row("memory available", fmt::format("{}, of {}", format_bytes(memory.available_bytes), describe(memory)));
  fmt::print("Peak of the arithmetic: multiply-adds on registers\n");
  for (const ArithmeticPeak& peak : peaks) row(peak.name.c_str(), peak_text(peak));
  fmt::print("Reached by large operations\n");
  row("fp32 products", fmt::format("{:.1f} GFLOP/s", limits.fp32_flops / 1e9));
  row("bf16 products", fmt::format("{:.1f} GFLOP/s", limits.bf16_flops / 1e9));
  row("memory bandwidth", fmt::format("{:.1f} GB/s read and written", limits.bytes_per_second / 1e9));
  const std::string busy =
      other_load_text(used_by_others, thread_count().threads, thread_count().processors.allowed);
  if (!busy.empty()) row("while this was measured", busy + "; idle, the machine reaches more");
  return 0;
}

}  // namespace shoehorn
