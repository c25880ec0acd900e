// The weights that a run starts from, and what it says of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "data/window_iterator.h"
#include "io/tensor_files.h"
#include "session/session.h"
#include "state/original_weights.h"

namespace shoehorn {

struct RunStart {
  std::filesystem::path weights = {};  // a directory; empty: every parameter from its initializer
  std::filesystem::path adapter = {};  // in PEFT's format, for the session's adapters; empty: new ones
  int64_t seed = 0;
  // Told where float16 may overflow (state/fp16_checkpoint.h), which parameters are new, and which files have no
  // checksum. Unset: silent.
  std::function<void(const std::string& line)> on_line = {};
};

// Reserves the session's memory, lends `windows` their staging, null where there is no training, and has the first
// anomaly named where that is asked for.
void reserve_run(Session& session, WindowIterator* windows, bool detect_anomaly);

// Says which of the files that weights were read from have no checksum to be verified by: those of Hugging Face, and of
// older versions. `on_line` unset: silent.
void say_without_checksums(const TensorFiles& files,
                           const std::function<void(const std::string& line)>& on_line);

// Puts the weights into a session that is reserved, and returns what they came from; none: all are new. Errors of start_weights and load_adapter; UserError where weights that only an evaluation
// reads would have to be drawn.
std::optional<OriginalWeights> start_run(const RunStart& start, Session& session);

}  // namespace shoehorn
