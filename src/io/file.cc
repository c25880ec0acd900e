#include "io/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "io/checksummed_files.h"
#include "io/concurrent_hash.h"
#include "io/file_operations.h"

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

std::string free_space_hint(const fs::path& path) {
  struct statvfs facts{};
  if (statvfs(parent_directory(path).c_str(), &facts) != 0) return "free some space on this disk";
  return fmt::format(
      "{} are free there; free some space or choose another output directory",
      format_bytes(static_cast<int64_t>(facts.f_bavail) * static_cast<int64_t>(facts.f_frsize)));
}

std::string hint_for(const fs::path& path, int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return free_space_hint(path);
    case EFBIG:
      return "the file system or the process's limit (ulimit -f) does not allow a file of this size";
    case EROFS:
    case EACCES:
    case EPERM:
      return "check the permissions or choose another directory";
    case ENOTDIR:
      return "a part of this path is not a directory";
    case ENOENT:
      return "the directory does not exist";
    case ENAMETOOLONG:
    case ELOOP:
      return "check the path";
    case EMFILE:
    case ENFILE:
      return "too many open files (ulimit -n)";
    default:
      return "check the disk and the file system";
  }
}

[[noreturn]] void throw_not_regular(const fs::path& path, std::string_view kind) {
  throw user_error("[{}] expected a regular file, got a {}; check the path", path.string(), kind);
}

// A file that is complete takes the place of what has its name: never that of a directory or a device, nor of
// /dev/stdout, which is a link to a descriptor.
void check_replaceable(const fs::path& path) {
  std::error_code error;
  const bool is_descriptor = fs::read_symlink(path, error).native().starts_with("/proc/");
  const fs::file_status status = fs::status(path, error);
  if (!is_descriptor && (!fs::exists(status) || fs::is_regular_file(status))) return;
  throw user_error("[{}] expected a regular file or nothing of that name, got a {}; choose another name",
                   path.string(), fs::is_directory(status) ? "directory" : "pipe or device");
}

// Whether another path would do: the caller's to correct, unlike a full disk or one that fails.
bool is_of_the_path(int error_number) {
  switch (error_number) {
    case EROFS:
    case EACCES:
    case EPERM:
    case ENOTDIR:
    case ENOENT:
    case ENAMETOOLONG:
    case ELOOP:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void throw_no_output_directory(const fs::path& directory, int error_number) {
  if (!is_of_the_path(error_number)) throw_system_error(directory, "write into this directory", error_number);
  throw user_error("[{}] expected a directory that can be written, or made, got '{}'; choose another",
                   directory.string(), std::generic_category().message(error_number));
}

// Creates `.NAME.tmp-PID-K` beside `path`; K makes names of one process differ, O_EXCL steps over an earlier
// process's leftover that had the same id. Returns the error's number, 0 if there is none.
int create_temporary(const fs::path& path, fs::path& temporary, FileDescriptor& descriptor) {
  static std::atomic<int64_t> counter{0};
  int error_number = EEXIST;
  while (error_number == EEXIST) {
    const std::string name =
        fmt::format(".{}.tmp-{}-{}", path.filename().string(), getpid(), counter.fetch_add(1));
    temporary = parent_directory(path) / name;
    error_number = file_operations::create(temporary, descriptor);
  }
  // Tells recover_checkpoints that this file has an owner; where there are no locks, the id in its name does.
  if (error_number == 0)
    flock(descriptor.get(), LOCK_EX | LOCK_NB);
  else
    temporary.clear();
  return error_number;
}

// Creates a file in a directory that exists, writes to it and removes it. An error names `asked`.
void probe_directory(const fs::path& directory, const fs::path& asked) {
  fs::path temporary;
  FileDescriptor descriptor;
  int error_number = create_temporary(directory / "write-test", temporary, descriptor);
  if (error_number != 0) throw_no_output_directory(asked, error_number);
  int64_t written = 0;
  error_number = file_operations::write(descriptor, temporary, 0, std::as_bytes(std::span("\n", 1)), written);
  file_operations::unlink(temporary);
  if (error_number != 0) throw_no_output_directory(asked, error_number);
}

}  // namespace

void throw_system_error(const fs::path& path, std::string_view action, int error_number) {
  throw system_error("[{}] expected to {}, got '{}'; {}", path.string(), action,
                     std::generic_category().message(error_number), hint_for(path, error_number));
}

bool path_exists(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::none) throw_system_error(path, "look for this path", error.value());
  return fs::exists(status);
}

