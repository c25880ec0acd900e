// The calls that change what a disk holds, one function each. All that promises to survive a power cut goes through
// here (AtomicFile, checkpoint directories, manifests), so that a test can record what was done in which order, and
// replay it with what was not yet synced lost or out of order (power_loss_test.cc).
//
// Each returns 0 or errno, and is done again where a signal interrupted it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "io/file_descriptor.h"

namespace shoehorn {

struct FileOperation {
  enum class Kind { kCreate, kWrite, kResize, kSync, kRename, kUnlink, kMakeDirectory, kRemoveDirectory };
  Kind kind = Kind::kSync;
  std::filesystem::path path;
  std::filesystem::path to = {};         // kRename
  int64_t offset = 0;                    // kWrite; kResize: the new size
  std::span<const std::byte> data = {};  // kWrite; valid during the call
};

// Told of each operation after it was done. For tests: one at a time in a process, and one thread that writes.
using FileOperationRecorder = std::function<void(const FileOperation&)>;
void record_file_operations(FileOperationRecorder recorder);  // an empty one ends it

namespace file_operations {

// A new file for writing; EEXIST if there is one.
int create(const std::filesystem::path& path, FileDescriptor& descriptor);
// Writes a part of `data`, or all, at `offset`, where the descriptor stands; `written` says how much.
int write(const FileDescriptor& descriptor, const std::filesystem::path& path, int64_t offset,
          std::span<const std::byte> data, int64_t& written);
// Makes the file so long, its space reserved; EOPNOTSUPP or ENOSYS where the file system can't.
int reserve(const FileDescriptor& descriptor, const std::filesystem::path& path, int64_t bytes);
int resize(const FileDescriptor& descriptor, const std::filesystem::path& path, int64_t bytes);
// Brings a file, or a directory's list of names, to the disk.
int sync(const FileDescriptor& descriptor, const std::filesystem::path& path);
int rename(const std::filesystem::path& from, const std::filesystem::path& to);
int unlink(const std::filesystem::path& path);
int make_directory(const std::filesystem::path& path);
int remove_directory(const std::filesystem::path& path);

}  // namespace file_operations

}  // namespace shoehorn
