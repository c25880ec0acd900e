#include "io/directory_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/process.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kLockFile = ".shoehorn_lock";

// A lock that this process holds.
struct Held {
  fs::path file;
  std::thread::id thread;
  int64_t count = 0;
  bool is_enforced = true;
  FileDescriptor descriptor;
};

std::mutex held_mutex;
std::vector<Held> held;  // guarded by `held_mutex`

// A child has its own copies of the descriptors, which would hold the locks past the parent's end.
void close_in_children() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork([] { held_mutex.lock(); }, [] { held_mutex.unlock(); },
                   [] {
                     held.clear();
                     held_mutex.unlock();
                   });
  });
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

struct LockHolder {
  int64_t process = 0;
  std::string host;
  std::string since;
};

LockHolder this_process() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return {getpid(), host_name(), text.data()};
}

void write_owner(const fs::path& file, const FileDescriptor& descriptor) {
  const LockHolder owner = this_process();
  const std::string text = format_json(
      json{{"process", owner.process}, {"host", owner.host}, {"since", owner.since}}, {.indent = -1});
  if (ftruncate(descriptor.get(), 0) != 0 ||
      pwrite(descriptor.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    throw_system_error(file, "write who has the lock", errno);
  }
}

std::optional<LockHolder> read_owner(const fs::path& file) {
  try {
    const json text = read_json(file);
    return LockHolder{text.at("process").get<int64_t>(), text.at("host").get<std::string>(),
                      text.at("since").get<std::string>()};
  } catch (const std::exception&) {
    return std::nullopt;  // being written, or removed meanwhile
  }
}

bool has_ended(const LockHolder& owner) {
  return owner.host == host_name() && !is_process_running(owner.process);
}

UserError refusal(const fs::path& file) {
  const std::optional<LockHolder> owner = read_owner(file);
  const std::string who =
      !owner ? std::string("another process")
             : fmt::format("process {}{} on {}, since {}", owner->process,
                           owner->process == getpid() ? " (this one, in another thread)" : "", owner->host,
                           owner->since);
  return user_error(
      "[{}] expected a directory that no other run writes to, got one that is held by {}; wait until it has ended, or "
      "give another directory",
      parent_directory(file).string(), who);
}

enum class Attempt { kLocked, kHeldByAnother, kNoLocks, kFileChanged };

Attempt try_lock(const fs::path& file, FileDescriptor& descriptor) {
  // A link would have the holder's name written into whatever file it leads to.
  descriptor = FileDescriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!descriptor.is_open()) throw_system_error(file, "make this file", errno);
  int result = 0;
  do {
    result = flock(descriptor.get(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0) return errno == EWOULDBLOCK ? Attempt::kHeldByAnother : Attempt::kNoLocks;
  // The previous owner removes the file. A lock on a file that has lost its name is worth nothing.
  struct stat locked{};
  struct stat named{};
  const bool is_same = fstat(descriptor.get(), &locked) == 0 && stat(file.c_str(), &named) == 0 &&
                       locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
  return is_same ? Attempt::kLocked : Attempt::kFileChanged;
}

// Retries for half a second if no living owner is named: a process that has just taken the lock may not have
// written its name yet, and a child that was just forked by an ended process may not have closed the file
// yet.
Attempt lock(const fs::path& file, FileDescriptor& descriptor) {
  using namespace std::chrono_literals;
  for (int turn = 0;; ++turn) {
    Attempt attempt = Attempt::kFileChanged;
    while (attempt == Attempt::kFileChanged) attempt = try_lock(file, descriptor);
    if (attempt != Attempt::kHeldByAnother || turn == 50) return attempt;
    const std::optional<LockHolder> owner = read_owner(file);
    if (owner && !has_ended(*owner)) return attempt;
    std::this_thread::sleep_for(10ms);
  }
}

}  // namespace

DirectoryLock::DirectoryLock(const fs::path& directory) {
  ensure_writable_directory(directory);
  std::error_code error;
  const fs::path canonical = fs::canonical(directory, error);
  if (error) throw_system_error(directory, "find this directory", error.value());
  file_ = canonical / kLockFile;
  close_in_children();
  const std::scoped_lock guard(held_mutex);
  const auto ours =
      std::find_if(held.begin(), held.end(), [&](const Held& one) { return one.file == file_; });
  if (ours != held.end()) {
    if (ours->thread != std::this_thread::get_id()) throw refusal(file_);
    ++ours->count;
    is_enforced_ = ours->is_enforced;
    return;
  }
  FileDescriptor descriptor;
  const Attempt attempt = lock(file_, descriptor);
  if (attempt == Attempt::kHeldByAnother) throw refusal(file_);
  is_enforced_ = attempt == Attempt::kLocked;
  write_owner(file_, descriptor);
  held.push_back({file_, std::this_thread::get_id(), 1, is_enforced_, std::move(descriptor)});
}

void DirectoryLock::require_free(const fs::path& directory) {
  std::error_code error;
  if (fs::is_directory(directory, error)) const DirectoryLock lock(directory);
}

DirectoryLock::~DirectoryLock() {
  const std::scoped_lock guard(held_mutex);
  const auto ours =
      std::find_if(held.begin(), held.end(), [&](const Held& one) { return one.file == file_; });
  if (ours == held.end() || --ours->count > 0) return;  // a forked child has none
  ::unlink(file_.c_str());
  held.erase(ours);
}

}  // namespace shoehorn
