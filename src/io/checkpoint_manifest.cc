#include "io/checkpoint_manifest.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "io/checkpoint_directory.h"
#include "io/crc32.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kVersion = 1;

struct Tree {
  std::vector<fs::path> files;        // relative
  std::vector<fs::path> directories;  // relative; parents before children
};

Tree walk(const fs::path& directory) {
  Tree tree;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const fs::file_type type = at->symlink_status(error).type();
    if (error) break;
    const fs::path relative = at->path().lexically_relative(directory);
    if (type == fs::file_type::directory) {
      tree.directories.push_back(relative);
    } else if (type == fs::file_type::regular) {
      tree.files.push_back(relative);
    } else {
      throw user_error("[{}] expected only files and directories in a checkpoint, got a link or device",
                       at->path().string());
    }
  }
  if (error) throw_system_error(directory, "list this directory", error.value());
  return tree;
}

std::string checksum_of(const ReadOnlyFile& file) {
  std::vector<std::byte> bytes(static_cast<size_t>(file.bytes()));
  file.read_at(0, bytes);
  return fmt::format("{:08x}", crc32(bytes));
}

// A file the manifest lists must lie below the directory itself.
bool is_inside(const fs::path& relative) {
  if (relative.empty() || relative.is_absolute()) return false;
  for (const fs::path& part : relative) {
    if (part == "..") return false;
  }
  return true;
}

std::string file_defect(const fs::path& directory, const std::string& name, const nlohmann::json& facts) {
  const bool has_bytes = facts.is_object() && facts.contains("bytes") && facts["bytes"].is_number_integer();
  if (!is_inside(name) || !has_bytes) return fmt::format("{}: malformed entry '{}'", kManifestName, name);
  const fs::path path = directory / name;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return fmt::format("{} is missing", name);
  const ReadOnlyFile file = ReadOnlyFile::open(path);
  const auto bytes = facts["bytes"].get<int64_t>();
  if (file.bytes() != bytes) return fmt::format("{}: expected {} bytes, got {}", name, bytes, file.bytes());
  if (!facts.contains("crc32")) return "";
  const std::string checksum = bytes <= kChecksummedBytes ? checksum_of(file) : "";
  if (facts["crc32"] != checksum)
    return fmt::format("{}: expected checksum {}, got '{}'", name, facts["crc32"].dump(), checksum);
  return "";
}

}  // namespace

void write_manifest(const fs::path& directory) {
  nlohmann::json files = nlohmann::json::object();
  for (const fs::path& name : walk(directory).files) {
    if (name == kManifestName) continue;
    const ReadOnlyFile file = ReadOnlyFile::open(directory / name);
    nlohmann::json& facts = files[name.string()];
    facts["bytes"] = file.bytes();
    if (file.bytes() <= kChecksummedBytes) facts["crc32"] = checksum_of(file);
  }
  write_json_atomic(directory / kManifestName,
                    nlohmann::json{{"version", kVersion}, {"files", std::move(files)}});
}

std::string manifest_defect(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_regular_file(directory / kManifestName, error)) return fmt::format("no {}", kManifestName);
  try {
    const nlohmann::json manifest = read_json(directory / kManifestName);
    if (!manifest.is_object() || !manifest.contains("version") || manifest["version"] != kVersion ||
        !manifest.contains("files") || !manifest["files"].is_object()) {
      return fmt::format("{}: not a manifest of version {}", kManifestName, kVersion);
    }
    for (const auto& [name, facts] : manifest["files"].items()) {
      if (std::string defect = file_defect(directory, name, facts); !defect.empty()) return defect;
    }
    return "";
  } catch (const UserError& failure) {
    return failure.what();
  } catch (const SystemError& failure) {
    return failure.what();
  }
}

void sync_tree(const fs::path& directory) {
  const Tree tree = walk(directory);
  for (const fs::path& file : tree.files) sync_path(directory / file);
  for (auto child = tree.directories.rbegin(); child != tree.directories.rend(); ++child)
    sync_path(directory / *child);
  sync_path(directory);
}

}  // namespace shoehorn
