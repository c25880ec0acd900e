// Text for people: bytes, durations, nearest names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

// 1536 -> "1.50 KiB"; below 1 KiB "N B".
std::string format_bytes(int64_t bytes);

// 3725.2 -> "1:02:05"; 65 -> "1:05"; below one minute "12.3 s".
std::string format_seconds(double seconds);

// "1,234,567".
std::string format_count(int64_t count);

// "6GiB", "512 MiB", "1.5GB", "1073741824" -> bytes. Throws UserError naming `what`.
int64_t parse_bytes(std::string_view text, std::string_view what);

// The text itself, or its first characters and "…" where it has more than `most_bytes`; a character of UTF-8
// is not cut apart.
std::string shorten(std::string_view text, size_t most_bytes);

// A message that may quote a file: characters that drive a terminal become "\x1b", and of one that is longer
// than `most_bytes` the middle is left out. Ends of lines stay.
std::string printable(std::string_view text, size_t most_bytes);

// Levenshtein distance; `bound` where it is as much or more.
int64_t edit_distance(std::string_view a, std::string_view b, int64_t bound);

// The candidate closest to `name`; empty if none is within a third of its length (at least 2 edits).
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace shoehorn
