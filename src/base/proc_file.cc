#include "base/proc_file.h"

#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace shoehorn {

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.starts_with('-')) return std::nullopt;
  if (error == std::errc::result_out_of_range) return std::numeric_limits<int64_t>::max();
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> count_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string word;
  std::string more;
  if (!(in >> word) || in >> more) return std::nullopt;
  return parse_count(word);
}

std::optional<int64_t> bytes_of_key(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    std::istringstream rest(line.substr(key.size() + 1));
    std::string number;
    rest >> number;
    const auto kilobytes = parse_count(number);
    if (!kilobytes) return std::nullopt;
    return *kilobytes > std::numeric_limits<int64_t>::max() / 1024 ? std::numeric_limits<int64_t>::max()
                                                                   : *kilobytes * 1024;
  }
  return std::nullopt;
}

}  // namespace shoehorn
