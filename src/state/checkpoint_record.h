// The state files of a checkpoint, by name, and the record of the run that wrote them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "state/resume_state.h"

namespace shoehorn {

inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kTrainerStateFile = "trainer_state.json";
inline constexpr const char* kArgumentsFile = "training_args.json";
inline constexpr const char* kRunStateFile = "shoehorn_state.json";

struct CheckpointRecord {
  nlohmann::json arguments;  // of the run, by flag name
  ResumeState state;
  int64_t global_step = 0;
};

// Reads kRunStateFile. UserError if it does not exist: the checkpoint has weights only.
ResumeState read_run_state(const std::filesystem::path& checkpoint);

// UserError if a file is missing or was not written by Shoehorn.
CheckpointRecord read_checkpoint_record(const std::filesystem::path& checkpoint);

}  // namespace shoehorn
