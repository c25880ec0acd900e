#include "report/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/format.h"

namespace shoehorn {

namespace {

struct UnitScale {
  double size = 1;     // of the unit that ticks are said in
  const char* suffix;  // with its space
};

// The unit of ticks up to `largest`: one for the whole axis.
UnitScale scale_of(Unit unit, double largest) {
  switch (unit) {
    case Unit::kBytes: {
      static constexpr std::array<const char*, 5> kNames = {" B", " KiB", " MiB", " GiB", " TiB"};
      size_t power = 0;
      while (power + 1 < kNames.size() && largest >= std::pow(1024.0, static_cast<double>(power + 1)))
        ++power;
      return {std::pow(1024.0, static_cast<double>(power)), kNames[power]};
    }
    case Unit::kSeconds:
      if (largest >= 1 || largest == 0) return {1, " s"};
      return largest >= 1e-3 ? UnitScale{1e-3, " ms"} : UnitScale{1e-6, " µs"};
    case Unit::kShare:
      return {0.01, " %"};
    case Unit::kNumber:
    case Unit::kCount:
      return {1, ""};
  }
  return {1, ""};
}

// 1e-05 as 1e-5: ticks are short of room.
std::string without_leading_zero(std::string text) {
  const size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  size_t digits = exponent + 1;
  if (text[digits] == '+') text.erase(digits, 1);
  if (text[digits] == '-') ++digits;
  while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  return text;
}

std::string plain_number(double value) {
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude >= 1000 && magnitude < 1e9 && value == std::floor(value)) {
    return format_count(static_cast<int64_t>(value));
  }
  return without_leading_zero(fmt::format("{:.6g}", value));
}

// "2 min 05 s", "3 h 20 min".
std::string format_minutes(double value) {
  const char* sign = value < 0 ? "-" : "";
  const int64_t seconds = std::llround(std::abs(value));
  if (seconds < 3600) return fmt::format("{}{} min {:02} s", sign, seconds / 60, seconds % 60);
  const int64_t minutes = (seconds + 30) / 60;
  return fmt::format("{}{} h {:02} min", sign, format_count(minutes / 60), minutes % 60);
}

// To a tenth of a percent at most: nobody wants to know 0.000749 %.
std::string format_share(double value) {
  const double percent = 100 * value;
  if (percent != 0 && std::abs(percent) < 0.05) return percent < 0 ? "> -0.1 %" : "< 0.1 %";
  const double tenths = std::round(10 * percent);
  if (std::fmod(tenths, 10) == 0) return fmt::format("{:.0f} %", percent);
  return fmt::format("{:.1f} %", percent);
}

double nice_step(double span, int64_t most) {
  const double least = span / static_cast<double>(most);
  const double decade = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least * (1 - 1e-9)) return factor * decade;
  }
  return 10 * decade;
}

AxisTicks linear_ticks(double low, double high, const PlotAxis& axis, int64_t most, bool widen) {
  if (axis.from_zero) low = std::min(low, 0.0);
  if (axis.from_zero) high = std::max(high, 0.0);
  if (high <= low) {  // a single value: room on both sides of it
    const double room = low == 0 ? 1 : std::abs(low) * 0.1;
    high = low + (axis.unit == Unit::kCount ? std::max(1.0, room) : room);
    if (!axis.from_zero && low != 0) low -= axis.unit == Unit::kCount ? std::max(1.0, room) : room;
  }
  const UnitScale scale = scale_of(axis.unit, std::max(std::abs(low), std::abs(high)));
  // Widening can add a tick at either end.
  double step = nice_step((high - low) / scale.size, std::max<int64_t>(1, most - (widen ? 2 : 1)));
  if (axis.unit == Unit::kCount) step = std::max(1.0, step);
  AxisTicks ticks;
  const double unit = step * scale.size;
  // A hair of tolerance, so that an end that is a tick but for rounding counts as one.
  const double first = widen ? std::floor(low / unit + 1e-9) : std::ceil(low / unit - 1e-9);
  const double last = widen ? std::ceil(high / unit - 1e-9) : std::floor(high / unit + 1e-9);
  for (double k = first; k <= last; ++k) {
    ticks.at.push_back(k * unit);
    ticks.labels.push_back(plain_number(k * step) + (k == 0 ? "" : scale.suffix));
  }
  ticks.low = widen ? first * unit : low;
  ticks.high = widen ? last * unit : high;
  return ticks;
}

AxisTicks logarithmic_ticks(double low, double high, const PlotAxis& axis, int64_t most) {
  const double base = axis.unit == Unit::kBytes ? 2 : 10;
  double first = std::floor(std::log(low) / std::log(base) + 1e-9);
  double last = std::ceil(std::log(high) / std::log(base) - 1e-9);
  if (last <= first) last = first + 1;
  AxisTicks ticks;
  ticks.logarithmic = true;
  ticks.low = std::pow(base, first);
  ticks.high = std::pow(base, last);
  const double stride = std::max(1.0, std::ceil((last - first) / static_cast<double>(most - 1)));
  const bool between = base == 10 && (last - first) * 3 + 1 <= static_cast<double>(most);
  for (double k = first; k <= last; k += stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(base, k);
      if ((factor == 1 || between) && value <= ticks.high * (1 + 1e-9)) ticks.at.push_back(value);
    }
  }
  for (const double value : ticks.at) {
    const UnitScale scale = scale_of(axis.unit, value * (1 + 1e-9));
    ticks.labels.push_back(plain_number(value / scale.size) + scale.suffix);
  }
  return ticks;
}

}  // namespace

std::string format_value(double value, Unit unit) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  switch (unit) {
    case Unit::kBytes:
      return format_bytes(std::llround(value));
    case Unit::kCount:
      return value == std::floor(value) && std::abs(value) < 9e15 ? format_count(static_cast<int64_t>(value))
                                                                  : fmt::format("{:.4g}", value);
    case Unit::kSeconds: {
      if (std::abs(value) >= 120) return format_minutes(value);
      const UnitScale scale = scale_of(unit, std::abs(value));
      return fmt::format("{:.3g}{}", value / scale.size, scale.suffix);
    }
    case Unit::kShare:
      return format_share(value);
    case Unit::kNumber:
      return without_leading_zero(fmt::format("{:.4g}", value));
  }
  return {};
}

std::string format_difference(double value, Unit unit) {
  const char* sign = value > 0 ? "+" : value < 0 ? "-" : "";
  return fmt::format("{}{}", sign, format_value(std::abs(value), unit));
}

double AxisTicks::position(double value) const {
  if (!std::isfinite(value) || (logarithmic && value <= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

AxisTicks make_ticks(double low, double high, const PlotAxis& axis, int64_t most, bool widen) {
  CHECK(std::isfinite(low) && std::isfinite(high) && low <= high, "an axis from {} to {}", low, high);
  most = std::max<int64_t>(2, most);
  if (axis.logarithmic) {
    CHECK(low > 0, "a logarithmic axis from {}", low);
    return logarithmic_ticks(low, high, axis, most);
  }
  return linear_ticks(low, high, axis, most, widen);
}

bool has_place(double value, const PlotAxis& axis) {
  return std::isfinite(value) && (!axis.logarithmic || value > 0);
}

void AxisRange::add(double value) {
  if (!has_place(value, axis_)) return;
  low_ = is_empty_ ? value : std::min(low_, value);
  high_ = is_empty_ ? value : std::max(high_, value);
  is_empty_ = false;
}

}  // namespace shoehorn
