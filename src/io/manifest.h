// shoehorn_manifest.json: what the files of a directory must be, by the checksums that were taken as they were written.
// In a checkpoint it lists every file, in a directory that a model was saved in the weights: people edit the rest.
//
//   {"files": {"model.safetensors": {"bytes": 440, "xxh128": "99aa06d3014798d86001c324468d497f"}},
//    "version": 1, "xxh128": "<of the list itself>"}
//
// Older ones have no checksum of the list, and "crc32" in place of xxh128, of files up to 1 MiB only.
//
// Errors: DamagedFile where a directory is not what its manifest says, or the manifest is malformed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/content_hash.h"
#include "base/error.h"
#include "io/checksummed_files.h"
#include "io/owner.h"

namespace shoehorn {

inline constexpr std::string_view kManifestName = "shoehorn_manifest.json";

// A file is not the one that was written.
class DamagedFile : public UserError {
 public:
  DamagedFile(std::filesystem::path path, const std::string& defect);
  // With what its user can do in place of restoring it.
  DamagedFile(std::filesystem::path path, const std::string& defect, const std::string& hint);

  const std::filesystem::path& path() const { return path_; }
  // "expected …, got …"
  const std::string& defect() const { return defect_; }

 private:
  std::filesystem::path path_;
  std::string defect_;
};

struct ListedFile {
  enum class Check { kBytes, kCrc32, kXxh128 };
  int64_t bytes = 0;
  Check check = Check::kBytes;
  std::string checksum;
};

// Checksums a file as it is read, to be compared with what a manifest lists.
class ListedFileCheck {
 public:
  // DamagedFile at once if the file at `path` has another size.
  ListedFileCheck(std::filesystem::path path, int64_t bytes, ListedFile listed);

  void update(std::span<const std::byte> data);
  // After all of the file: DamagedFile where the checksum is another one.
  void finish() const;

 private:
  std::filesystem::path path_;
  ListedFile listed_;
  ContentHash xxh128_;
  uint32_t crc32_ = 0;
};

using Manifest = std::map<std::string, ListedFile>;  // by path below the directory

// None where the directory has none.
std::optional<Manifest> read_manifest(const std::filesystem::path& directory);

// What the manifest of the directory that `file` lies in says of it; none: nothing.
std::optional<ListedFile> find_listed(const std::filesystem::path& file);

// Whether there is a checksum of all of `file`.
bool has_checksum(const std::filesystem::path& file);

// DamagedFile if the manifest of the directory that `file` lies in lists it, and it is another one. Reads all of it.
void verify_listed(const std::filesystem::path& file);

// Which files a look at a directory reads to the end. Tensors (.safetensors) can also be verified as they are loaded.
enum class VerifiedFiles { kAllButTensors, kAll };

// DamagedFile if there is no manifest, or a file that it lists is not there or is another one.
void verify_manifest(const std::filesystem::path& directory, VerifiedFiles verified);

// Lists every file below `directory`: with the checksum in `written` (by path below it), or else (a file that was not
// written by AtomicFile) with that of what is read back, after it was brought to the disk. SystemError if one can't be
// read or written; UserError if something there is neither a file nor a directory.
void write_manifest(const std::filesystem::path& directory,
                    const std::map<std::string, WrittenFile>& written);

// The list of what one of several owners wrote of a directory that is under construction, for the owner who writes the
// manifest of all of it.
void write_manifest_part(const std::filesystem::path& directory, const Owner& owner,
                         const std::map<std::string, WrittenFile>& written);
// Adds the lists of all owners but number 0 to `written`, and removes their files. DamagedFile where a list is missing,
// or a file that it names is not there or has another size.
void take_manifest_parts(const std::filesystem::path& directory, int32_t owners,
                         std::map<std::string, WrittenFile>& written);

// A model is saved into a directory that may have another. From the first file that is replaced to commit() the manifest
// says that the save is unfinished, and who loads the model is refused (DamagedFile): of what is cut short in between,
// by a kill or a power cut, nobody takes new weights with an old config.json. Listed then: weights written meanwhile, and what is
// left of what was listed before.
class ManifestUpdate {
 public:
  explicit ManifestUpdate(std::filesystem::path directory);
  ManifestUpdate(const ManifestUpdate&) = delete;
  ManifestUpdate& operator=(const ManifestUpdate&) = delete;
  void commit();

 private:
  std::filesystem::path directory_;
  Manifest before_;
  ChecksummedFiles written_;
};

}  // namespace shoehorn
