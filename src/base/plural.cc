#include "base/plural.h"

#include <fmt/format.h>

#include "base/format.h"

namespace shoehorn {

std::string plural_form(int64_t count, std::string_view noun) {
  if (count == 1) return std::string(noun);
  const bool ends_in_hiss =
      noun.ends_with('s') || noun.ends_with('x') || noun.ends_with("ch") || noun.ends_with("sh");
  if (ends_in_hiss) return std::string(noun) + "es";
  const bool ends_in_y = noun.size() > 1 && noun.ends_with('y') &&
                         std::string_view("aeiou").find(noun[noun.size() - 2]) == std::string_view::npos;
  return ends_in_y ? std::string(noun.substr(0, noun.size() - 1)) + "ies" : std::string(noun) + "s";
}

std::string plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}", count, plural_form(count, noun));
}

std::string plural_count(int64_t count, std::string_view noun) {
  return fmt::format("{} {}", format_count(count), plural_form(count, noun));
}

}  // namespace shoehorn
