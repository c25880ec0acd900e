// One writer at a time in a directory, among the threads of a process and among processes, on other machines too where
// the file system is shared.
//
// The lock is flock on the file .shoehorn_lock in the directory, which also says who has it. It ends with its process,
// however that ends: kill -9 leaves a file that nobody holds, and a forked child does not go on holding it (it closes
// the file when it begins). NFS makes it a lock of the server. The file is removed with the lock.
#pragma once

#include <filesystem>

namespace shoehorn {

class DirectoryLock {
 public:
  // Makes the directory where it is absent, and changes nothing else where it is held: UserError that says by whom and
  // since when. The thread that has it may take it again. SystemError where the file can't be made.
  explicit DirectoryLock(const std::filesystem::path& directory);
  // Gives it back with the last of a thread's.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // The same UserError where another has it, and else nothing: for who comes to write only after long work.
  static void require_free(const std::filesystem::path& directory);

  // False where the file system has no locks: then nothing keeps others out.
  bool is_enforced() const { return is_enforced_; }

 private:
  std::filesystem::path file_;
  bool is_enforced_ = true;
};

}  // namespace shoehorn
