#include "cli/round_options.h"

#include "base/error.h"

namespace shoehorn {

std::vector<ArgumentSpec> round_rows(const RoundLimits& limits) {
  using enum ArgumentKind;
  return {{.name = "repeats",
           .kind = kInteger,
           .standard = limits.least,
           .help = "the fewest processes of a setting; given without --max_repeats: exactly so many"},
          {.name = "max_repeats",
           .kind = kInteger,
           .standard = limits.most,
           .help = "the most processes of a setting whose median is not stable"},
          {.name = "median_error",
           .kind = kNumber,
           .standard = limits.precision,
           .help = "a median is stable when half of its 90 % interval is at most this share of it"},
          {.name = "max_seconds",
           .kind = kNumber,
           .standard = limits.most_seconds,
           .help = "no further process of a setting begins when its processes have taken this long"}};
}

RoundLimits round_limits(const CommandOptions& given) {
  RoundLimits limits;
  limits.least = given.integer_at_least("repeats", 1);
  const bool is_exact = given.is_given("repeats") && !given.is_given("max_repeats");
  limits.most = is_exact ? limits.least : given.integer_at_least("max_repeats", 1);
  limits.precision = given.number("median_error");
  limits.most_seconds = given.number_at_least("max_seconds", 0);
  if (limits.most < limits.least)
    throw user_error("[--max_repeats] expected --repeats ({}) or more, got {}", limits.least, limits.most);
  if (!(limits.precision > 0))
    throw user_error("[--median_error] expected more than 0, got {}", limits.precision);
  return limits;
}

}  // namespace shoehorn
