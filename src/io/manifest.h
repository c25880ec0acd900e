// shoehorn_manifest.json: which files a directory must have, with the checksums that were taken as they were
// written. In a checkpoint it lists every file. In a directory of a saved model it lists the weights only,
// since people edit the other files.
//
//   {"files": {"model.safetensors": {"bytes": 440, "xxh128": "99aa06d3014798d86001c324468d497f"}},
//    "version": 1, "xxh128": "<of the list itself>"}
//
// Older manifests have no checksum of the list, and "crc32" in place of xxh128, for files up to 1 MiB only.
//
// Errors: DamagedFile if a directory differs from its manifest, or if the manifest is malformed.
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

// A file differs from the one that was written.
class DamagedFile : public UserError {
 public:
  DamagedFile(std::filesystem::path path, const std::string& defect);
  // `hint` is what the user can do; it replaces the default, which is to restore the file.
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

// Computes the checksum of a file as it is read, and compares it with the manifest's.
class ListedFileCheck {
 public:
  // DamagedFile at once if the size differs.
  ListedFileCheck(std::filesystem::path path, int64_t bytes, ListedFile listed);

  void update(std::span<const std::byte> data);
  // Call it after all bytes. DamagedFile if the checksum differs.
  void finish() const;

 private:
  std::filesystem::path path_;
  ListedFile listed_;
  ContentHash xxh128_;
  uint32_t crc32_ = 0;
};

using Manifest = std::map<std::string, ListedFile>;  // by path relative to the directory

// nullopt if the directory has no manifest.
std::optional<Manifest> read_manifest(const std::filesystem::path& directory);

// The entry of `file` in the manifest of its directory; nullopt if there is no manifest or no entry.
std::optional<ListedFile> find_listed(const std::filesystem::path& file);

// True if that manifest has a checksum of the whole file.
bool has_checksum(const std::filesystem::path& file);

// DamagedFile if the manifest of its directory lists `file` and the file differs. Reads all of the file.
void verify_listed(const std::filesystem::path& file);

// Which files a check of a directory reads to the end. Tensors (.safetensors) can instead be verified as they
// are loaded.
// Verifies what says what a model's weights mean, where the manifest of its directory lists it: config.json, tokenizer and other
// companions (model_directory.h). DamagedFile if one is missing or differs.
void verify_companions(const std::filesystem::path& directory);

enum class VerifiedFiles { kAllButTensors, kAll };

// DamagedFile if the directory has no manifest, or if a listed file is missing or differs.
void verify_manifest(const std::filesystem::path& directory, VerifiedFiles verified);

// Lists every file below `directory`: with the checksum in `written` (by path below it), or else (a file that was not
// written by AtomicFile) with that of what is read back. Brings all of them, their names and the manifest to the disk,
// so that the directory can be given its name. SystemError if one can't be read or written; UserError if something there
// is neither a file nor a directory.
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

// Keeps the manifest true while a model is saved into a directory that may hold another model. From the first
// replaced file until commit() the manifest says that the save is unfinished, and loading the model throws
// DamagedFile. So after a kill or a power cut nobody loads new weights with an old config.json. Afterwards
// the manifest lists the weights that were written and those of the earlier entries whose files still exist.
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
