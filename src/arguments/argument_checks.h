// Checks of argument values. Each throws UserError naming the argument and what it expects.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_table.h"
#include "base/error.h"
#include "base/format.h"

namespace shoehorn {

inline void require(bool met, std::string_view name, std::string_view expected, double value) {
  if (!met) throw user_error("[{}] expected {}, got {}", name, expected, value);
}

inline void require_positive(std::string_view name, int64_t value) {
  require(value >= 1, name, "1 or more", static_cast<double>(value));
}

inline void require_positive(std::string_view name, const std::optional<int64_t>& value) {
  if (value) require_positive(name, *value);
}

inline void require_between(std::string_view name, double value, double low, double high,
                            std::string_view expected) {
  require(value >= low && value <= high, name, expected, value);
}

// Integers up to this are exact in a double and fit in int64_t.
inline constexpr double kMaxSteps = 1e15;

// The largest --lora_rank: no layer of a model is wider.
inline constexpr int64_t kLargestLoraRank = 65536;

inline void require_fraction(std::string_view name, double value) {
  require(value >= 0 && value < 1, name, "a number in [0, 1)", value);
}

// Either a fraction of the run's steps (below 1), or an integer number of steps.
inline void require_interval(std::string_view name, double steps) {
  require(steps > 0, name, "more than 0", steps);
  require(steps <= kMaxSteps, name, "at most 1e15", steps);
  require(steps < 1 || steps == std::floor(steps), name, "an integer, or a share below 1", steps);
}

// Reads a dictionary of known keys, key by key.
class KwargsReader {
 public:
  KwargsReader(std::string_view flag, const Kwargs& kwargs, std::vector<std::string> known)
      : flag_(flag), kwargs_(kwargs) {
    for (const auto& [key, value] : kwargs) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      throw user_error("[{}: {}] expected {}, got '{}'{}", flag, key,
                       known.empty() ? "no options" : fmt::format("one of {}", fmt::join(known, ", ")), key,
                       did_you_mean(nearest_name(key, known)));
    }
  }

  std::optional<double> number(const std::string& key, std::string_view expected = "a number") const {
    const KwargValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
    if (const auto* number = std::get_if<double>(value); number != nullptr && !std::isnan(*number))
      return *number;
    throw wrong(key, expected, *value);
  }
  std::optional<bool> flag(const std::string& key) const {
    const KwargValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const bool* flag = std::get_if<bool>(value)) return *flag;
    throw wrong(key, "true or false", *value);
  }
  bool is(const std::string& key, const char* text) const {
    const KwargValue* value = find(key);
    return value != nullptr && *value == KwargValue(std::string(text));
  }
  std::optional<std::string> text(const std::string& key) const {
    const KwargValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* text = std::get_if<std::string>(value)) return *text;
    throw wrong(key, "a text", *value);
  }

 private:
  const KwargValue* find(const std::string& key) const {
    const auto found = kwargs_.find(key);
    return found == kwargs_.end() ? nullptr : &found->second;
  }
  UserError wrong(const std::string& key, std::string_view expected, const KwargValue& value) const {
    return user_error("[{}: {}] expected {}, got {}", flag_, key, expected,
                      argument_to_text(Kwargs{{key, value}}));
  }

  std::string flag_;
  const Kwargs& kwargs_;
};

}  // namespace shoehorn