fs::path parent_directory(const fs::path& path) {
  fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

ReadOnlyFile ReadOnlyFile::open(const fs::path& path) {
  // A name from a JSON file may hold one; the system would take what stands before it.
  if (path.native().find('\0') != std::string::npos) {
    throw user_error("[{}] expected a path, got one with a NUL byte in it", path.c_str());
  }
  ReadOnlyFile file;
  file.path_ = path;
  // O_NONBLOCK: opening a named pipe must fail below rather than wait for a writer.
  file.descriptor_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.descriptor_.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) {
      throw user_error("[{}] expected a file, got nothing of that name; check the path", path.string());
    }
    // What a socket, or a device without a driver, gives.
    if (errno == ENXIO || errno == ENODEV) throw_not_regular(path, "pipe or device");
    throw_system_error(path, "open this file", errno);
  }
  struct stat facts{};
  if (fstat(file.descriptor_.get(), &facts) != 0) throw_system_error(path, "read this file's size", errno);
  if (!S_ISREG(facts.st_mode)) {
    throw_not_regular(path, S_ISDIR(facts.st_mode) ? "directory" : "pipe or device");
  }
  file.bytes_ = facts.st_size;
  return file;
}

void ReadOnlyFile::read_at(int64_t offset, std::span<std::byte> destination) const {
  CHECK(offset >= 0, "offset {}", offset);
  size_t done = 0;
  while (done < destination.size()) {
    const size_t wanted = std::min(destination.size() - done, kMaxBytesPerCall);
    const ssize_t got =
        pread(descriptor_.get(), destination.data() + done, wanted, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw_system_error(path_, fmt::format("read {} bytes at offset {}", destination.size(), offset), errno);
    if (got == 0) {
      throw system_error(
          "[{}] expected {} bytes at offset {}, got {} before the file's end; was it changed while being "
          "read?",
          path_.string(), destination.size(), offset, done);
    }
    done += static_cast<size_t>(got);
  }
}

std::string read_text_file(const fs::path& path) {
  const ReadOnlyFile file = ReadOnlyFile::open(path);
  std::string text(static_cast<size_t>(file.bytes()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

AtomicFile::AtomicFile(fs::path path, int64_t expected_bytes) : path_(std::move(path)) {
  CHECK(!path_.empty() && expected_bytes >= 0, "path '{}', {} bytes", path_.string(), expected_bytes);
  if (!path_.has_filename())
    throw user_error("[{}] expected the name of a file, got that of a directory", path_.string());
  check_replaceable(path_);
  if (const int error_number = create_temporary(path_, temporary_, descriptor_); error_number != 0)
    throw_system_error(path_, "create this file", error_number);
  if (ChecksummedFiles::covers(path_)) checksum_ = std::make_unique<ConcurrentHash>();
  if (expected_bytes == 0) return;
  const int error_number = file_operations::reserve(descriptor_, temporary_, expected_bytes);
  // Some file systems can't reserve: there a full disk is found while writing.
  if (error_number == 0) reserved_bytes_ = expected_bytes;
  if (error_number == 0 || error_number == EOPNOTSUPP || error_number == ENOSYS) return;
  file_operations::unlink(temporary_);  // no destructor runs for an object whose constructor throws
  throw_system_error(path_, fmt::format("reserve {} bytes", expected_bytes), error_number);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, fs::path())),
      descriptor_(std::move(other.descriptor_)),
      reserved_bytes_(other.reserved_bytes_),
      bytes_written_(other.bytes_written_),
      checksum_(std::move(other.checksum_)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) file_operations::unlink(temporary_);
}

void AtomicFile::write(std::span<const std::byte> data) {
  CHECK(descriptor_.is_open(), "write to '{}' after it was sealed", path_.string());
  // Hashed no further ahead than a cache holds: the bytes come from memory once, for the hash and for the disk.
  constexpr size_t kHashedAtOnceBytes = size_t{4} << 20;
  while (checksum_ && data.size() > kHashedAtOnceBytes) {
    write_piece(data.first(kHashedAtOnceBytes));
    data = data.subspan(kHashedAtOnceBytes);
  }
  write_piece(data);
}

void AtomicFile::write_piece(std::span<const std::byte> data) {
  const auto hashing = checksum_ ? checksum_->begin(data) : ConcurrentHash::Pending(nullptr);
  while (!data.empty()) {
    int64_t written = 0;
    const auto next = data.first(std::min(data.size(), static_cast<size_t>(kWrittenBackAtOnceBytes)));
    int error_number = file_operations::write(descriptor_, temporary_, bytes_written_, next, written);
    if (error_number == 0)
      error_number = file_operations::write_back(descriptor_, bytes_written_, bytes_written_ + written);
    if (error_number != 0) {
      throw_system_error(path_, fmt::format("write {} bytes at offset {}", data.size(), bytes_written_),
                         error_number);
    }
    data = data.subspan(static_cast<size_t>(written));
    bytes_written_ += written;
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::seal() {
  if (!descriptor_.is_open()) return;
  if (bytes_written_ < reserved_bytes_) {
    const int error_number = file_operations::resize(descriptor_, temporary_, bytes_written_);
    if (error_number != 0) throw_system_error(path_, "give back reserved space", error_number);
  }
  if (const int error_number = ChecksummedFiles::syncs_together(path_)
                                   ? file_operations::start_write_back(descriptor_)
                                   : file_operations::sync(descriptor_, temporary_);
      error_number != 0)
    throw_system_error(path_, "bring this file to the disk", error_number);
  if (const int error_number = descriptor_.close(); error_number != 0) {
    throw_system_error(path_, "close this file", error_number);
  }
}

void AtomicFile::commit() {
  CHECK(!temporary_.empty(), "'{}' committed twice", path_.string());
  seal();
  if (checksum_) ChecksummedFiles::announce(path_);
  rename_path(temporary_, path_);
  temporary_.clear();
  if (checksum_) ChecksummedFiles::add(path_, {bytes_written_, checksum_->hex()});
  sync_names_beside(path_);
}

void write_text_atomic(const fs::path& path, std::string_view text) {
  AtomicFile file(path, static_cast<int64_t>(text.size()));
  file.write(text);
  file.commit();
}

void copy_file_atomic(const fs::path& source, const fs::path& destination) {
  const ReadOnlyFile from = ReadOnlyFile::open(source);
  AtomicFile to(destination, from.bytes());
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<int64_t>(from.bytes(), int64_t{1} << 20)));
  for (int64_t at = 0; at < from.bytes();) {
    const auto chunk = std::span(buffer).first(
        static_cast<size_t>(std::min<int64_t>(from.bytes() - at, static_cast<int64_t>(buffer.size()))));
    from.read_at(at, chunk);
    to.write(chunk);
    at += static_cast<int64_t>(chunk.size());
  }
  to.commit();
}

void sync_path(const fs::path& path) {
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.is_open()) throw_system_error(path, "open it to bring it to the disk", errno);
  const int error_number = file_operations::sync(descriptor, path);
  // EINVAL: this file system has no sync for directories (and needs none of us).
  if (error_number != 0 && error_number != EINVAL)
    throw_system_error(path, "bring it to the disk", error_number);
}

void sync_names_beside(const fs::path& file) {
  if (!ChecksummedFiles::syncs_together(file)) sync_path(parent_directory(file));
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (const int error_number = file_operations::rename(from, to); error_number != 0)
    throw_system_error(to, fmt::format("rename '{}' to it", from.filename().string()), error_number);
}

void remove_path(const fs::path& path) {
  std::error_code error;
  int error_number = 0;
  if (fs::is_directory(fs::symlink_status(path, error))) {
    for (const std::string& name : list_directory(path)) remove_path(path / name);
    error_number = file_operations::remove_directory(path);
  } else {
    error_number = file_operations::unlink(path);
  }
  if (error_number != 0 && error_number != ENOENT) throw_system_error(path, "delete it", error_number);
}

std::vector<std::string> list_directory(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) throw_system_error(path, "list this directory", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

void make_directories(const fs::path& directory) {
  std::error_code error;
  if (fs::is_directory(directory, error)) return;
  const fs::path path = (directory / "").parent_path();  // without a slash at its end
  const fs::path parent = parent_directory(path);
  if (parent != path) make_directories(parent);
  const int error_number = file_operations::make_directory(path);
  if (error_number != 0 && !fs::is_directory(path, error)) {
    if (error_number == EEXIST && fs::exists(path, error))
      throw user_error("[{}] expected a directory, got a file of that name; choose another name",
                       path.string());
    throw_no_output_directory(path, error_number);
  }
  sync_path(parent);
}

void ensure_writable_directory(const fs::path& directory) {
  make_directories(directory);
  probe_directory(directory, directory);
}

void require_writable_directory(const fs::path& directory) {
  std::error_code error;
  fs::path existing = (directory / "").parent_path();
  for (fs::file_status status = fs::status(existing, error); !fs::exists(status);
       status = fs::status(existing, error)) {
    if (is_of_the_path(error.value()) && error.value() != ENOENT && error.value() != ENOTDIR)
      throw_no_output_directory(directory, error.value());
    if (parent_directory(existing) == existing) break;
    existing = parent_directory(existing);
  }
  if (!fs::is_directory(existing, error))
    throw user_error("[{}] expected a directory, got a file of that name; choose another name",
                     existing.string());
  probe_directory(existing, directory);
}

bool is_process_id(int64_t number) {
  return number > 0 && number <= std::numeric_limits<pid_t>::max();
}

int64_t temporary_file_process(std::string_view file_name) {
  constexpr std::string_view kMark = ".tmp-";
  const size_t mark = file_name.rfind(kMark);
  if (file_name.empty() || file_name[0] != '.' || mark == std::string_view::npos || mark < 2) return 0;
  const char* end = file_name.data() + file_name.size();
  int64_t process = 0;
  int64_t count = 0;
  const auto id = std::from_chars(file_name.data() + mark + kMark.size(), end, process);
  if (id.ec != std::errc() || id.ptr == end || *id.ptr != '-') return 0;
  const auto number = std::from_chars(id.ptr + 1, end, count);
  return number.ec == std::errc() && number.ptr == end && is_process_id(process) ? process : 0;
}

}  // namespace shoehorn
