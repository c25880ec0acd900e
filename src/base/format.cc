#include "base/format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/utf8.h"

namespace shoehorn {

namespace {

// Of the letters of `a` and `b` how many both have, wherever they stand.
int64_t count_common_letters(std::string_view a, std::string_view b) {
  std::array<int32_t, 256> left{};
  for (const char c : a) ++left[static_cast<unsigned char>(c)];
  return std::count_if(b.begin(), b.end(), [&](char c) { return left[static_cast<unsigned char>(c)]-- > 0; });
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  while (std::abs(value) >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds < 60.0) return fmt::format("{:.1f} s", seconds);
  const auto total = static_cast<int64_t>(std::llround(seconds));
  if (total < 3600) return fmt::format("{}:{:02}", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
}

std::string format_count(int64_t count) {
  std::string digits = std::to_string(count < 0 ? -count : count);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return count < 0 ? "-" + digits : digits;
}

int64_t parse_bytes(std::string_view text, std::string_view what) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (*c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  static constexpr struct {
    std::string_view name;
    double bytes;
  } kUnits[] = {{"", 1},         {"b", 1},      {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30},
                {"tib", 0x1p40}, {"k", 0x1p10}, {"m", 0x1p20},   {"g", 0x1p30},   {"kb", 1e3},
                {"mb", 1e6},     {"gb", 1e9},   {"tb", 1e12}};
  for (const auto& known : kUnits) {
    if (error != std::errc() || known.name != unit || !(number >= 0) || number * known.bytes >= 0x1p62)
      continue;
    if (unit.empty() && number > 0 && number < kLeastBareBytes) {
      throw user_error(
          "[{}] expected a number of bytes such as 6GiB or 512MiB, got '{}', which is bytes; give a unit, as {}MiB",
          what, text, text.substr(0, static_cast<size_t>(end - text.data())));
    }
    return static_cast<int64_t>(number * known.bytes);
  }
  throw user_error("[{}] expected a number of bytes such as 6GiB, 512MiB or 1073741824, got '{}'", what,
                   text);
}

std::string shorten(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  size_t end = most_bytes;
  while (end > 0 && is_utf8_continuation(text[end])) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string printable(std::string_view text, size_t most_bytes) {
  std::string all(text);
  if (text.size() > most_bytes) {
    // The beginning has most of the message, the end has the hint: leave out the middle.
    const size_t end_bytes = most_bytes / 4;
    size_t begin = text.size() - end_bytes;
    while (begin < text.size() && is_utf8_continuation(text[begin])) ++begin;
    all = fmt::format("{} [{} bytes left out] …{}", shorten(text, most_bytes - end_bytes),
                      text.size() - most_bytes, text.substr(begin));
  }
  std::string result;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto byte = static_cast<unsigned char>(all[i]);
    // U+0080 to U+009F, two bytes each, are control characters too.
    const bool is_long_control =
        byte == 0xC2 && i + 1 < all.size() && static_cast<unsigned char>(all[i + 1]) < 0xA0;
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F) {
      result += fmt::format("\\x{:02x}", byte);
    } else if (is_long_control) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(all[++i]));
    } else {
      result += all[i];
    }
  }
  return result;
}

int64_t edit_distance(std::string_view a, std::string_view b, int64_t bound) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), int64_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = row[0];
    int64_t left = ++row[0];
    int64_t least = left;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      left = row[j + 1] = std::min({diagonal + 1, left + 1, substituted});
      least = std::min(least, left);
    }
    // No later row has less than the least of this one.
    if (least >= bound) return bound;
  }
  return std::min(row.back(), bound);
}

namespace {

// "" if there are several, or if the beginning is too short to mean one.
std::string only_one_that_begins(const std::vector<std::string>& names, std::string_view beginning) {
  constexpr size_t kShortestBeginning = 3;
  std::string only;
  if (beginning.size() < kShortestBeginning) return only;
  for (const std::string& name : names) {
    if (!name.starts_with(beginning)) continue;
    if (!only.empty()) return {};
    only = name;
  }
  return only;
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestName = 200;  // a longer one is no misspelling
  if (name.size() > kLongestName) return {};
  int64_t best = std::max<int64_t>(2, static_cast<int64_t>(name.size()) / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    // The distance is at least what the lengths differ by, and at least what the longer has beyond common letters: most
    // names are told apart by that, for far less work.
    const int64_t longer = std::max(std::ssize(candidate), std::ssize(name));
    if (longer - std::min(std::ssize(candidate), std::ssize(name)) >= best) continue;
    if (longer - count_common_letters(name, candidate) >= best) continue;
    const int64_t distance = edit_distance(name, candidate, best);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? only_one_that_begins(candidates, name) : nearest;
}

std::string did_you_mean(std::string_view nearest) {
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

}  // namespace shoehorn
