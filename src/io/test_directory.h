// Shared by tests of this and later rooms: a directory that removes itself, files of given bytes, the
// goldens' path.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error_testing.h"
#include "io/file.h"

namespace shoehorn {

class TestDirectory {
 public:
  TestDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shoehorn-io-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw system_error("[{}] expected a new directory", pattern);
    path_ = pattern;
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::filesystem::path& name, std::string_view bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::error_code absent;
    std::filesystem::remove(path_ / name, absent);  // ext4 syncs a truncated file
    std::ofstream(path_ / name, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Changes the file in place: ext4 would sync a file that is written anew.
inline void flip_bit(const std::filesystem::path& path, int64_t bit) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(bit / 8);
  const int was = file.get();
  file.seekp(bit / 8);
  file.put(static_cast<char>(was ^ (1 << (bit % 8))));
  ASSERT_TRUE(file.good()) << path << " " << bit;
}

inline std::filesystem::path golden(std::string_view name) {
  return std::filesystem::path(SHOEHORN_SOURCE_DIR) / "tests/golden" / name;
}

}  // namespace shoehorn
