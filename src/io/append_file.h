// A file that grows while a run goes on: what was written stays readable if the process is killed, but for a
// last line that may be cut.
#pragma once

#include <filesystem>
#include <string_view>

#include "io/file.h"

namespace shoehorn {

class AppendFile {
 public:
  // Opens or makes the file; writes go to its end. SystemError if it can't be.
  explicit AppendFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  // All of `data`, handed to the system at once: nothing stays in a buffer of ours. SystemError on failure.
  void write(std::string_view data);

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
};

}  // namespace shoehorn
