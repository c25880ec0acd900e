// Numbers in the small text files of /proc and of cgroups. An absent file, key or number is nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace shoehorn {

// An integer of 0 or more; one beyond int64 is the largest int64. Nothing for "max", for a sign and for
// anything behind the digits.
std::optional<int64_t> parse_count(std::string_view text);

// All of a file of one number.
std::optional<int64_t> count_in(const std::filesystem::path& file);

// Of "key: 123 kB", as in /proc/meminfo and /proc/self/status: 123 * 1024.
std::optional<int64_t> bytes_of_key(const std::filesystem::path& file, std::string_view key);

}  // namespace shoehorn
