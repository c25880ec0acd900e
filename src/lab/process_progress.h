// Progress of a command that runs several processes in turn.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace shoehorn {

// Called before the first process, with an empty line, and after each: how many of how many are done, and the
// last one's outcome.
using RunProgress = std::function<void(int64_t done, int64_t of, const std::string& line)>;

// On a terminal it shows a bar on standard error, with a line per process above it. The bar ends with the
// last copy of the function.
RunProgress show_progress(const std::string& label);

}  // namespace shoehorn
