#include "io/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "io/crc32.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/model_directory.h"

namespace shoehorn {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int64_t kVersion = 1;
constexpr const char* kUnfinished = "unfinished";

bool holds_tensors(const std::string& name) {
  return name.ends_with(".safetensors");
}

// A file the manifest lists must lie below the directory itself.
bool is_inside(const fs::path& relative) {
  if (relative.empty() || relative.is_absolute()) return false;
  for (const fs::path& part : relative) {
    if (part == "..") return false;
  }
  return true;
}

std::string checksum_of_list(const json& files) {
  const std::string text = format_json(files, {.indent = -1, .final_newline = false});
  ContentHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

// Accepts only the keys it knows. Otherwise a damaged key would read like an entry without a checksum.
ListedFile listed_file(const fs::path& manifest, const std::string& name, const json& facts) {
  const auto text_of = [&](const char* key) {
    const auto found = facts.find(key);
    return found != facts.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const bool is_object = facts.is_object();
  const bool has_bytes = is_object && facts.contains("bytes") && facts["bytes"].is_number_integer();
  ListedFile listed;
  if (is_object && !text_of("xxh128").empty()) listed = {0, ListedFile::Check::kXxh128, text_of("xxh128")};
  if (is_object && !text_of("crc32").empty()) listed = {0, ListedFile::Check::kCrc32, text_of("crc32")};
  const size_t keys = listed.check == ListedFile::Check::kBytes ? 1 : 2;
  if (!has_bytes || facts.size() != keys || !is_inside(name))
    throw DamagedFile(manifest,
                      fmt::format("expected bytes and a checksum of '{}', got {}", name, facts.dump()));
  listed.bytes = facts["bytes"].get<int64_t>();
  return listed;
}

Manifest parse_manifest(const fs::path& path, const json& text) {
  if (text.is_object() && text.contains(kUnfinished)) {
    throw DamagedFile(path, "expected a model that was saved to the end, got one whose saving was cut short",
                      "save it again, or take a checkpoint");
  }
  const bool is_manifest = text.is_object() && text.contains("version") && text["version"] == kVersion &&
                           text.contains("files") && text["files"].is_object() &&
                           text.size() == (text.contains("xxh128") ? 3 : 2);
  if (!is_manifest)
    throw DamagedFile(path, fmt::format("expected a manifest of version {}, got another file", kVersion));
  Manifest manifest;
  bool has_checksums = false;
  for (const auto& [name, facts] : text["files"].items()) {
    const ListedFile listed = listed_file(path, name, facts);
    has_checksums = has_checksums || listed.check == ListedFile::Check::kXxh128;
    manifest[name] = listed;
  }
  const json expected = text.value("xxh128", json());
  if (has_checksums && expected != checksum_of_list(text["files"])) {
    throw DamagedFile(path, fmt::format("expected a list of files with xxh128 {}, got one with {}",
                                        expected.dump(), checksum_of_list(text["files"])));
  }
  return manifest;
}

// None where there is no such file.
std::optional<Manifest> read_list(const fs::path& path) {
  if (!path_exists(path)) return std::nullopt;
  json text;
  try {
    text = read_json(path);
  } catch (const UserError& error) {
    throw DamagedFile(path, fmt::format("expected a manifest, got this: {}", error.what()));
  }
  return parse_manifest(path, text);
}

void write_list(const fs::path& path, const Manifest& manifest) {
  json files = json::object();
  for (const auto& [name, listed] : manifest) {
    json& facts = files[name];
    facts["bytes"] = listed.bytes;
    if (listed.check == ListedFile::Check::kXxh128) facts["xxh128"] = listed.checksum;
    if (listed.check == ListedFile::Check::kCrc32) facts["crc32"] = listed.checksum;
  }
  const std::string checksum = checksum_of_list(files);
  write_json_atomic(path, json{{"version", kVersion}, {"files", std::move(files)}, {"xxh128", checksum}});
}

// Calls `use` with the bytes of a file, piece by piece.
template <typename Use>
void read_pieces(const ReadOnlyFile& file, const Use& use) {
  constexpr size_t kPieceBytes = size_t{1} << 18;
  std::vector<std::byte> buffer(std::min(static_cast<size_t>(file.bytes()), kPieceBytes));
  for (int64_t at = 0; at < file.bytes();) {
    const auto piece =
        std::span(buffer).first(std::min(buffer.size(), static_cast<size_t>(file.bytes() - at)));
    file.read_at(at, piece);
    use(piece);
    at += static_cast<int64_t>(piece.size());
  }
}

void verify_file(const fs::path& path, const ListedFile& listed, bool to_the_end) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    throw DamagedFile(path, fmt::format("expected a file of {} bytes, got none", listed.bytes));
  const ReadOnlyFile file = ReadOnlyFile::open(path);
  ListedFileCheck check(path, file.bytes(), listed);
  if (!to_the_end) return;
  read_pieces(file, [&](std::span<const std::byte> piece) { check.update(piece); });
  check.finish();
}

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

}  // namespace

DamagedFile::DamagedFile(fs::path path, const std::string& defect)
    : DamagedFile(
          std::move(path), defect,
          fmt::format(
              "the file was damaged or replaced: restore it from a copy, or, where it was replaced on "
              "purpose, delete {} beside it",
              kManifestName)) {}

DamagedFile::DamagedFile(fs::path path, const std::string& defect, const std::string& hint)
    : UserError(fmt::format("[{}] {}; {}", path.string(), defect, hint)),
      path_(std::move(path)),
      defect_(defect) {}

ListedFileCheck::ListedFileCheck(fs::path path, int64_t bytes, ListedFile listed)
    : path_(std::move(path)), listed_(std::move(listed)) {
  if (bytes != listed_.bytes)
    throw DamagedFile(path_, fmt::format("expected {} bytes, got {}", listed_.bytes, bytes));
}

void ListedFileCheck::update(std::span<const std::byte> data) {
  if (listed_.check == ListedFile::Check::kXxh128) xxh128_.add(data);
  if (listed_.check == ListedFile::Check::kCrc32) crc32_ = crc32(data, crc32_);
}

void ListedFileCheck::finish() const {
  if (listed_.check == ListedFile::Check::kBytes) return;
  const bool is_xxh128 = listed_.check == ListedFile::Check::kXxh128;
  const std::string found = is_xxh128 ? xxh128_.hex() : fmt::format("{:08x}", crc32_);
  if (found == listed_.checksum) return;
  throw DamagedFile(path_, fmt::format("expected the checksum {} {}, got {}", is_xxh128 ? "xxh128" : "crc32",
                                       listed_.checksum, found));
}

std::optional<Manifest> read_manifest(const fs::path& directory) {
  return read_list(directory / kManifestName);
}

std::optional<ListedFile> find_listed(const fs::path& file) {
  const std::optional<Manifest> manifest = read_manifest(parent_directory(file));
  if (!manifest) return std::nullopt;
  const auto found = manifest->find(file.filename().string());
  return found == manifest->end() ? std::nullopt : std::optional(found->second);
}

bool has_checksum(const fs::path& file) {
  const std::optional<ListedFile> listed = find_listed(file);
  return listed && listed->check != ListedFile::Check::kBytes;
}

void verify_listed(const fs::path& file) {
  if (const std::optional<ListedFile> listed = find_listed(file)) verify_file(file, *listed, true);
}

void verify_companions(const fs::path& directory) {
  const std::optional<Manifest> manifest = read_manifest(directory);
  if (!manifest) return;
  for (const auto& [name, listed] : *manifest) {
    if (name == kConfigFileName || is_companion(name)) verify_file(directory / name, listed, true);
  }
}

void verify_manifest(const fs::path& directory, VerifiedFiles verified) {
  const std::optional<Manifest> manifest = read_manifest(directory);
  if (!manifest) throw DamagedFile(directory / kManifestName, "expected a manifest, got none");
  for (const auto& [name, listed] : *manifest)
    verify_file(directory / name, listed, verified == VerifiedFiles::kAll || !holds_tensors(name));
}

void write_manifest(const fs::path& directory, const std::map<std::string, WrittenFile>& written) {
  Manifest manifest;
  const Tree tree = walk(directory);
  for (const fs::path& name : tree.files) {
    if (name == kManifestName) continue;
    sync_path(directory / name);
    const auto known = written.find(name.string());
    if (known != written.end()) {
      manifest[name.string()] = {known->second.bytes, ListedFile::Check::kXxh128, known->second.xxh128};
      continue;
    }
    const ReadOnlyFile file = ReadOnlyFile::open(directory / name);
    ContentHash checksum;
    read_pieces(file, [&](std::span<const std::byte> piece) { checksum.add(piece); });
    manifest[name.string()] = {file.bytes(), ListedFile::Check::kXxh128, checksum.hex()};
  }
  for (auto child = tree.directories.rbegin(); child != tree.directories.rend(); ++child)
    sync_path(directory / *child);
  write_list(directory / kManifestName, manifest);
  sync_path(directory / kManifestName);
  sync_path(directory);
}

void write_manifest_part(const fs::path& directory, const Owner& owner,
                         const std::map<std::string, WrittenFile>& written) {
  Manifest manifest;
  for (const auto& [name, file] : written)
    manifest[name] = {file.bytes, ListedFile::Check::kXxh128, file.xxh128};
  write_list(directory / owner_file_name(kManifestName, owner), manifest);
}

void take_manifest_parts(const fs::path& directory, int32_t owners,
                         std::map<std::string, WrittenFile>& written) {
  for (int32_t number = 1; number < owners; ++number) {
    const fs::path path = directory / owner_file_name(kManifestName, {number, owners});
    const std::optional<Manifest> part = read_list(path);
    if (!part) {
      throw DamagedFile(
          path, fmt::format("expected the list of the files of process {} of {}, got none", number, owners),
          "the process ended before it had written its part");
    }
    for (const auto& [name, listed] : *part) {
      verify_file(directory / name, listed, false);
      written[name] = {listed.bytes, listed.checksum};
    }
  }
  for (int32_t number = 1; number < owners; ++number)
    remove_path(directory / owner_file_name(kManifestName, {number, owners}));
}

ManifestUpdate::ManifestUpdate(fs::path directory)
    : directory_(std::move(directory)), written_(directory_, FileSync::kEach, [this] {
        write_json_atomic(directory_ / kManifestName, json{{"version", kVersion}, {kUnfinished, true}});
      }) {
  try {
    before_ = read_manifest(directory_).value_or(Manifest());
  } catch (const DamagedFile&) {
    // The entries of the damaged manifest are lost; the new files get entries in commit().
  }
}

void ManifestUpdate::commit() {
  Manifest manifest;
  for (const auto& [name, listed] : before_) {
    if (path_exists(directory_ / name)) manifest[name] = listed;
  }
  for (const auto& [name, written] : written_.files()) {
    if (holds_tensors(name) || name == kSafetensorsIndexName || manifest.contains(name))
      manifest[name] = {written.bytes, ListedFile::Check::kXxh128, written.xxh128};
  }
  write_list(directory_ / kManifestName, manifest);
}

}  // namespace shoehorn
