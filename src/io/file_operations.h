// The system calls that change what a disk holds, one function each. Everything that promises to survive a
// power cut (AtomicFile, checkpoint directories, manifests) calls these functions. So a test can record the
// operations in their order, and replay them with those not yet synced lost or reordered
// (power_loss_test.cc).
//
// Each function returns 0 or errno, and retries if a signal interrupts it.
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

// Linux moves at most 0x7ffff000 bytes a call.
constexpr size_t kMaxBytesPerCall = size_t{1} << 30;

// Of a file that is being written, twice as many bytes wait for the disk at the most (write_back).
constexpr int64_t kWrittenBackAtOnceBytes = int64_t{1} << 20;

// Called after each operation. For tests: at most one recorder per process, and one thread that writes.
using FileOperationRecorder = std::function<void(const FileOperation&)>;
void record_file_operations(FileOperationRecorder recorder);  // an empty one ends recording

namespace file_operations {

// Creates a new file for writing; EEXIST if the name is taken.
int create(const std::filesystem::path& path, FileDescriptor& descriptor);
// Writes `data` or its first part at `offset`, where the descriptor stands; `written` is how many bytes.
int write(const FileDescriptor& descriptor, const std::filesystem::path& path, int64_t offset,
          std::span<const std::byte> data, int64_t& written);
// Starts to bring the pieces of kWrittenBackAtOnceBytes that end in (from, to] to the disk, and waits for those before them. Pages that
// wait for the disk are charged to the memory cgroup of who wrote them, and the kernel cannot take them back: it ends a process
// whose group is full of them. Promises nothing that sync() does not; not recorded. 0 where the file system cannot do it.
int write_back(const FileDescriptor& descriptor, int64_t from, int64_t to);
// The same for all of it, without waiting: a sync() soon after finds little left to do.
int start_write_back(const FileDescriptor& descriptor);
// Extends the file to `bytes` and reserves the space; EOPNOTSUPP or ENOSYS if the file system cannot.
int reserve(const FileDescriptor& descriptor, const std::filesystem::path& path, int64_t bytes);
int resize(const FileDescriptor& descriptor, const std::filesystem::path& path, int64_t bytes);
// Syncs a file's bytes, or a directory's list of names, to the disk.
int sync(const FileDescriptor& descriptor, const std::filesystem::path& path);
int rename(const std::filesystem::path& from, const std::filesystem::path& to);
int unlink(const std::filesystem::path& path);
int make_directory(const std::filesystem::path& path);
int remove_directory(const std::filesystem::path& path);

}  // namespace file_operations

}  // namespace shoehorn
