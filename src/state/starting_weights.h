// The weights that a run starts from, and the notices about them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "io/tensor_files.h"
#include "session/session.h"
#include "state/original_weights.h"

namespace shoehorn {

struct RunStart {
  std::filesystem::path weights = {};  // a directory; empty: new weights from the initializers
  std::filesystem::path adapter = {};  // in PEFT's format; empty: new ones
  int64_t seed = 0;
  // Whether a head in `weights` may have another size: it is not read then, and a new one is made.
  bool ignore_mismatched_sizes = false;
  // Called with notices: where float16 may overflow (state/fp16_checkpoint.h), which parameters are new,
  // which were not read, which files have no checksum. Unset: no notices.
  std::function<void(const std::string& line)> on_line = {};
};

// Reports which of the files that weights were read from have no checksums: those of Hugging Face and of
// older versions. Without `on_line` it does nothing.
void say_without_checksums(const TensorFiles& files,
                           const std::function<void(const std::string& line)>& on_line);
// The same of all files of tensors in a checkpoint.
void say_without_checksums(const std::filesystem::path& checkpoint,
                           const std::function<void(const std::string& line)>& on_line);

// Loads the weights into a reserved session and returns the files that they came from; nullopt if all are
// new. Errors of start_weights and load_adapter; UserError if an evaluation-only run lacks weights, which
// would then be random.
std::optional<OriginalWeights> start_run(const RunStart& start, Session& session);

}  // namespace shoehorn
