// A file that grows while a run goes on, such as a log. If the process is killed, everything written so far
// stays readable; only the last line may be incomplete.
#pragma once

#include <filesystem>
#include <string_view>

#include "io/file.h"

namespace shoehorn {

class AppendFile {
 public:
  // Opens or creates the file; writes go to its end. SystemError on failure.
  explicit AppendFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  // Hands all of `data` to the operating system; nothing stays in a buffer of this process. SystemError on
  // failure.
  void write(std::string_view data);

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
};

}  // namespace shoehorn
