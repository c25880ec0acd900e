// Reading files at offsets, and writing them atomically: under a temporary name, renamed when complete. So at
// any instant (kill -9, a full disk, a power cut) a path holds the old bytes or the new ones, never a part of
// either.
//
// Errors: UserError if the path itself is wrong (it does not exist, or is not a regular file); SystemError
// naming the path if the operating system failed (a full disk, no permission, an input/output error).
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

// A regular file, opened for reading. Reads share no state, so any number of threads may read at once.
class ReadOnlyFile {
 public:
  // UserError if nothing has this name, or if it is a directory, a pipe or a device. Opening never blocks.
  static ReadOnlyFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  // The size at the time of opening.
  int64_t bytes() const { return bytes_; }

  // Fills `destination` with the bytes from `offset` on. SystemError if the file ends before it is full.
  void read_at(int64_t offset, std::span<std::byte> destination) const;

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  int64_t bytes_ = 0;
};

// The whole content of a small file.
std::string read_text_file(const std::filesystem::path& path);

// A file under construction, named `.NAME.tmp-PID-K` beside its final name. If it is destroyed before
// commit(), it is removed; recover_checkpoints() (checkpoint_directory.h) removes what a killed process left.
// In a directory of ChecksummedFiles it is checksummed as it is written. Not thread-safe.
class AtomicFile {
 public:
  // `expected_bytes`, if known, are reserved at once, so that a full disk is found before the work and not
  // after it. UserError if something that is not a regular file has the final name.
  explicit AtomicFile(std::filesystem::path path, int64_t expected_bytes = 0);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  const std::filesystem::path& path() const { return path_; }
  int64_t bytes_written() const { return bytes_written_; }

  void write(std::span<const std::byte> data);
  void write(std::string_view text);

  // Syncs every byte to the disk and closes the file; no write() may follow. A caller with several files can
  // seal() all of them before it commits the first.
  void seal();
  // seal(), rename to path(), sync the directory. After that the file survives a power cut. In a directory whose files get
  // to the disk together (ChecksummedFiles) nothing is synced here.
  void commit();

 private:
  void write_piece(std::span<const std::byte> data);

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once renamed or moved from
  FileDescriptor descriptor_;
  int64_t reserved_bytes_ = 0;  // the file is at least this long until seal()
  int64_t bytes_written_ = 0;
  std::unique_ptr<ConcurrentHash> checksum_;  // null outside of ChecksummedFiles
};

void write_text_atomic(const std::filesystem::path& path, std::string_view text);

// Copies the bytes of a regular file. The destination appears complete or not at all.
void copy_file_atomic(const std::filesystem::path& source, const std::filesystem::path& destination);

// Places for output have one rule: a directory that is named is made, with its missing parents. UserError if none can be
// there, or no file in it: another path would do. SystemError if the system failed, as on a full disk.

// Creates the directory and its missing parents, and syncs each to the disk.
void make_directories(const std::filesystem::path& directory);

// make_directories, then tries to create a file inside: a user should learn it before hours of work, not after.
void ensure_writable_directory(const std::filesystem::path& directory);

// The same check without making anything: a file is tried in the nearest directory there is.
void require_writable_directory(const std::filesystem::path& directory);

// Syncs a file's bytes, or a directory's list of names, to the disk.
void sync_path(const std::filesystem::path& path);

// Syncs the names in the directory of `file`, but where files get to the disk together (ChecksummedFiles).
void sync_names_beside(const std::filesystem::path& file);

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// Removes a file, or a directory with its content. It is no error if nothing has that name.
void remove_path(const std::filesystem::path& path);

// True if anything has that name, including a dangling link. SystemError if that cannot be determined (a name
// that is too long, a directory without search permission).
bool path_exists(const std::filesystem::path& path);

// The directory that contains a path; "." for a bare name.
std::filesystem::path parent_directory(const std::filesystem::path& path);

// The names in a directory, sorted. SystemError if it cannot be listed.
std::vector<std::string> list_directory(const std::filesystem::path& path);

// True if a number taken from a file name can be a process id.
bool is_process_id(int64_t number);

// The process id in the name of an AtomicFile's temporary file; 0 for any other name.
int64_t temporary_file_process(std::string_view file_name);

// Throws SystemError "[path] expected to ACTION, got REASON; hint".
[[noreturn]] void throw_system_error(const std::filesystem::path& path, std::string_view action,
                                     int error_number);

}  // namespace shoehorn
