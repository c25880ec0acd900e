#include "io/directory_lock.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <thread>

#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

// A file that flock() in this program removes before it locks, once, as soon as there is one of this name.
const fs::path* removed_before_flock = nullptr;

}  // namespace
}  // namespace shoehorn

extern "C" int flock(int descriptor, int operation) noexcept {
  if (const auto*& file = shoehorn::removed_before_flock; file != nullptr && ::unlink(file->c_str()) == 0)
    file = nullptr;
  return static_cast<int>(syscall(SYS_flock, descriptor, operation));
}

namespace shoehorn {
namespace {

// A process that has the lock until it is killed; with `leaves_child` one that has a forked child too.
class Holder {
 public:
  explicit Holder(const fs::path& directory, bool leaves_child = false) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    process_ = fork();
    if (process_ == 0) {
      const DirectoryLock lock(directory);
      child_ = leaves_child ? fork() : 0;
      // Of the two the child says who it is, once it runs: what it was forked with is closed by then.
      const bool speaks = !leaves_child || child_ == 0;
      const pid_t child = leaves_child ? getpid() : 0;
      if (speaks && write(ends[1], &child, sizeof(child)) != sizeof(child)) _exit(1);
      for (;;) pause();
    }
    EXPECT_EQ(read(ends[0], &child_, sizeof(child_)), static_cast<ssize_t>(sizeof(child_)));
    close(ends[0]);
    close(ends[1]);
  }
  ~Holder() {
    end();
    if (child_ > 0) kill(child_, SIGKILL);
  }

  pid_t process() const { return process_; }
  pid_t child() const { return child_; }
  void end() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
  pid_t child_ = 0;
};

std::string refusal(const fs::path& directory) {
  return message_of<UserError>([&] { const DirectoryLock lock(directory); });
}

TEST(DirectoryLock, SaysWhoHasIt) {
  const TestDirectory directory;
  Holder holder(directory.path());
  const std::string message = refusal(directory.path());
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  EXPECT_TRUE(contains(message, fmt::format("held by process {} on {}, since 2", holder.process(), host)))
      << message;
  EXPECT_TRUE(contains(message, directory.path().string()));
}

TEST(DirectoryLock, EndsWithItsProcess) {
  const TestDirectory directory;
  Holder first(directory.path());
  refusal(directory.path());
  first.end();
  {
    const DirectoryLock lock(directory.path());
  }
  Holder second(directory.path());
  EXPECT_TRUE(contains(refusal(directory.path()), fmt::format("process {} ", second.process())));
}

TEST(DirectoryLock, AForkedChildDoesNotKeepIt) {
  const TestDirectory directory;
  Holder holder(directory.path(), true);
  holder.end();
  ASSERT_EQ(kill(holder.child(), 0), 0);
  EXPECT_NO_THROW(DirectoryLock lock(directory.path()));
}

// Nor does it take it from its parent when it ends.
TEST(DirectoryLock, AForkedChildDoesNotGiveItBack) {
  const TestDirectory directory;
  auto lock = std::make_unique<DirectoryLock>(directory.path());
  const pid_t child = fork();
  if (child == 0) {
    lock.reset();
    _exit(fs::exists(directory.path() / ".shoehorn_lock") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::thread([&] {
    EXPECT_TRUE(contains(refusal(directory.path()), "this one, in another thread"));
  }).join();
}

TEST(DirectoryLock, OneThreadMayTakeItAgain) {
  const TestDirectory directory;
  const fs::path path = directory.path() / "made/here";
  {
    const DirectoryLock outer(path);
    fs::create_directory_symlink(path, directory.path() / "link");
    {
      const DirectoryLock inner(directory.path() / "link");
    }
    EXPECT_TRUE(outer.is_enforced());
    std::thread([&] { refusal(path); }).join();
  }
  EXPECT_TRUE(fs::is_empty(path)) << "the file goes with the lock";
  std::thread([&] { EXPECT_NO_THROW(DirectoryLock lock(path)); }).join();
}

// Between the opening of the file and the lock on it the run before may end, and remove the file.
TEST(DirectoryLock, IsOfTheFileThatHasTheName) {
  const TestDirectory directory;
  const fs::path file = directory.path() / ".shoehorn_lock";
  removed_before_flock = &file;
  const DirectoryLock lock(directory.path());
  ASSERT_EQ(removed_before_flock, nullptr) << "nothing was removed";
  EXPECT_TRUE(fs::exists(file));
  const pid_t other = fork();
  if (other == 0) _exit(refusal_of([&] { const DirectoryLock second(directory.path()); }).empty() ? 1 : 0);
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0) << "two runs write to one directory";
}

// The holder's name would be written over what the link leads to.
TEST(DirectoryLock, FollowsNoLink) {
  const TestDirectory directory;
  const fs::path other = directory.write("other.txt", "important");
  fs::create_directory(directory.path() / "out");
  fs::create_symlink(other, directory.path() / "out" / ".shoehorn_lock");
  EXPECT_THROW(const DirectoryLock lock(directory.path() / "out"), SystemError);
  EXPECT_EQ(read_text_file(other), "important");
}

TEST(DirectoryLock, ManyTakeTurns) {
  const TestDirectory directory;
  constexpr int kProcesses = 3;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    for (int taken = 0; taken < 30;) {
      try {
        const DirectoryLock lock(directory.path());
        // Who finds another inside fails.
        if (mkdir((directory.path() / "inside").c_str(), 0777) != 0) _exit(1);
        rmdir((directory.path() / "inside").c_str());
        ++taken;
      } catch (const UserError&) {
      }
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

}  // namespace
}  // namespace shoehorn
