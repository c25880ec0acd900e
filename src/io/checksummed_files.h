// The checksums of files, taken while they are written.
//
//   ChecksummedFiles checksums(directory);
//   … whatever writes files there by AtomicFile, at any depth of calls …
//   checksums.files()["model.safetensors"]
//
// A file's checksum is thus that of the bytes that were meant, not of what a disk gave back. Files outside any such
// directory are not checksummed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

namespace shoehorn {

struct WrittenFile {
  int64_t bytes = 0;
  std::string xxh128;
};

class ChecksummedFiles {
 public:
  // `directory` as the writers' paths begin. Any thread may write. `before_first` is
  // called once: when the first file is complete, and before it takes its name.
  explicit ChecksummedFiles(std::filesystem::path directory, std::function<void()> before_first = {});
  ~ChecksummedFiles();
  ChecksummedFiles(const ChecksummedFiles&) = delete;
  ChecksummedFiles& operator=(const ChecksummedFiles&) = delete;

  // What was written so far, by path below the directory. Not while a thread is writing.
  const std::map<std::string, WrittenFile>& files() const { return files_; }

  // For AtomicFile: whether a file of this path is to be checksummed; it takes its name now; it has it.
  static bool covers(const std::filesystem::path& path);
  static void announce(const std::filesystem::path& path);
  static void add(const std::filesystem::path& path, WrittenFile written);

 private:
  std::filesystem::path directory_;
  std::function<void()> before_first_;  // empty once called
  std::map<std::string, WrittenFile> files_;
};

}  // namespace shoehorn
