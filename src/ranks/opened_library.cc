#include "ranks/opened_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>

#include "base/child_process.h"

namespace shoehorn {

std::vector<std::filesystem::path> library_places(const std::string& name) {
  const std::filesystem::path folder = own_program().parent_path();
  return {folder / name, folder.parent_path() / "lib" / name,
          folder.parent_path() / SHOEHORN_LIBRARY_DIRECTORY / name};
}

OpenedLibrary open_library(const std::string& name, const std::string& function) {
  OpenedLibrary opened{.reason = fmt::format("no {}", name)};
  for (const std::filesystem::path& place : library_places(name)) {
    std::error_code absent;
    if (!std::filesystem::exists(place, absent)) continue;
    // MPI loads parts of its own, which look for its symbols among the global ones.
    void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* found = handle == nullptr ? nullptr : dlsym(handle, function.c_str());
    if (found != nullptr) return {.function = found, .path = place};
    opened.reason = dlerror();
  }
  return opened;
}

}  // namespace shoehorn
