// Admits one writer at a time to a directory: among the threads of a process, among processes, and among
// machines where they share the file system.
//
// The lock is flock on the file .shoehorn_lock in the directory; the file also names the owner. The lock ends
// with its process, however that ends: after kill -9 a file remains that nobody holds, and a forked child
// closes the file at once. NFS turns the lock into one on the server. The destructor removes the file.
#pragma once

#include <filesystem>

namespace shoehorn {

class DirectoryLock {
 public:
  // Takes the lock, and creates the directory if it does not exist. UserError naming the owner and the time
  // if another thread or process holds the lock; then nothing was changed. The thread that holds a lock may
  // take it again. SystemError if the file cannot be created.
  explicit DirectoryLock(const std::filesystem::path& directory);
  // Releases the lock when the last object of the owning thread is destroyed.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Throws the same UserError if another thread or process holds the lock, but does not take it. For commands
  // that begin to write only after long work.
  static void require_free(const std::filesystem::path& directory);

  // False if the file system has no locks. Then other writers are not kept out.
  bool is_enforced() const { return is_enforced_; }

 private:
  std::filesystem::path file_;
  bool is_enforced_ = true;
};

}  // namespace shoehorn
