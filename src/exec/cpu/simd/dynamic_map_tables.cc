// The tables of the dynamic map (exec/cpu/simd/dynamic_map.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "exec/cpu/simd/dynamic_map.h"

namespace shoehorn::cpu {
namespace {

// The decades of the map. The lowest has one part in the signed map and two in the unsigned one; each decade
// has twice as many parts as the one below it.
constexpr int kDecades = 7;

// Lines of a sign.
constexpr size_t kLines = 8;

int parts_of(int decade, bool is_signed) {
  return (is_signed ? 1 : 2) << decade;
}
float scale_of(int decade) {
  return static_cast<float>(std::pow(10.0, decade - (kDecades - 1)));
}

// The numbers of a decade are the middles of equal parts of [0.1, 1]. A part's boundary is linear in its
// position t in [0, 1]; the rounding of torch.linspace makes it start at either of two numbers.
constexpr float kDecadeLength = 1.0F - 0.1F;
float boundary(float t) {
  return std::fma(kDecadeLength, t, t < 0.5F ? 0.1F : 1.0F - kDecadeLength);
}

void make_values(DynamicMap& map) {
  size_t count = 0;
  for (int decade = 0; decade < kDecades; ++decade) {
    const int parts = parts_of(decade, map.is_signed);
    const float part = 1.0F / static_cast<float>(parts);
    for (int i = 0; i < parts; ++i) {
      const float t = static_cast<float>(i) * part;
      const float value = scale_of(decade) * ((boundary(t) + boundary(t + part)) / 2.0F);
      map.values[count++] = value;
      if (map.is_signed) map.values[count++] = -value;
    }
  }
  map.values[count++] = 0.0F;
  map.values[count++] = 1.0F;
  CHECK(count == map.values.size(), "the dynamic map has {} numbers", count);
  std::sort(map.values.begin(), map.values.end());
}

uint32_t exponent_field(float x) {
  return std::bit_cast<uint32_t>(x) >> 23;
}
size_t place(float x) {
  return exponent_field(x) % 16;
}

int rank_of(const DynamicMap& map, size_t code) {
  return map.is_signed ? static_cast<int>(code) - 127 : static_cast<int>(code) + 1;
}
size_t code_of(const DynamicMap& map, int rank) {
  return static_cast<size_t>(map.is_signed ? rank + 127 : rank - 1);
}

// The line through the numbers of each decade: its slope is the decade's, its intercept the mean of those
// that the numbers call for. The entries of rank 0 (signed) and rank 1 (unsigned), whose number is zero, stay
// zero.
void make_number_lines(DynamicMap& map) {
  for (int decade = 0; decade < kDecades; ++decade) {
    const int parts = parts_of(decade, map.is_signed);
    const double length = double{kDecadeLength} * static_cast<double>(scale_of(decade));
    const auto slope = static_cast<float>(length / (4 * parts));
    double intercepts = 0;
    for (int rank = parts; rank < 2 * parts; ++rank)
      intercepts +=
          static_cast<double>(map.values[code_of(map, rank)]) - static_cast<double>(slope) * 4 * rank;
    const size_t at = place(4 * static_cast<float>(parts));
    map.number_slope[at] = slope;
    map.number_intercept[at] = static_cast<float>(intercepts / parts);
  }
  map.number_intercept[place(4 * static_cast<float>(rank_of(map, 255)))] = 1;
}

// The ranks of the points at the distances k + 1/2 above zero.
std::array<int, kGridPoints / 2> ranks_above_zero(const DynamicMap& map) {
  std::array<int, kGridPoints / 2> ranks{};
  size_t code = 0;
  for (size_t k = 0; k < ranks.size(); ++k) {
    const float value =
        -1.0F + 2.0F * static_cast<float>(ranks.size() + k) / static_cast<float>(kGridPoints - 1);
    while (code < 255 && 0.5F * (map.values[code] + map.values[code + 1]) < value) ++code;
    ranks[k] = rank_of(map, code);
  }
  return ranks;
}

float distance(const DynamicMap& map, size_t k) {
  return map.is_signed ? kStretch * static_cast<float>(4 * k + 2) : static_cast<float>(4 * k);
}

// The lines of negative distances mirror those of the signed map, and give code 0 in the unsigned one.
void set_line(DynamicMap& map, size_t line, float slope, float intercept, int last_rank) {
  const int last = map.is_signed ? last_rank : last_rank - 1;
  map.slope[line] = slope;
  map.intercept[line] = intercept;
  map.last[line] = static_cast<float>(last);
  if (!map.is_signed) return;
  map.slope[kLines + line] = slope;
  map.intercept[kLines + line] = -intercept;
  map.last[kLines + line] = map.last[line];
}

// The line through the ranks of one decade: its slope is the decade's, its intercept the middle of those that
// round to the rank of every point. The decade's last rank continues for a while above its last boundary.
void fit_line(DynamicMap& map, size_t line, const std::array<int, kGridPoints / 2>& ranks, size_t begin,
              size_t end) {
  const int parts = 1 << std::ilogb(ranks[begin]);
  const int last = 2 * parts - 1;
  const double length = double{kDecadeLength} * scale_of(std::ilogb(parts) - (map.is_signed ? 0 : 1));
  // The distance of the number one.
  const double unit = 2.0 * (kGridPoints - 1) * (map.is_signed ? double{kStretch} : 1.0);
  const auto slope = static_cast<float>(parts / (length * unit));
  const int origin = map.is_signed ? 0 : 1;  // the rank that is 0 in what the line gives
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  for (size_t k = begin; k < end; ++k) {
    const double rise = static_cast<double>(slope) * static_cast<double>(distance(map, k));
    low = std::max(low, ranks[k] - origin - 0.5 - rise);
    if (ranks[k] < last) high = std::min(high, ranks[k] - origin + 0.5 - rise);
  }
  CHECK(low < high && std::isfinite(high), "no line gives the ranks of points {} to {}", begin, end);
  set_line(map, line, slope, static_cast<float>((low + high) / 2), last);
}

void make_lines(DynamicMap& map) {
  const std::array<int, kGridPoints / 2> ranks = ranks_above_zero(map);
  const int first_decade = std::ilogb(ranks[0]);
  const auto line_of = [&](size_t k) { return static_cast<size_t>(std::ilogb(ranks[k]) - first_decade); };
  const size_t top = line_of(ranks.size() - 1);
  for (size_t begin = 0, end = 0; line_of(begin) < top; begin = end) {
    while (line_of(end) == line_of(begin)) ++end;
    fit_line(map, line_of(begin), ranks, begin, end);
  }
  CHECK(top < kLines, "the map has {} lines", top + 1);
  set_line(map, top, 0.0F, static_cast<float>(ranks.back() - (map.is_signed ? 0 : 1)), ranks.back());
  // The lowest code has the rank -127.
  if (map.is_signed) map.last[kLines + top] = static_cast<float>(ranks.back() - 1);

  // The distances between two powers of two have one line or two. The second one starts with a carry out of
  // the five bits of the exponent that name no line.
  const auto lead_to_line = [&](size_t begin, size_t end) {
    const uint32_t field = exponent_field(distance(map, begin));
    size_t change = begin;
    while (change < end && line_of(change) == line_of(begin)) ++change;
    CHECK(line_of(end - 1) <= line_of(begin) + 1, "points {} to {} have more than two lines", begin, end);
    uint32_t target = static_cast<uint32_t>(line_of(begin)) << 28;
    if (change < end) {
      const uint32_t between = std::midpoint(std::bit_cast<uint32_t>(distance(map, change - 1)),
                                             std::bit_cast<uint32_t>(distance(map, change)));
      target += (0x20U << 23) - (between & 0x7fffffU);
    }
    map.to_line[field % 16] = target - (field << 23);
  };
  lead_to_line(0, 1);
  for (size_t begin = 1; begin < ranks.size(); begin *= 2) lead_to_line(begin, 2 * begin);
}

DynamicMap make_map(bool is_signed) {
  DynamicMap map{};
  map.is_signed = is_signed;
  make_values(map);
  make_number_lines(map);
  make_lines(map);
  return map;
}

}  // namespace

const DynamicMap& signed_dynamic_map() {
  static const DynamicMap map = make_map(true);
  return map;
}
const DynamicMap& unsigned_dynamic_map() {
  static const DynamicMap map = make_map(false);
  return map;
}

}  // namespace shoehorn::cpu
