// Recorded trees of system files, for the tests of what reads them.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "base/error.h"

namespace shoehorn {

// Text by name below the root.
using Files = std::map<std::string, std::string>;

// Files below a root of their own, which is removed with the object: trees as /proc and the cgroup file systems show
// them.
class RecordedTree {
 public:
  explicit RecordedTree(const Files& files) {
    std::string pattern = (std::filesystem::temp_directory_path() / "shoehorn-tree-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw system_error("[{}] expected a new directory", pattern);
    root_ = pattern;
    for (const auto& [name, text] : files) {
      std::filesystem::create_directories((root_ / name).parent_path());
      std::ofstream(root_ / name, std::ios::binary) << text;
    }
  }
  RecordedTree(const RecordedTree&) = delete;
  RecordedTree& operator=(const RecordedTree&) = delete;
  ~RecordedTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  const std::filesystem::path& root() const { return root_; }

 private:
  std::filesystem::path root_;
};

}  // namespace shoehorn
