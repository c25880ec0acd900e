#include "state/checkpoint_record.h"

#include "base/error.h"
#include "io/file.h"
#include "io/json_file.h"
#include "state/trainer_state.h"

namespace shoehorn {

ResumeState read_run_state(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / kRunStateFile;
  if (!path_exists(file)) {
    throw user_error(
        "[--resume_from_checkpoint {}] expected a checkpoint with optimizer state, got one without {}; it "
        "was saved with --save_only_model or by another program",
        checkpoint.string(), kRunStateFile);
  }
  return resume_state_from_json(read_json(file), file.string());
}

CheckpointRecord read_checkpoint_record(const std::filesystem::path& checkpoint) {
  return {.arguments = read_json(checkpoint / kArgumentsFile),
          .state = read_run_state(checkpoint),
          .global_step = load_trainer_state(checkpoint / kTrainerStateFile).global_step};
}

}  // namespace shoehorn
