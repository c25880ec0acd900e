// Checkpoints that survive kill -9: `output_dir/checkpoint-N` appears whole or not at all.
//
//   .tmp-checkpoint-N-PID    being written (StagedDirectory); its owner holds a lock (flock) on it
//   checkpoint-N             complete: every file was on the disk before it got this name
//   .old-checkpoint-N-PID    for an instant, while a new checkpoint-N takes the place of an old one
//   .trash-checkpoint-N-PID  being deleted: it lost its name first, so that half a checkpoint is never seen
//   under it
//
// A manifest (manifest.h) in each checkpoint lists all its files with sizes and the checksums that were taken as they
// were written; what the disk lost or changed is found by it.
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

// A checkpoint under construction. Destroyed without commit() it is removed.
class StagedDirectory {
 public:
  // Creates output_dir where needed, and the staging directory in it. `step` is N.
  StagedDirectory(std::filesystem::path output_dir, int64_t step);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  ~StagedDirectory();

  // Where to write the files, best by AtomicFile, which checksums them; subdirectories are allowed.
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
  std::vector<std::filesystem::path> removed;   // leftovers of killed runs
  std::vector<std::filesystem::path> restored;  // checkpoints that were being replaced: the old one is back
};

// Cleans output_dir at the start of a run, before latest_checkpoint: undoes a replacement that was cut short,
// removes staging directories, half-deleted checkpoints and temporary files (AtomicFile) whose process is
// gone. Touches nothing else, and nothing of a process that lives. An absent output_dir is nothing to clean.
RecoveredCheckpoints recover_checkpoints(const std::filesystem::path& output_dir);

// Why a checkpoint is not complete, as its manifest tells; empty if it is. Files the manifest does not list
// are allowed. Tensors are verified as they are loaded (verified_tensors.h), or here with kAll.
std::string checkpoint_defect(const std::filesystem::path& checkpoint,
                              VerifiedFiles verified = VerifiedFiles::kAllButTensors);

// N of the name checkpoint-N (^checkpoint-(\d+)$); none: another name.
std::optional<int64_t> checkpoint_step(std::string_view name);

struct SkippedCheckpoint {
  std::filesystem::path path;
  std::string reason;
};

struct LatestCheckpoint {
  std::optional<std::filesystem::path> path;  // none: there is no complete checkpoint
  int64_t step = 0;
  std::vector<SkippedCheckpoint> skipped;  // newer ones that are not complete, newest first
};

// The complete checkpoint (checkpoint_defect) with the highest number below `below`, among directories named
// ^checkpoint-(\d+)$.
LatestCheckpoint latest_checkpoint(const std::filesystem::path& output_dir,
                                   int64_t below = std::numeric_limits<int64_t>::max());

// Directories named ^checkpoint-(\d+)$, by number, complete or not.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& output_dir);

// Deletes them all; returns what it deleted.
std::vector<std::filesystem::path> remove_checkpoints(const std::filesystem::path& output_dir);

// Deletes the oldest checkpoints until save_total_limit are left (<= 0: no limit), as transformers does;
// never `best_checkpoint` (may be empty), the highest number, the highest that is complete, or the one
// written last (not the highest where training resumed from an earlier step). So more than the limit may
// stay. Returns what it deleted.
std::vector<std::filesystem::path> rotate_checkpoints(const std::filesystem::path& output_dir,
                                                      int64_t save_total_limit,
                                                      const std::filesystem::path& best_checkpoint);

}  // namespace shoehorn
