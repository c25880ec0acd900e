// Reads and writes the tensors of low-rank adapters: between adapter_model.safetensors, in PEFT's format, and
// the persistent arena.
//
//   base_model.model.<module>.lora_A.weight   [r, inputs]
//   base_model.model.<module>.lora_B.weight   [outputs, r]
//   base_model.model.<parameter>              a module that is trained and saved whole
//
// A table that is the head, too, is there under the names of both modules, as PEFT writes and wants it (ensure_weight_tying).
// Written as float32; read in any floating-point type. Where ranks have parts of them (`ranks`; null: all is here), all of them
// call these functions, the first one writes, and the others send what they have.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "passes/program_family.h"
#include "ranks/communicator.h"
#include "state/original_weights.h"

namespace shoehorn {

// A tensor of an adapter's file.
struct AdapterTensor {
  std::string name;
  ParameterId parameter;
};
// Those that the file of a family's adapters has.
std::vector<AdapterTensor> adapter_file_tensors(const ProgramFamily& family);

// Writes adapter_config.json and adapter_model.safetensors to an existing directory. `base` is the directory
// of the base model; UserError if it does not exist, since adapters are useless without it.
void save_adapter(const std::filesystem::path& directory, const std::filesystem::path& base,
                  const LoraOptions& options, const ProgramFamily& family, const Executor& executor,
                  Communicator* ranks = nullptr);

// Loads the adapters and the modules that are saved whole. UserError naming file and tensor: one is missing,
// has another shape (another rank), or belongs nowhere; or two that are one parameter differ.
void load_adapter(const std::filesystem::path& directory, const ProgramFamily& family, Executor& executor);

// Whether the adapter's files have this parameter of the head whole, in place of the base model's, which may then be of
// another size.
bool replaces_head(const ProgramFamily& family, const Parameter& parameter);

// Writes model.safetensors (or shards) of the base model with the adapters merged in: W + scale·B·A in fp32,
// rounded once to the type that W has in the base's files. Other weights are copied from there; modules saved
// whole are as trained. Returns the type of most elements, which config.json names. UserError if there is no base;
// SystemError if it has changed since the start of the run.
DType save_merged_weights(const std::filesystem::path& directory, const OriginalWeights* base,
                          const ProgramFamily& family, const Executor& executor,
                          Communicator* ranks = nullptr);

}  // namespace shoehorn
