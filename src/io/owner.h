// The names of files that several processes write in place of one: each owner writes the part of a state that it owns.
//
//   model.safetensors  ──►  model-rank-00000-of-00003.safetensors, model-rank-00001-of-00003.safetensors, …
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

// One of the processes that write a directory together. Number 0 makes the directory and commits it.
struct Owner {
  int32_t number = 0;
  int32_t count = 1;

  bool is_alone() const { return count == 1; }
  bool operator==(const Owner&) const = default;
};

// The name of an owner's file in place of `name`.
std::string owner_file_name(std::string_view name, const Owner& owner);

// The owner in the name of a file in place of `name`; nothing for another name.
std::optional<Owner> owner_of_file(std::string_view file_name, std::string_view name);

// The files beside `file` that owners wrote in place of it, by number; empty where there are none. DamagedFile naming
// the file where one of them is missing, or where some are of another number of owners.
std::vector<std::filesystem::path> list_owner_files(const std::filesystem::path& file);

}  // namespace shoehorn
