// Takes the checksums of the files in a directory while they are written.
//
//   ChecksummedFiles checksums(directory, FileSync::kEach);
//   … any code that writes files there with AtomicFile …
//   checksums.files()["model.safetensors"]
//
// The checksum is thus that of the bytes the program meant to write, not of what the disk gives back. Files
// outside of every such directory are not checksummed.
//
// Where nobody reads the directory before all of it is on the disk and it gets its name, files need not wait for the disk
// one after the other (FileSync::kTogether).
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

enum class FileSync {
  kEach,      // a file is on the disk when AtomicFile::commit() returns
  kTogether,  // the caller brings all files and names of the directory to the disk, as write_manifest() does
};

class ChecksummedFiles {
 public:
  // `directory` as the writers' paths begin. Any thread may write. `before_first` is
  // called once: when the first file is complete, and before it takes its name.
  ChecksummedFiles(std::filesystem::path directory, FileSync sync, std::function<void()> before_first = {});
  ~ChecksummedFiles();
  ChecksummedFiles(const ChecksummedFiles&) = delete;
  ChecksummedFiles& operator=(const ChecksummedFiles&) = delete;

  // The files written so far, by path relative to the directory. Do not call it while a thread is writing.
  const std::map<std::string, WrittenFile>& files() const { return files_; }

  // Called by AtomicFile: is a file of this path to be checksummed? / does the caller bring it to the disk? / it is
  // about to take its name / it is complete.
  static bool covers(const std::filesystem::path& path);
  static bool syncs_together(const std::filesystem::path& path);
  static void announce(const std::filesystem::path& path);
  static void add(const std::filesystem::path& path, WrittenFile written);

 private:
  std::filesystem::path directory_;
  FileSync sync_;
  std::function<void()> before_first_;  // empty after the call
  std::map<std::string, WrittenFile> files_;
};

}  // namespace shoehorn
