#include "io/checksummed_files.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

std::mutex active_mutex;
std::vector<ChecksummedFiles*> active;  // guarded by `active_mutex`

// `path` seen from `directory`; empty if it does not lie below.
fs::path path_below(const fs::path& directory, const fs::path& path) {
  const auto [end, rest] = std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  fs::path below;
  if (end != directory.end()) return below;
  for (auto part = rest; part != path.end(); ++part) below /= *part;
  return below;
}

}  // namespace

// A trailing slash would be a part of its own.
ChecksummedFiles::ChecksummedFiles(fs::path directory, FileSync sync, std::function<void()> before_first)
    : directory_((directory / "").parent_path()), sync_(sync), before_first_(std::move(before_first)) {
  const std::scoped_lock lock(active_mutex);
  active.push_back(this);
}

ChecksummedFiles::~ChecksummedFiles() {
  const std::scoped_lock lock(active_mutex);
  std::erase(active, this);
}

bool ChecksummedFiles::covers(const fs::path& path) {
  const std::scoped_lock lock(active_mutex);
  return std::any_of(active.begin(), active.end(),
                     [&](const ChecksummedFiles* one) { return !path_below(one->directory_, path).empty(); });
}

bool ChecksummedFiles::syncs_together(const fs::path& path) {
  const std::scoped_lock lock(active_mutex);
  return std::any_of(active.begin(), active.end(), [&](const ChecksummedFiles* one) {
    return one->sync_ == FileSync::kTogether && !path_below(one->directory_, path).empty();
  });
}

void ChecksummedFiles::announce(const fs::path& path) {
  std::vector<std::function<void()>> calls;
  {
    const std::scoped_lock lock(active_mutex);
    for (ChecksummedFiles* one : active) {
      if (one->before_first_ && !path_below(one->directory_, path).empty())
        calls.push_back(std::exchange(one->before_first_, {}));
    }
  }
  for (const std::function<void()>& call : calls) call();  // which may write files there itself
}

void ChecksummedFiles::add(const fs::path& path, WrittenFile written) {
  const std::scoped_lock lock(active_mutex);
  for (ChecksummedFiles* one : active) {
    if (const fs::path below = path_below(one->directory_, path); !below.empty())
      one->files_[below.string()] = written;
  }
}

}  // namespace shoehorn
