// Checkpoints that survive kill -9: `output_dir/checkpoint-N` appears whole or not at all.
//
//   .tmp-checkpoint-N-PID    being written (StagedDirectory); the writing process holds a lock (flock) on it
//   checkpoint-N             complete: every file was on the disk before the directory got this name
//   .old-checkpoint-N-PID    the old checkpoint-N, for the instant in which a new one takes its place
//   .trash-checkpoint-N-PID  being deleted: it was renamed first, so that no reader ever sees half a checkpoint-N
//
// Each checkpoint has a manifest (manifest.h), which lists all its files with sizes and with the checksums
// that were taken as they were written. A reader that verifies it finds what the disk lost or changed.
//
// One process at a time makes checkpoints in an output_dir (rank 0), one thread at a time; others may write parts of
// one (StagedPart); any number may read. Errors: SystemError naming the path where the system failed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/checksummed_files.h"
#include "io/file.h"
#include "io/manifest.h"

namespace shoehorn {

// A checkpoint under construction. If it is destroyed before commit(), its directory is removed.
class StagedDirectory {
 public:
  // Creates output_dir if needed, and the staging directory inside it. `step` is N.
  StagedDirectory(std::filesystem::path output_dir, int64_t step);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  ~StagedDirectory();

  // Where to write the files, preferably with AtomicFile, which checksums them. Subdirectories are allowed.
  const std::filesystem::path& path() const { return staging_; }

  // Writes the manifest, brings to the disk what is not there yet, renames to checkpoint-N (in place of an older
  // one of that name) and returns that path. UserError if checkpoint-N exists and is not a directory.
  // If it throws, checkpoint-N is the older one or the new one, complete.
  // Of a directory that several processes write (this one is number 0), when all others have committed their parts;
  // DamagedFile where one has not, or what it wrote is not there.
  std::filesystem::path commit(int32_t owners = 1);

 private:
  void replace(const std::filesystem::path& final);

  std::filesystem::path output_dir_;
  std::string name_;               // checkpoint-N
  std::filesystem::path staging_;  // empty once renamed
  FileDescriptor lock_;
  std::optional<ChecksummedFiles> checksums_;
};

// What another process than the one that has the StagedDirectory writes into it. For one thread; any number of parts of
// a directory at a time, each in a process of its own.
class StagedPart {
 public:
  // `staging` is the path() of the StagedDirectory, which exists until number 0 commits; `owner` is not number 0.
  StagedPart(std::filesystem::path staging, const Owner& owner);

  const std::filesystem::path& path() const { return staging_; }

  // All files of this part are there, and on the disk where AtomicFile wrote them.
  void commit();

 private:
  std::filesystem::path staging_;
  Owner owner_;
  ChecksummedFiles checksums_;
};

struct RecoveredCheckpoints {
  std::vector<std::filesystem::path> removed;   // what killed runs left behind
  std::vector<std::filesystem::path> restored;  // old ones whose replacement was cut short
};

// Cleans output_dir; call it at the start of a run, before latest_checkpoint. It undoes replacements that
// were cut short, and removes staging directories, half-deleted checkpoints and temporary files (AtomicFile)
// of processes that have ended. It touches nothing else. If output_dir does not exist, it does nothing.
RecoveredCheckpoints recover_checkpoints(const std::filesystem::path& output_dir);

// Why a checkpoint is not complete, judged by its manifest; empty if it is complete. Files that the manifest
// does not list are allowed. By default tensors are not read here: they are verified as they are loaded
// (verified_tensors.h). kAll reads them too.
std::string checkpoint_defect(const std::filesystem::path& checkpoint,
                              VerifiedFiles verified = VerifiedFiles::kAllButTensors);

// N of a name "checkpoint-N" (^checkpoint-(\d+)$); nullopt for any other name.
std::optional<int64_t> checkpoint_step(std::string_view name);

struct SkippedCheckpoint {
  std::filesystem::path path;
  std::string reason;
};

struct LatestCheckpoint {
  std::optional<std::filesystem::path> path;  // nullopt if no checkpoint is complete
  int64_t step = 0;
  std::vector<SkippedCheckpoint> skipped;  // newer than `path`, incomplete; newest first
};

// The complete checkpoint (see checkpoint_defect) with the highest number less than `below`, among the
// directories named ^checkpoint-(\d+)$.
LatestCheckpoint latest_checkpoint(const std::filesystem::path& output_dir,
                                   int64_t below = std::numeric_limits<int64_t>::max());

// The directories named ^checkpoint-(\d+)$, sorted by number, complete or not.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& output_dir);

// Deletes all checkpoints; returns what it deleted.
std::vector<std::filesystem::path> remove_checkpoints(const std::filesystem::path& output_dir);

// Deletes the oldest checkpoints until save_total_limit are left (<= 0: no limit), as transformers does. It
// never deletes `best_checkpoint` (may be empty), the one with the highest number, the complete one with the
// highest number, or the one written last (another one, where training resumed from an earlier step). So more
// than the limit may stay. Returns what it deleted.
std::vector<std::filesystem::path> rotate_checkpoints(const std::filesystem::path& output_dir,
                                                      int64_t save_total_limit,
                                                      const std::filesystem::path& best_checkpoint);

}  // namespace shoehorn
