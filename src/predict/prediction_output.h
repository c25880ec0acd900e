// Where predictions go: a file that appears whole or not at all, or standard output as they come.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "io/file.h"

namespace shoehorn {

// Not thread-safe.
class PredictionOutput {
 public:
  // "-" is standard output. Errors of AtomicFile for others.
  explicit PredictionOutput(const std::filesystem::path& path);

  // SystemError if that fails. What goes to standard output is flushed.
  void write(std::string_view text);
  // Call it once, after the last write: the file takes its name.
  void finish();

 private:
  std::optional<AtomicFile> file_;  // none: standard output
};

}  // namespace shoehorn
