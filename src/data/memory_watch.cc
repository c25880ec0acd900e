#include "data/memory_watch.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/plural.h"
#include "base/process.h"
#include "data/data_format.h"
#include "io/file_content.h"
#include "io/input_stream.h"

namespace shoehorn {

namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kFirstLookBytes = 8 * kMebibyte;
constexpr int64_t kBytesBetweenLooks = 4 * kMebibyte;
// Of texts that are read and tokenized at a time, some MiB, and of an array's next growth.
constexpr int64_t kReserveBytes = 32 * kMebibyte;

// Quotes may be doubled in a file and empty lines are skipped, but a separator becomes more bytes than it was: a table has at
// least half of the bytes of its files.
constexpr int64_t kLeastShareOfFile = 2;

bool is_held_as_it_is(const std::filesystem::path& path) {
  return !is_standard_input(path) && path == without_compression(path) &&
         data_format_of(path) != DataFormat::kObjects;
}

std::string way_out(const DataFiles& files) {
  const bool reads_input = std::ranges::any_of(files.paths(), is_standard_input);
  return fmt::format("{}--dataset_cache DIR keeps tokens in files and holds no texts",
                     reads_input ? "write the text into a file: " : "");
}

}  // namespace

MemoryWatch::MemoryWatch(const DataFiles& files, std::optional<int64_t> budget_bytes)
    : files_(files), budget_bytes_(budget_bytes), next_look_bytes_(kFirstLookBytes) {}

MemoryWatch::Room MemoryWatch::room() const {
  if (budget_bytes_) {
    return {.left_bytes = *budget_bytes_ - process_resident_bytes(),
            .budget = fmt::format("--memory_budget, {}", format_bytes(*budget_bytes_))};
  }
  const MemoryLimit limit = binding_memory_limit();
  return {.left_bytes = limit.available_bytes - kReserveBytes, .budget = describe(limit)};
}

void MemoryWatch::check_table() const {
  std::vector<std::filesystem::path> held;
  std::ranges::copy_if(files_.paths(), std::back_inserter(held), is_held_as_it_is);
  const int64_t bytes = bytes_of_files(held);
  const int64_t least_bytes = bytes / kLeastShareOfFile;
  if (least_bytes < kFirstLookBytes) return;
  const Room room = this->room();
  if (least_bytes <= room.left_bytes) return;
  throw user_error(
      "[{}] expected texts that fit into memory, got {} of them, of which at least half would be held, and {} left of {}; "
      "nothing was read; {}",
      files_.name(), format_bytes(bytes), format_bytes(std::max<int64_t>(0, room.left_bytes)), room.budget,
      way_out(files_));
}

void MemoryWatch::check(int64_t held_bytes, int64_t texts) {
  if (held_bytes < next_look_bytes_) return;
  next_look_bytes_ = held_bytes + kBytesBetweenLooks;
  const Room room = this->room();
  if (room.left_bytes >= 0) return;
  throw user_error(
      "[{}] expected texts and tokens that fit into memory, got {} of them after {}, and nothing left of {}; {}",
      files_.name(), format_bytes(held_bytes), plural_count(texts, "text"), room.budget, way_out(files_));
}

}  // namespace shoehorn
