#include "train/run_identity.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/content_hash.h"
#include "base/error.h"
#include "exec/cpu/machine_limits.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/safetensors.h"
#include "train/weights.h"

namespace shoehorn {

namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 20;

std::string content_of_file(const std::filesystem::path& path) {
  ContentHash hash;
  const std::string text = read_text_file(path);
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

// Of the tensors that the model's parameters take, whatever else is in the files and however it is split.
std::string content_of_weights(const SafetensorsModel& files, const StateTable& state) {
  ContentHash hash;
  std::vector<std::byte> chunk(kChunkBytes);
  for (const Parameter& parameter : state.parameters()) {
    const std::string name = parameter.is_adapter ? std::string() : name_in_files(files, parameter.name);
    if (name.empty()) continue;
    const int64_t bytes = files.tensor(name).bytes;
    for (int64_t at = 0; at < bytes; at += kChunkBytes) {
      const auto part = std::span(chunk).first(static_cast<size_t>(std::min(kChunkBytes, bytes - at)));
      files.read_range(name, at, part);
      hash.add(part);
    }
  }
  return hash.hex();
}

}  // namespace

RunIdentity run_identity(const Dataset& training, const Dataset& evaluation,
                         const std::vector<std::filesystem::path>& companions,
                         const std::filesystem::path& base, const StateTable& state) {
  RunIdentity identity;
  identity.training_samples = training.size();
  identity.training_data = training.content_hash();
  if (evaluation.size() > 0) identity.evaluation_data = evaluation.content_hash();
  for (const std::filesystem::path& companion : companions)
    identity.companions[companion.filename().string()] = content_of_file(companion);
  if (!base.empty()) identity.base_weights = content_of_weights(SafetensorsModel::open(base), state);
  const MachineFacts machine = machine_facts();
  identity.machine = fmt::format("{}, {}", machine.isa, machine.products);
  return identity;
}

nlohmann::json to_json(const RunIdentity& identity) {
  return {{"training_samples", identity.training_samples}, {"training_data", identity.training_data},
          {"evaluation_data", identity.evaluation_data},   {"companions", identity.companions},
          {"base_weights", identity.base_weights},         {"machine", identity.machine}};
}

RunIdentity run_identity_from_json(const nlohmann::json& object, const std::string& source) {
  RunIdentity identity;
  const auto wrong = [&source](const std::string& key, const nlohmann::json& value) {
    return user_error("[{}: {}] expected what shoehorn writes, got {}", source, key, value.dump());
  };
  const auto read_text = [&wrong](const std::string& key, const nlohmann::json& value, std::string& member) {
    if (!value.is_string()) throw wrong(key, value);
    member = value.get<std::string>();
  };
  if (!object.is_object()) throw user_error("[{}] expected an object, got {}", source, object.type_name());
  for (const auto& [key, value] : object.items()) {
    if (key == "training_samples") {
      const std::optional<int64_t> samples = whole_number(value);
      if (!samples || *samples < 0) throw wrong(key, value);
      identity.training_samples = *samples;
    } else if (key == "training_data") {
      read_text(key, value, identity.training_data);
    } else if (key == "evaluation_data") {
      read_text(key, value, identity.evaluation_data);
    } else if (key == "companions") {
      if (!value.is_object()) throw wrong(key, value);
      for (const auto& [name, content] : value.items()) read_text(key, content, identity.companions[name]);
    } else if (key == "base_weights") {
      read_text(key, value, identity.base_weights);
    } else if (key == "machine") {
      read_text(key, value, identity.machine);
    }
  }
  return identity;
}

}  // namespace shoehorn
