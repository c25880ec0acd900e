// A new directory below the system's temporary one. The destructor removes it with its content.
#pragma once

#include <filesystem>

namespace shoehorn {

class ScratchDirectory {
 public:
  // SystemError if it cannot be created.
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace shoehorn
