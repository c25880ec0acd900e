#include "cli/disliked_sizes.h"

#include <cstdio>
#include <string>
#include <vector>

#include "cli/notice_printer.h"
#include "lab/hardware_multiples.h"

namespace shoehorn {

void tell_disliked_sizes(const PlannedTask& task, const PlannedMachine& machine) {
  const TrainingArguments& args = task.arguments;
  const DType operands = args.fp16 ? DType::kF16 : args.bf16 ? DType::kBF16 : DType::kF32;
  const std::vector<HardwareMultiple> multiples =
      machine.device ? hardware_multiples(operands, *machine.device)
                     : hardware_multiples(operands, machine.backend->machine());
  std::vector<NamedSize> sizes = task.source.model->product_sizes();
  // Only language models multiply by it.
  if (!is_language_model(*task.source.model))
    std::erase_if(sizes, [](const NamedSize& size) { return size.name.starts_with("vocabulary"); });
  const std::string notice = disliked_sizes_notice(multiples, sizes);
  if (!notice.empty()) print_text(args, notice + "\n", stderr);
}

}  // namespace shoehorn
