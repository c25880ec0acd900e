#include "state/run_identity.h"

#include <algorithm>
#include <span>

#include "base/content_hash.h"
#include "base/error.h"
#include "io/file_content.h"
#include "io/model_directory.h"
#include "io/tensor_files.h"
#include "state/weights.h"

namespace shoehorn {

std::string content_of_weights(const std::filesystem::path& directory, const StateTable& state,
                               bool is_sample) {
  constexpr int64_t kChunkBytes = int64_t{1} << 20;
  const TensorFiles files = TensorFiles::open_weights(directory);
  ContentHash hash;
  std::vector<std::byte> chunk(kChunkBytes);
  for (const Parameter& parameter : state.parameters()) {
    const std::string name =
        parameter.is_adapter ? std::string() : name_in_files(files, state, parameter.name);
    if (name.empty()) continue;
    const int64_t bytes = files.tensor(name).bytes;
    for (int64_t at = 0; at < bytes; at += kChunkBytes) {
      const bool is_inner = at > 0 && at + kChunkBytes < bytes;
      if (is_sample && is_inner) continue;
      const auto part = std::span(chunk).first(static_cast<size_t>(std::min(kChunkBytes, bytes - at)));
      files.read_range(name, at, part);
      hash.add(part);
    }
  }
  return hash.hex();
}

RunIdentity run_identity(const Dataset& training, const Dataset& evaluation,
                         const std::vector<std::filesystem::path>& companions,
                         const std::filesystem::path& base, const StateTable& state,
                         const MachineProfile& machine, const ByteProgress& on_progress) {
  RunIdentity identity;
  identity.training_samples = training.epoch_size();
  identity.training_data = training.content_hash(on_progress);
  if (evaluation.size() > 0) identity.evaluation_data = evaluation.content_hash(on_progress);
  for (const std::filesystem::path& companion : companions)
    identity.companions[companion_name(companion)] = content_of_file(companion);
  if (!base.empty()) identity.base_weights = content_of_weights(base, state);
  identity.machine = fmt::format("{}, {}", machine.isa, machine.products);
  return identity;
}

}  // namespace shoehorn
