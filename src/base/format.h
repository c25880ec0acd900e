// Text for people: bytes, durations, counts, shortened texts, nearest names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shoehorn {

// 1536 -> "1.50 KiB"; less than 1 KiB -> "N B".
std::string format_bytes(int64_t bytes);

// 3725.2 -> "1:02:05"; 65 -> "1:05"; less than one minute -> "12.3 s".
std::string format_seconds(double seconds);

// 1234567 -> "1,234,567".
std::string format_count(int64_t count);

// Fewer bytes without a unit are a unit that was forgotten: no budget is so small.
inline constexpr double kLeastBareBytes = 0x1p20;

// "6GiB", "512 MiB", "1.5GB", "1073741824" -> bytes. UserError naming `what` for any other text, and for a number without
// a unit that is below kLeastBareBytes and not 0: "4096B" says that bytes are meant.
int64_t parse_bytes(std::string_view text, std::string_view what);

// Returns the text if it has at most `most_bytes` bytes, else its beginning and "…". A UTF-8 character is
// never cut.
std::string shorten(std::string_view text, size_t most_bytes);

// Makes a message safe to print that may quote a file: control characters become "\x1b" and the like, line
// ends stay, and the middle of a message longer than `most_bytes` is left out.
std::string printable(std::string_view text, size_t most_bytes);

// Levenshtein distance of `a` and `b`, or `bound` if the distance is `bound` or more.
int64_t edit_distance(std::string_view a, std::string_view b, int64_t bound);

// The candidate with the smallest edit distance to `name`, if that is at most 2 or a third of the length of `name`; else
// the only candidate that begins with `name`, of three letters or more; else empty.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// The end of a refusal: "; did you mean `nearest`?", or nothing if there is none.
std::string did_you_mean(std::string_view nearest);

}  // namespace shoehorn
