#include "io/file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "io/checkpoint_directory.h"
#include "io/crc32.h"
#include "io/file_descriptor.h"
#include "io/file_operations.h"
#include "io/json_file.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

// Runs `body` in a child process, so that its limits and mounts end with it, and returns what it returned.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("uncaught: ") + error.what();
    }
    if (write(ends[1], text.data(), text.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

// What a failed write leaves and says: "names in the directory | message".
std::string failed_write(const fs::path& directory, const std::function<void()>& write) {
  std::string message = "no error";
  try {
    write();
  } catch (const SystemError& error) {
    message = error.what();
  }
  return fmt::format("{} | {}", fmt::join(list_directory(directory), " "), message);
}

TEST(Crc32, KnownAnswers) {
  const auto of = [](std::string_view text) { return crc32(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of(""), 0U);
  EXPECT_EQ(of("123456789"), 0xCBF43926U);
  EXPECT_EQ(crc32(std::as_bytes(std::span(std::string_view("6789"))), of("12345")), of("123456789"));
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TestDirectory directory;
  const auto path = directory.write("file", "old");
  {
    AtomicFile file(path, 3);
    file.write(std::string_view("new"));
    EXPECT_EQ(read_text_file(path), "old");
    file.seal();
    EXPECT_EQ(read_text_file(path), "old");
    message_of<InternalError>([&] { file.write(std::string_view("more")); });
    file.commit();
    EXPECT_EQ(read_text_file(path), "new");
    message_of<InternalError>([&] { file.commit(); });
  }
  {
    AtomicFile file(path);
    file.write(std::string_view("lost"));
    AtomicFile moved(std::move(file));
    moved.write(std::string_view(" too"));
  }
  EXPECT_EQ(read_text_file(path), "new");
  EXPECT_EQ(list_directory(directory.path()), std::vector<std::string>{"file"});
}

TEST(AtomicFile, ReservedSpaceBeyondWhatIsWrittenIsNotInTheFile) {
  const TestDirectory directory;
  AtomicFile file(directory.path() / "file", 1 << 20);
  file.write(std::string_view("x"));
  file.commit();
  EXPECT_EQ(fs::file_size(directory.path() / "file"), 1U);
}

// Pages of a file that wait for the disk; none where the kernel does not count them (Linux before 6.5), or keeps them in memory.
std::optional<uint64_t> waiting_pages(const fs::path& path) {
  constexpr long kCachestat = 451;  // cachestat(2); the system's headers may not have it
  struct Range {
    uint64_t offset = 0;
    uint64_t length = 0;  // 0: to the end
  } range;
  struct Counts {
    uint64_t cached, dirty, written_back, evicted, recently_evicted;
  } counts = {};
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct statfs system = {};
  if (fstatfs(file.get(), &system) != 0 || system.f_type == TMPFS_MAGIC) return std::nullopt;
  if (syscall(kCachestat, file.get(), &range, &counts, 0U) != 0) return std::nullopt;
  return counts.dirty + counts.written_back;
}

// They cannot be taken back from a process whose cgroup is full.
TEST(AtomicFile, FewOfItsPagesWaitForTheDisk) {
  const TestDirectory directory;
  AtomicFile file(directory.path() / "file");
  const std::vector<std::byte> data(static_cast<size_t>(32 * kWrittenBackAtOnceBytes));
  file.write(data);
  const fs::path temporary = fs::directory_iterator(directory.path())->path();
  const std::optional<uint64_t> waiting = waiting_pages(temporary);
  if (!waiting) GTEST_SKIP() << "pages that wait for the disk are not counted here";
  EXPECT_LE(*waiting, 2 * kWrittenBackAtOnceBytes / sysconf(_SC_PAGESIZE));
}

TEST(AtomicFile, NamesOfTemporaryFiles) {
  EXPECT_EQ(temporary_file_process(".model.safetensors.tmp-123-4"), 123);
  EXPECT_EQ(temporary_file_process(".a.tmp-1-0"), 1);
  for (const char* other :
       {"", ".", "model.tmp-1-2", ".tmp-1-2", ".a.tmp-1", ".a.tmp-1-", ".a.tmp--1", ".a.tmp-x-1",
        ".a.tmp-1-2x", ".a.tmp-0-1", ".a.tmp--5-1", ".a.tmp-4294967297-1", ".a.tmp-99999999999999999999-1"}) {
    EXPECT_EQ(temporary_file_process(other), 0) << other;
  }
}

TEST(CopyFileAtomic, CopiesAllBytes) {
  const TestDirectory directory;
  std::string bytes((size_t{5} << 19) + 3, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 4096);
  const auto source = directory.write("a", bytes);
  copy_file_atomic(source, directory.path() / "b");
  EXPECT_EQ(read_text_file(directory.path() / "b"), bytes);
  copy_file_atomic(directory.write("empty", ""), directory.path() / "b");
  EXPECT_EQ(read_text_file(directory.path() / "b"), "");
  EXPECT_TRUE(contains(
      message_of<UserError>([&] { copy_file_atomic(directory.path() / "absent", directory.path() / "c"); }),
      "absent"));
  EXPECT_FALSE(fs::exists(directory.path() / "c"));
}

TEST(WriteErrors, PlacesThatTakeNoFiles) {
  const TestDirectory directory;
  directory.write("file", "");
  for (const fs::path& path : {directory.path() / "file/below", directory.path() / "absent/file",
                               fs::path("/proc/shoehorn/file"), fs::path("/proc/shoehorn")}) {
    EXPECT_TRUE(contains(message_of<SystemError>([&] { write_text_atomic(path, "x"); }), path.string()));
    EXPECT_TRUE(contains(message_of<SystemError>([&] { SafetensorsWriter(path, {}); }), path.string()));
  }
  message_of<UserError>([&] { StagedDirectory(directory.path() / "file", 1); });
  message_of<UserError>([&] { StagedDirectory("/proc/shoehorn", 1); });
  message_of<SystemError>([&] { StagedDirectory("/proc", 1); });
  EXPECT_EQ(list_directory(directory.path()), std::vector<std::string>{"file"});
}

// As root, a rename would put a file into the place of /dev/null.
TEST(WriteErrors, WhatIsNoFileIsNotReplaced) {
  const TestDirectory directory;
  fs::create_directories(directory.path() / "taken/x");
  ASSERT_EQ(mkfifo((directory.path() / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/null", directory.path() / "null");
  fs::create_symlink("/proc/self/fd/1", directory.path() / "stdout");
  const std::vector<std::string> before = list_directory(directory.path());
  for (const std::string& name : before) {
    EXPECT_TRUE(contains(message_of<UserError>([&] { AtomicFile file(directory.path() / name); }),
                         (directory.path() / name).string() + "] expected a regular file or nothing"));
  }
  EXPECT_EQ(list_directory(directory.path()), before);
  directory.write("file", "old");
  fs::create_symlink("file", directory.path() / "link");
  write_text_atomic(directory.path() / "link", "new");
  EXPECT_EQ(read_text_file(directory.path() / "link"), "new");
  EXPECT_EQ(read_text_file(directory.path() / "file"), "old")
      << "the link is replaced, and not what it names";
}

TEST(WriteErrors, FileSizeLimit) {
  const TestDirectory directory;
  directory.write("file", "old");
  const auto limited = [&](const std::function<void()>& write) {
    return in_child([&]() -> std::string {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {4096, 4096};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "no limit";
      return failed_write(directory.path(), write);
    });
  };
  const std::string big(10000, 'x');
  // Found when reserving, and found when writing.
  const std::string reserved = limited([&] { write_text_atomic(directory.path() / "file", big); });
  EXPECT_TRUE(reserved.starts_with("file | [")) << reserved;
  EXPECT_TRUE(contains(reserved, "reserve 10000 bytes"));
  EXPECT_TRUE(contains(reserved, "File too large"));
  const std::string written =
      limited([&] { AtomicFile(directory.path() / "file").write(std::string_view(big)); });
  EXPECT_TRUE(written.starts_with("file | [")) << written;
  EXPECT_TRUE(contains(written, "at offset 4096, got 'File too large'"));
  EXPECT_EQ(read_text_file(directory.path() / "file"), "old");
}

// One line for each write that failed on a file system of 64 KiB; "skip" without the permission to mount one.
std::string writes_on_a_full_disk(const fs::path& path) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", path.c_str(), "tmpfs", 0, "size=64k") != 0) {
    return "skip";
  }
  const std::string big(100000, 'x');
  const auto stage = [&](std::string_view content) {
    StagedDirectory staged(path, 5);
    write_text_atomic(staged.path() / "small", "content");
    write_text_atomic(staged.path() / "file", content);
    staged.commit();
  };
  std::vector<std::string> lines;
  const auto fail = [&](const std::function<void()>& write) { lines.push_back(failed_write(path, write)); };
  fail([&] { write_text_atomic(path / "file", big); });
  fail([&] { AtomicFile(path / "file").write(std::string_view(big)); });
  fail([&] { SafetensorsWriter(path / "m.safetensors", {{"t", DType::kF32, {50000}}}); });
  fail([&] { stage(big); });
  stage("old");
  fail([&] { stage(big); });
  lines.push_back(checkpoint_defect(path / "checkpoint-5") + read_text_file(path / "checkpoint-5/file"));
  if (mount("none", path.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return "skip";
  fail([&] { stage("new"); });
  fail([&] { write_text_atomic(path / "file", "x"); });
  return fmt::format("{}", fmt::join(lines, "\n"));
}

TEST(WriteErrors, FullOrReadOnlyDiskLeavesNothing) {
  const TestDirectory directory;
  const std::string result = in_child([&] { return writes_on_a_full_disk(directory.path()); });
  if (result == "skip") GTEST_SKIP() << "no permission to mount a small file system";
  std::vector<std::string> lines;
  std::istringstream in(result);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 8U) << result;
  const std::string root = directory.path().string();
  EXPECT_TRUE(lines[0].starts_with(" | [" + root + "/file] expected to reserve 100000 bytes")) << lines[0];
  EXPECT_TRUE(contains(lines[0], "64.00 KiB are free there"));
  EXPECT_TRUE(lines[1].starts_with(" | [" + root + "/file] expected to write")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with(" | [" + root + "/m.safetensors]")) << lines[2];
  EXPECT_TRUE(lines[3].starts_with(" | [" + root + "/.tmp-checkpoint-5-")) << lines[3];
  EXPECT_TRUE(lines[4].starts_with("checkpoint-5 | [" + root + "/.tmp-checkpoint-5-")) << lines[4];
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(contains(lines[i], "No space left on device"));
  EXPECT_EQ(lines[5], "old");
  for (size_t i = 6; i < 8; ++i) {
    EXPECT_TRUE(lines[i].starts_with("checkpoint-5 | [" + root)) << lines[i];
    EXPECT_TRUE(contains(lines[i], "Read-only file system"));
  }
}

// The same rule for whatever makes or checks a place for output.
TEST(OutputDirectories, APlaceThatCannotBeIsTheUsersMistake) {
  const TestDirectory directory;
  const fs::path file = directory.write("out", "x");
  const fs::path too_long = directory.path() / std::string(300, 'x');
  for (const fs::path& path : {file, file / "below", fs::path("/proc/x"), fs::path("/proc/x/y"), too_long}) {
    message_of<UserError>([&] { ensure_writable_directory(path); });
    message_of<UserError>([&] { require_writable_directory(path); });
  }
  EXPECT_EQ(
      message_of<UserError>([&] { ensure_writable_directory("/proc/x/y"); }),
      "[/proc/x] expected a directory that can be written, or made, got 'No such file or directory'; choose "
      "another");
  require_writable_directory(directory.path() / "a" / "b");
  EXPECT_EQ(list_directory(directory.path()), std::vector<std::string>{"out"}) << "a check leaves nothing";
  ensure_writable_directory(directory.path() / "a" / "b");
  EXPECT_TRUE(fs::is_directory(directory.path() / "a" / "b"));
  EXPECT_TRUE(list_directory(directory.path() / "a" / "b").empty());
  EXPECT_TRUE(contains(message_of<UserError>([&] { AtomicFile(directory.path() / "a" / ""); }),
                       "expected the name of a file, got that of a directory"));
}

TEST(MakeDirectories, AFileIsInTheWay) {
  const TestDirectory directory;
  const fs::path file = directory.write("out", "x");
  for (const fs::path& path : {file, file / "below"})
    EXPECT_EQ(message_of<UserError>([&] { make_directories(path); }),
              "[" + file.string() + "] expected a directory, got a file of that name; choose another name");
  make_directories(directory.path() / "a" / "b");
  EXPECT_TRUE(fs::is_directory(directory.path() / "a" / "b"));
}

// A pipe without a writer would be waited for, and a device may have no end.
TEST(ReadOnlyFile, TakesRegularFilesAlone) {
  const TestDirectory directory;
  const fs::path fifo = directory.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto error_of = [](const fs::path& path) {
    return message_of<UserError>([&] { ReadOnlyFile::open(path); });
  };
  EXPECT_TRUE(contains(error_of(fifo), fifo.string() + "] expected a regular file, got a pipe or device"));
  EXPECT_TRUE(contains(error_of("/dev/zero"), "got a pipe or device"));
  EXPECT_TRUE(contains(error_of(directory.path()), "got a directory"));
  EXPECT_TRUE(contains(error_of(directory.path() / "absent"), "got nothing of that name"));
  EXPECT_TRUE(contains(error_of(directory.write("file", "x") / "below"), "got nothing of that name"));
  EXPECT_TRUE(
      contains(error_of(std::string(directory.path() / "file") + std::string("\0rest", 5)), "NUL byte"));
  EXPECT_EQ(read_text_file(directory.write("empty", "")), "");
}

TEST(ReadOnlyFile, FileThatShrinksIsAnErrorAndOneThatGrowsIsReadAsItWas) {
  const TestDirectory directory;
  const fs::path path = directory.write("file", "abcdef");
  const ReadOnlyFile file = ReadOnlyFile::open(path);
  fs::resize_file(path, 8);
  EXPECT_EQ(file.bytes(), 6);
  fs::resize_file(path, 4);
  std::string text(6, ' ');
  EXPECT_TRUE(
      contains(message_of<SystemError>([&] { file.read_at(0, std::as_writable_bytes(std::span(text))); }),
               "expected 6 bytes at offset 0, got 4 before the file's end"));
}

TEST(PathExists, SaysWhereItCannotKnow) {
  const TestDirectory directory;
  EXPECT_TRUE(path_exists(directory.path()));
  EXPECT_FALSE(path_exists(directory.path() / "absent" / "below"));
  EXPECT_FALSE(path_exists(directory.write("file", "") / "below"));
  EXPECT_TRUE(
      contains(message_of<SystemError>([&] { path_exists(directory.path() / std::string(5000, 'x')); }),
               "File name too long"));
}

}  // namespace
}  // namespace shoehorn
