#include "base/thread_stacks.h"

#include <fmt/format.h>
#include <limits.h>
#include <pthread.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/address_space.h"
#include "base/error.h"
#include "base/format.h"
#include "base/memory_limit.h"
#include "base/strip.h"

namespace shoehorn {

namespace {

// No process has more addresses (x86-64).
constexpr int64_t kMostBytes = int64_t{1} << 47;

// A whole number and a unit, b, k (also without one), m or g in either case. Nothing of another text, which libgomp does not
// heed either.
std::optional<int64_t> bytes_of(std::string_view text) {
  constexpr std::string_view kUnits = "bkmg";
  constexpr int kBitsOfUnit = 10;
  text = strip(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view unit = strip(text.substr(static_cast<size_t>(end - text.data())));
  const size_t place =
      unit.empty() ? 1 : kUnits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(unit[0]))));
  if (unit.size() > 1 || place == std::string_view::npos) return std::nullopt;
  const int bits = kBitsOfUnit * static_cast<int>(place);
  if (number > std::numeric_limits<int64_t>::max() >> bits) return std::nullopt;
  return number << bits;
}

int64_t standard_stack_bytes() {
  pthread_attr_t standard;
  size_t bytes = 0;
  if (pthread_getattr_default_np(&standard) != 0) return 0;
  pthread_attr_getstacksize(&standard, &bytes);
  pthread_attr_destroy(&standard);
  return static_cast<int64_t>(bytes);
}

}  // namespace

StackSize thread_stack_size() {
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"}) {
    const char* value = std::getenv(name);
    const std::optional<int64_t> bytes = value == nullptr ? std::nullopt : bytes_of(value);
    if (!bytes) continue;
    if (*bytes < PTHREAD_STACK_MIN) break;  // the system refuses it
    return {std::min(*bytes, kMostBytes), name};
  }
  return {.bytes = standard_stack_bytes()};
}

void check_room_for_stacks(int threads) {
  thread_local int had_room = 1;  // for so many threads
  if (threads <= had_room) return;
  const StackSize stack = thread_stack_size();
  const int64_t missing = threads - had_room;
  if (stack.bytes > 0 && !can_map(stack.bytes, missing)) {
    const MemoryLimit limit = binding_memory_limit();
    throw user_error(
        "[memory] expected {} for the stacks of {} threads, got {} ({}); raise this limit, or give fewer --num_threads{}",
        format_bytes(stack.bytes * missing), threads, format_bytes(limit.available_bytes), describe(limit),
        stack.variable == nullptr ? "" : fmt::format(" or a smaller {}", stack.variable));
  }
  had_room = threads;
}

}  // namespace shoehorn
