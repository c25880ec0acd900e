// Memory for the code of oneDNN's products, which the library makes when they are compiled.
#pragma once

namespace shoehorn::cpu {

// UserError naming the limit where there is no room for the code of one more product or move: the library would write it to
// where it got no memory.
void check_room_for_code();

}  // namespace shoehorn::cpu
