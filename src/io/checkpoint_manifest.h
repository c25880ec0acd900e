// shoehorn_manifest.json: what a checkpoint directory must hold to be complete.
//
//   {"files": {"model.safetensors": {"bytes": 440}, "trainer_state.json": {"bytes": 75, "crc32":
//   "0c7e7fd8"}}, "version": 1}
#pragma once

#include <filesystem>
#include <string>

namespace shoehorn {

// Lists every regular file below `directory` and writes the manifest there. SystemError if one can't be read
// or written; UserError if something there is neither a file nor a directory.
void write_manifest(const std::filesystem::path& directory);

// Why the directory does not hold what its manifest lists, or has none; empty if it does.
std::string manifest_defect(const std::filesystem::path& directory);

// Brings every file and directory below `directory`, and itself, to the disk.
void sync_tree(const std::filesystem::path& directory);

}  // namespace shoehorn
