// What the process may still map: under `ulimit -v` and `-d`, and where the machine does not overcommit.
#pragma once

#include <cstdint>

namespace shoehorn {

// Whether the system would map so many bytes of memory now, or so many pieces of them, all at once. None is touched.
bool can_map(int64_t bytes, int64_t pieces = 1);

}  // namespace shoehorn
