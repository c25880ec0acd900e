// Progress of a command that runs processes one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace shoehorn {

// Told before the first process, with an empty line, and after each: how many of how many have ended, and
// what became of the last one.
using RunProgress = std::function<void(int64_t done, int64_t of, const std::string& line)>;

// On standard error, where that is a terminal: a bar, and a line a process above it. It ends with the last
// copy of the function.
RunProgress show_progress(const std::string& label);

}  // namespace shoehorn
