// Numbers in the small text files of /proc and of cgroups. Each function returns nullopt for an absent file,
// key or number.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace shoehorn {

// A decimal integer, 0 or more; a larger one than int64 holds becomes the largest int64. nullopt for anything
// else: a sign, "max", characters behind the digits.
std::optional<int64_t> parse_count(std::string_view text);

// The number in a file that holds nothing else.
std::optional<int64_t> count_in(const std::filesystem::path& file);

// The value of `key` in lines such as "key: 123 kB" (/proc/meminfo, /proc/self/status), in bytes: 123 * 1024.
std::optional<int64_t> bytes_of_key(const std::filesystem::path& file, std::string_view key);

}  // namespace shoehorn
