#include "io/checkpoint_directory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "io/file_operations.h"
#include "io/leftovers.h"

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStagingPrefix = ".tmp-";
constexpr std::string_view kOldPrefix = ".old-";
constexpr std::string_view kTrashPrefix = ".trash-";
constexpr std::string_view kCheckpointPrefix = "checkpoint-";

// The number, if `text` is all digits and fits in 63 bits.
std::optional<int64_t> parse_number(std::string_view text) {
  int64_t number = 0;
  if (text.empty() || text[0] == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The parts of a name .PREFIX-checkpoint-N-PID.
struct Leftover {
  std::string_view prefix;
  std::string checkpoint;  // checkpoint-N
  int64_t process;
};

std::optional<Leftover> parse_leftover(std::string_view name) {
  for (const std::string_view prefix : {kStagingPrefix, kOldPrefix, kTrashPrefix}) {
    if (!name.starts_with(prefix)) continue;
    const size_t dash = name.rfind('-');
    const std::string_view checkpoint =
        dash < prefix.size() ? "" : name.substr(prefix.size(), dash - prefix.size());
    const auto process = parse_number(name.substr(dash + 1));
    if (checkpoint_step(checkpoint) && process && is_process_id(*process))
      return Leftover{prefix, std::string(checkpoint), *process};
  }
  return std::nullopt;
}

std::string leftover_name(std::string_view prefix, std::string_view checkpoint) {
  return fmt::format("{}{}-{}", prefix, checkpoint, getpid());
}

// Takes the checkpoint's name away before deleting it, so that neither a kill nor a power cut leaves a part under that
// name.
void discard(const fs::path& path, std::string_view checkpoint) {
  const fs::path directory = parent_directory(path);
  const fs::path trash = directory / leftover_name(kTrashPrefix, checkpoint);
  remove_path(trash);
  rename_path(path, trash);
  sync_path(directory);
  remove_path(trash);
}

struct Numbered {
  int64_t step;
  std::string name;
  bool operator<(const Numbered& other) const {
    return std::tie(step, name) < std::tie(other.step, other.name);
  }
};

std::vector<Numbered> numbered_checkpoints(const fs::path& output_dir) {
  std::vector<Numbered> result;
  if (!path_exists(output_dir)) return result;
  for (const std::string& name : list_directory(output_dir)) {
    std::error_code error;
    const auto step = checkpoint_step(name);
    if (step && fs::is_directory(output_dir / name, error)) result.push_back({*step, name});
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

std::optional<int64_t> checkpoint_step(std::string_view name) {
  if (!name.starts_with(kCheckpointPrefix)) return std::nullopt;
  return parse_number(name.substr(kCheckpointPrefix.size()));
}

StagedDirectory::StagedDirectory(fs::path output_dir, int64_t step)
    : output_dir_(std::move(output_dir)), name_(fmt::format("{}{}", kCheckpointPrefix, step)) {
  CHECK(step >= 0, "step {}", step);
  make_directories(output_dir_);
  const fs::path staging = output_dir_ / leftover_name(kStagingPrefix, name_);
  if (path_exists(staging)) {
    CHECK(try_lock(staging).is_open(), "'{}' is being written already", staging.string());
    remove_path(staging);
  }
  if (const int error_number = file_operations::make_directory(staging); error_number != 0)
    throw_system_error(staging, "make this directory", error_number);
  staging_ = staging;
  lock_ = try_lock(staging_);
  checksums_.emplace(staging_, FileSync::kTogether);
}

StagedDirectory::~StagedDirectory() {
  if (staging_.empty()) return;
  try {
    remove_path(staging_);
  } catch (const SystemError&) {
    // What stays is removed at the next start.
  }
}

fs::path StagedDirectory::commit(int32_t owners) {
  CHECK(!staging_.empty(), "{} committed twice", name_);
  fs::path final = output_dir_ / name_;
  if (std::error_code error; path_exists(final) && !fs::is_directory(final, error)) {
    throw user_error("[{}] expected a directory or nothing, got a file; move it away", final.string());
  }
  std::map<std::string, WrittenFile> written = checksums_->files();
  take_manifest_parts(staging_, owners, written);
  write_manifest(staging_, written);
  replace(final);
  staging_.clear();
  lock_.close();
  return final;
}

void StagedDirectory::replace(const fs::path& final) {
  if (!path_exists(final)) {
    rename_path(staging_, final);
    sync_path(output_dir_);
    return;
  }
  const fs::path old = output_dir_ / leftover_name(kOldPrefix, name_);
  rename_path(final, old);
  try {
    rename_path(staging_, final);
  } catch (const SystemError&) {
    rename_path(old, final);
    throw;
  }
  sync_path(output_dir_);
  try {
    discard(old, name_);
  } catch (const SystemError&) {
    // The new checkpoint is complete; what stays of the old one is removed at the next start.
  }
}

StagedPart::StagedPart(fs::path staging, const Owner& owner)
    : staging_(std::move(staging)), owner_(owner), checksums_(staging_, FileSync::kEach) {
  CHECK(0 < owner.number && owner.number < owner.count, "owner {} of {}", owner.number, owner.count);
}

void StagedPart::commit() {
  write_manifest_part(staging_, owner_, checksums_.files());
}

RecoveredCheckpoints recover_checkpoints(const fs::path& output_dir) {
  RecoveredCheckpoints result;
  if (!path_exists(output_dir)) return result;
  for (const std::string& name : list_directory(output_dir)) {
    const fs::path path = output_dir / name;
    std::error_code error;
    if (const int64_t process = temporary_file_process(name);
        process > 0 && fs::is_regular_file(path, error)) {
      if (!is_abandoned(path, process)) continue;
      remove_path(path);
      result.removed.push_back(path);
      continue;
    }
    const auto leftover = parse_leftover(name);
    if (!leftover || !fs::is_directory(path, error) || !is_abandoned(path, leftover->process)) continue;
    const fs::path final = output_dir / leftover->checkpoint;
    if (leftover->prefix == kOldPrefix && !path_exists(final)) {
      rename_path(path, final);
      result.restored.push_back(final);
      continue;
    }
    // An old checkpoint whose successor is in place must not come back in part: it goes by way of the trash.
    leftover->prefix == kOldPrefix ? discard(path, leftover->checkpoint) : remove_path(path);
    result.removed.push_back(path);
  }
  return result;
}

std::string checkpoint_defect(const fs::path& checkpoint, VerifiedFiles verified) {
  try {
    verify_manifest(checkpoint, verified);
    return "";
  } catch (const DamagedFile& damage) {
    return fmt::format("{}: {}", damage.path().lexically_relative(checkpoint).string(), damage.defect());
  } catch (const UserError& error) {
    return error.what();
  } catch (const SystemError& error) {
    return error.what();
  }
}

LatestCheckpoint latest_checkpoint(const fs::path& output_dir, int64_t below) {
  LatestCheckpoint result;
  const std::vector<Numbered> all = numbered_checkpoints(output_dir);
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (one->step >= below) continue;
    const fs::path path = output_dir / one->name;
    std::string defect = checkpoint_defect(path);
    if (defect.empty()) {
      result.path = path;
      result.step = one->step;
      return result;
    }
    result.skipped.push_back({path, std::move(defect)});
  }
  return result;
}

std::vector<fs::path> list_checkpoints(const fs::path& output_dir) {
  std::vector<fs::path> result;
  for (const Numbered& one : numbered_checkpoints(output_dir)) result.push_back(output_dir / one.name);
  return result;
}

std::vector<fs::path> remove_checkpoints(const fs::path& output_dir) {
  std::vector<fs::path> deleted = list_checkpoints(output_dir);
  for (const fs::path& path : deleted) discard(path, path.filename().string());
  return deleted;
}

std::vector<fs::path> rotate_checkpoints(const fs::path& output_dir, int64_t save_total_limit,
                                         const fs::path& best_checkpoint) {
  std::vector<fs::path> deleted;
  const std::vector<fs::path> all = list_checkpoints(output_dir);
  auto remaining = static_cast<int64_t>(all.size());
  if (save_total_limit <= 0 || remaining <= save_total_limit) return deleted;

  std::set<fs::path> kept = {all.back()};
  if (const LatestCheckpoint latest = latest_checkpoint(output_dir); latest.path) kept.insert(*latest.path);
  std::error_code error;
  kept.insert(*std::max_element(all.begin(), all.end(), [&](const fs::path& a, const fs::path& b) {
    return fs::last_write_time(a, error) < fs::last_write_time(b, error);
  }));
  for (const fs::path& path : all) {
    if (!best_checkpoint.empty() && fs::equivalent(path, best_checkpoint, error)) kept.insert(path);
  }
  for (const fs::path& path : all) {
    if (remaining <= std::max<int64_t>(save_total_limit, static_cast<int64_t>(kept.size()))) break;
    if (kept.contains(path)) continue;
    discard(path, path.filename().string());
    deleted.push_back(path);
    --remaining;
  }
  return deleted;
}

}  // namespace shoehorn
