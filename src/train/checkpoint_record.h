// The state files of a checkpoint, by name, and what they say of the run that wrote them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "train/run_identity.h"

namespace shoehorn {

inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
inline constexpr const char* kTrainerStateFile = "trainer_state.json";
inline constexpr const char* kArgumentsFile = "training_args.json";
inline constexpr const char* kRunStateFile = "shoehorn_state.json";

struct CheckpointRecord {
  nlohmann::json arguments;  // of the run, by flag name
  RunIdentity identity;      // members that an older checkpoint does not say are empty
  int64_t global_step = 0;
  int64_t samples_consumed = 0;
};

// kRunStateFile. UserError where there is none: the checkpoint has weights only.
nlohmann::json read_run_state(const std::filesystem::path& checkpoint);

// The object under `name`, and the number under `name` in one; UserError where there is none. Whole numbers are counts:
// 0 or more, and within T.
nlohmann::json object_in(const nlohmann::json& parent, const char* name, const std::filesystem::path& file);

template <typename T>
T number_in(const nlohmann::json& object, const char* name, const std::filesystem::path& file);

// UserError for a file that is missing, or has not what shoehorn writes.
CheckpointRecord read_checkpoint_record(const std::filesystem::path& checkpoint);

}  // namespace shoehorn
