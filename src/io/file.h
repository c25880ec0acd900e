// Files, the two ways this room touches them: opened once and read at offsets, or written under a temporary
// name and renamed when complete, so that at any instant (kill -9, a full disk, a power cut) a path holds the
// old bytes or the new ones and never a part.
//
// Errors: UserError where the path itself is wrong (absent, not a regular file); SystemError naming the path
// where the system failed (a full disk, no permission, an input/output error).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_descriptor.h"

namespace shoehorn {

class ConcurrentHash;

// A regular file opened for reading. Reads are at offsets and share no state: any number of threads may read
// at once.
class ReadOnlyFile {
 public:
  // UserError where nothing has this name, or something that is not a regular file: a directory, a pipe, a
  // device. It never waits for one.
  static ReadOnlyFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  // Size when it was opened.
  int64_t bytes() const { return bytes_; }

  // Fills `destination` from byte `offset`. SystemError if the file ends before it is full.
  void read_at(int64_t offset, std::span<std::byte> destination) const;

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  int64_t bytes_ = 0;
};

// The whole of a small file.
std::string read_text_file(const std::filesystem::path& path);

// A file under construction beside its final name, as `.NAME.tmp-PID-K`. Destroyed without commit() it is
// removed; what a killed process leaves is removed by recover_checkpoints() (checkpoint_directory.h). In a directory
// of ChecksummedFiles it is checksummed as it is written. For one thread at a time.
class AtomicFile {
 public:
  // `expected_bytes`, if known, is reserved at once, so that a full disk is found before the work and not
  // after it. UserError where something has the name that is no regular file.
  explicit AtomicFile(std::filesystem::path path, int64_t expected_bytes = 0);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  const std::filesystem::path& path() const { return path_; }
  int64_t bytes_written() const { return bytes_written_; }

  void write(std::span<const std::byte> data);
  void write(std::string_view text);

  // Brings every byte to the disk and closes; write() may not follow. Lets several files be made ready before
  // the first is renamed.
  void seal();
  // seal(), rename to path(), sync the directory: the file is there after a power cut.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once renamed or moved from
  FileDescriptor descriptor_;
  int64_t reserved_bytes_ = 0;  // the file is at least this long until sealed
  int64_t bytes_written_ = 0;
  std::unique_ptr<ConcurrentHash> checksum_;  // null: outside ChecksummedFiles
};

void write_text_atomic(const std::filesystem::path& path, std::string_view text);

// Copies the bytes of a regular file; the destination appears complete or not at all.
void copy_file_atomic(const std::filesystem::path& source, const std::filesystem::path& destination);

// Makes the directory and those above it where they are absent, and brings each to the disk. SystemError.
void make_directories(const std::filesystem::path& directory);

// make_directories, and tries a file in it. SystemError where that fails: better before hours of work than after.
void ensure_writable_directory(const std::filesystem::path& directory);

// Brings a file or a directory's list of names to the disk.
void sync_path(const std::filesystem::path& path);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// A file, or a directory with all that is in it; nothing of that name is right too.
void remove_path(const std::filesystem::path& path);

// Whether there is something of that name, of whatever kind, a link to nowhere included. SystemError where that
// cannot be found out: a name that is too long, a directory that may not be searched.
bool path_exists(const std::filesystem::path& path);

// Directory a path lies in; "." for a bare name.
std::filesystem::path parent_directory(const std::filesystem::path& path);

// Names in a directory, sorted. SystemError if it can't be listed.
std::vector<std::string> list_directory(const std::filesystem::path& path);

// Whether a number taken from a file name can be a process id.
bool is_process_id(int64_t number);

// Process id in the name of a temporary file made by AtomicFile; 0 if `file_name` is not such a name.
int64_t temporary_file_process(std::string_view file_name);

// SystemError "[path] expected to ACTION, got REASON; hint".
[[noreturn]] void throw_system_error(const std::filesystem::path& path, std::string_view action,
                                     int error_number);

}  // namespace shoehorn
