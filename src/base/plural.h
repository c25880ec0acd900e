// A number and what is counted, in the form that the number takes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoehorn {

// The noun's plural, unless there is one: "thread", "threads"; "batch", "batches"; "entry", "entries"; "class",
// "classes". `noun` may be several words, of which the last is the noun.
std::string plural_form(int64_t count, std::string_view noun);

// "1 thread", "2 threads", "0 threads".
std::string plural(int64_t count, std::string_view noun);

// The same with separators between thousands: "1,234 tokens".
std::string plural_count(int64_t count, std::string_view noun);

}  // namespace shoehorn
