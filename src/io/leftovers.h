// Who owns a file or directory under construction: its name has the id of the process that writes it, and that process
// holds a lock (flock) on it. What a killed process left has no owner and may be removed.
#pragma once

#include <cstdint>
#include <filesystem>

#include "io/file_descriptor.h"

namespace shoehorn {

// Opens a file or directory and locks it until the descriptor is closed. Not open if it is locked through another
// descriptor, of this process or of another one. Where a file system has no locks, it is open and locks nothing. SystemError
// if it cannot be opened.
FileDescriptor try_lock(const std::filesystem::path& path);

// Whether what the process with this id wrote has no owner any more. This process's own id may be an earlier process's, as
// in a container, so that the lock decides then. False if it cannot be opened: it was removed meanwhile, or is
// another user's.
bool is_abandoned(const std::filesystem::path& path, int64_t process);

}  // namespace shoehorn
