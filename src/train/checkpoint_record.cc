#include "train/checkpoint_record.h"

#include <limits>
#include <optional>
#include <type_traits>

#include "base/error.h"
#include "io/json_file.h"
#include "train/trainer_state.h"

namespace shoehorn {

nlohmann::json read_run_state(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / kRunStateFile;
  if (std::error_code error; !std::filesystem::exists(file, error)) {
    throw user_error(
        "[--resume_from_checkpoint {}] expected a checkpoint with optimizer state, got one without {}; it "
        "was saved with --save_only_model or by another program",
        checkpoint.string(), kRunStateFile);
  }
  return read_json(file);
}

nlohmann::json object_in(const nlohmann::json& parent, const char* name, const std::filesystem::path& file) {
  if (parent.is_object() && parent.contains(name) && parent[name].is_object()) return parent[name];
  throw user_error("[{}] expected an object '{}', got none; is the file shoehorn's?", file.string(), name);
}

template <typename T>
T number_in(const nlohmann::json& object, const char* name, const std::filesystem::path& file) {
  const auto found = object.find(name);
  const auto wrong = [&](const char* expected) {
    return user_error("[{}: {}] expected {}, got {}", file.string(), name, expected,
                      found == object.end() ? "nothing" : found->dump());
  };
  if (found == object.end()) throw wrong("a number");
  if constexpr (std::is_integral_v<T>) {
    const std::optional<int64_t> count = whole_number(*found);
    if (!count || *count < 0 || *count > std::numeric_limits<T>::max())
      throw wrong("a whole number, 0 or more");
    return static_cast<T>(*count);
  } else {
    if (!found->is_number()) throw wrong("a number");
    return found->get<T>();
  }
}

template int32_t number_in(const nlohmann::json&, const char*, const std::filesystem::path&);
template int64_t number_in(const nlohmann::json&, const char*, const std::filesystem::path&);
template float number_in(const nlohmann::json&, const char*, const std::filesystem::path&);
template double number_in(const nlohmann::json&, const char*, const std::filesystem::path&);

CheckpointRecord read_checkpoint_record(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / kRunStateFile;
  const nlohmann::json state = read_run_state(checkpoint);
  const nlohmann::json position = object_in(state, "position", file);
  CheckpointRecord record;
  record.arguments = read_json(checkpoint / kArgumentsFile);
  record.identity = run_identity_from_json(object_in(state, "identity", file), file.string() + ": identity");
  record.global_step = load_trainer_state(checkpoint / kTrainerStateFile).global_step;
  record.samples_consumed = number_in<int64_t>(position, "samples_consumed", file);
  // Where it was before there was an identity.
  if (record.identity.training_samples == 0 && position.contains("training_samples"))
    record.identity.training_samples = number_in<int64_t>(position, "training_samples", file);
  return record;
}

}  // namespace shoehorn
