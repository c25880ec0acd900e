#include "io/owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "io/file.h"
#include "io/manifest.h"

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kRank = "-rank-";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;

// Takes `text` from the beginning of `rest`.
bool take(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

// Takes as many digits as owner_file_name() writes.
std::optional<int32_t> take_number(std::string_view& rest) {
  int32_t number = 0;
  if (rest.size() < kDigits || rest[0] == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + kDigits, number);
  if (error != std::errc() || end != rest.data() + kDigits) return std::nullopt;
  rest.remove_prefix(kDigits);
  return number;
}

}  // namespace

std::string owner_file_name(std::string_view name, const Owner& owner) {
  CHECK(0 <= owner.number && owner.number < owner.count && owner.count < 100'000, "owner {} of {}",
        owner.number, owner.count);
  const fs::path path = name;
  return fmt::format("{}{}{:05}{}{:05}{}", path.stem().string(), kRank, owner.number, kOf, owner.count,
                     path.extension().string());
}

std::optional<Owner> owner_of_file(std::string_view file_name, std::string_view name) {
  const fs::path path = name;
  std::string_view rest = file_name;
  if (!take(rest, path.stem().string()) || !take(rest, kRank)) return std::nullopt;
  const std::optional<int32_t> number = take_number(rest);
  if (!number || !take(rest, kOf)) return std::nullopt;
  const std::optional<int32_t> count = take_number(rest);
  if (!count || rest != path.extension().string() || *number >= *count) return std::nullopt;
  return Owner{*number, *count};
}

std::vector<fs::path> list_owner_files(const fs::path& file) {
  const fs::path directory = parent_directory(file);
  const std::string name = file.filename().string();
  std::vector<fs::path> files;
  int32_t count = 0;
  std::error_code error;
  if (!fs::is_directory(directory, error)) return files;
  for (const std::string& found : list_directory(directory)) {  // sorted: by number where the count is one
    const std::optional<Owner> owner = owner_of_file(found, name);
    if (!owner) continue;
    if (count == 0) count = owner->count;
    if (owner->count != count) {
      throw DamagedFile(directory / found,
                        fmt::format("expected files of {} processes as {} is, got one of {}", count,
                                    files.empty() ? name : files[0].filename().string(), owner->count),
                        "the directory has files of two checkpoints");
    }
    files.push_back(directory / found);
  }
  for (int32_t number = 0; number < count; ++number) {
    const fs::path expected = directory / owner_file_name(name, {number, count});
    if (number >= std::ssize(files) || files[static_cast<size_t>(number)] != expected) {
      throw DamagedFile(expected, fmt::format("expected a file of each of {} processes, got none", count),
                        "restore it from a copy, or take another checkpoint");
    }
  }
  return files;
}

}  // namespace shoehorn
