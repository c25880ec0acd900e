// Parts of the program that are linked with a library which not every run needs. They are files beside the program, or
// where it is installed, and are opened when they are asked for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

// Where such a part is looked for, in this order.
std::vector<std::filesystem::path> library_places(const std::string& name);

struct OpenedLibrary {
  void* function = nullptr;  // null: there is none
  std::filesystem::path path = {};
  std::string reason = {};  // why there is none
};

// Opens the first that there is and can be opened, with its symbols for all, and finds a function of it.
OpenedLibrary open_library(const std::string& name, const std::string& function);

}  // namespace shoehorn
