#include "io/file_operations.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

FileOperationRecorder recorder;  // empty except in tests

// The errno of a call that returns -1 on failure. Retries if a signal interrupts the call, and records what
// was done.
template <typename Call>
int done(const FileOperation& operation, const Call& call) {
  while (call() < 0) {
    if (errno != EINTR) return errno;
  }
  if (recorder) recorder(operation);
  return 0;
}

// `bytes` 0: to the end of the file. 0 where the file system cannot do it.
int sync_range(const FileDescriptor& descriptor, int64_t offset, int64_t bytes, unsigned how) {
  while (sync_file_range(descriptor.get(), offset, bytes, how) < 0) {
    if (errno == ENOSYS || errno == EINVAL || errno == ESPIPE) return 0;
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

void record_file_operations(FileOperationRecorder to) {
  recorder = std::move(to);
}

namespace file_operations {

using Kind = FileOperation::Kind;

int create(const fs::path& path, FileDescriptor& descriptor) {
  return done({Kind::kCreate, path}, [&] {
    descriptor = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    return descriptor.get();
  });
}

int write(const FileDescriptor& descriptor, const fs::path& path, int64_t offset,
          std::span<const std::byte> data, int64_t& written) {
  for (;;) {
    written = ::write(descriptor.get(), data.data(), std::min(data.size(), kMaxBytesPerCall));
    if (written >= 0) break;
    if (errno != EINTR) return errno;
  }
  if (recorder) recorder({Kind::kWrite, path, {}, offset, data.first(static_cast<size_t>(written))});
  return 0;
}

int write_back(const FileDescriptor& descriptor, int64_t from, int64_t to) {
  constexpr int64_t kPiece = kWrittenBackAtOnceBytes;
  constexpr unsigned kWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  const auto piece_that_ends = [&](int64_t end, unsigned how) {
    return sync_range(descriptor, end - kPiece, kPiece, how);
  };
  for (int64_t end = from - from % kPiece + kPiece; end <= to; end += kPiece) {
    int error_number = piece_that_ends(end, SYNC_FILE_RANGE_WRITE);
    if (error_number == 0 && end > kPiece) error_number = piece_that_ends(end - kPiece, kWait);
    if (error_number != 0) return error_number;
  }
  return 0;
}

int start_write_back(const FileDescriptor& descriptor) {
  return sync_range(descriptor, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int reserve(const FileDescriptor& descriptor, const fs::path& path, int64_t bytes) {
  return done({Kind::kResize, path, {}, bytes}, [&] { return fallocate(descriptor.get(), 0, 0, bytes); });
}

int resize(const FileDescriptor& descriptor, const fs::path& path, int64_t bytes) {
  return done({Kind::kResize, path, {}, bytes}, [&] { return ftruncate(descriptor.get(), bytes); });
}

int sync(const FileDescriptor& descriptor, const fs::path& path) {
  return done({Kind::kSync, path}, [&] { return fsync(descriptor.get()); });
}

int rename(const fs::path& from, const fs::path& to) {
  return done({Kind::kRename, from, to}, [&] { return std::rename(from.c_str(), to.c_str()); });
}

int unlink(const fs::path& path) {
  return done({Kind::kUnlink, path}, [&] { return ::unlink(path.c_str()); });
}

int make_directory(const fs::path& path) {
  return done({Kind::kMakeDirectory, path}, [&] { return mkdir(path.c_str(), 0777); });
}

int remove_directory(const fs::path& path) {
  return done({Kind::kRemoveDirectory, path}, [&] { return rmdir(path.c_str()); });
}

}  // namespace file_operations

}  // namespace shoehorn
