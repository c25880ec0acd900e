// A new directory among the system's temporary ones, removed with all that is in it.
#pragma once

#include <filesystem>

namespace shoehorn {

class ScratchDirectory {
 public:
  // SystemError where none can be made.
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace shoehorn
