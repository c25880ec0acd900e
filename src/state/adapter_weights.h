// The tensors of low-rank adapters between adapter_model.safetensors, in PEFT's format, and the persistent
// arena.
//
//   base_model.model.<module>.lora_A.weight   [r, inputs]
//   base_model.model.<module>.lora_B.weight   [outputs, r]
//   base_model.model.<parameter>              of a module that is trained and saved whole
//
// Written as float32; read in any floating-point type. Adapters and the weights under them are saved by a process that
// has all of each (InternalError otherwise); they can be read into shards.
#pragma once

#include <filesystem>

#include "exec/executor.h"
#include "passes/program_family.h"
#include "state/original_weights.h"

namespace shoehorn {

// adapter_config.json and adapter_model.safetensors into an existing directory; `base` is that of the base
// model. UserError where there is none: the adapters would be nobody's.
void save_adapter(const std::filesystem::path& directory, const std::filesystem::path& base,
                  const LoraOptions& options, const ProgramFamily& family, const Executor& executor);

// Reads the adapters, and the modules saved whole, into place. UserError naming file and tensor: one that is
// missing, of another shape (another rank), or that has no place.
void load_adapter(const std::filesystem::path& directory, const ProgramFamily& family, Executor& executor);

// model.safetensors (or shards) of the base model with the adapters merged in, W + scale·B·A in fp32, rounded
// once to the type that W has in the base's files; other weights as they are there, modules saved whole as
// they were trained. UserError where there is no base, SystemError where it is not what it was at the start.
void save_merged_weights(const std::filesystem::path& directory, const OriginalWeights* base,
                         const ProgramFamily& family, const Executor& executor);

}  // namespace shoehorn
