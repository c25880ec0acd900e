// How many files the process may have open at a time.
#pragma once

#include <cstdint>

namespace shoehorn {

// Raises the limit (`ulimit -n`) so far that `count` more files can be open besides the few that a program has, where it is lower;
// up to the hard limit, which only the machine's administrator raises. SystemError naming both if that is lower.
void allow_open_files(int64_t count);

}  // namespace shoehorn
