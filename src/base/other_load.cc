#include "base/other_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/plural.h"
#include "base/processors.h"

namespace shoehorn {

OtherLoad::OtherLoad(Sources sources) : sources_(std::move(sources)) {
  if (!sources_.busy_seconds) sources_.busy_seconds = [] { return allowed_busy_seconds(); };
  if (!sources_.own_seconds) sources_.own_seconds = [] { return processor_use().cpu_seconds; };
  if (!sources_.clock_seconds) {
    sources_.clock_seconds = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
  }
  busy_before_ = sources_.busy_seconds();
  own_before_ = sources_.own_seconds();
  began_ = sources_.clock_seconds();
}

std::optional<double> OtherLoad::processors() const {
  const std::optional<double> busy = sources_.busy_seconds();
  const double seconds = sources_.clock_seconds() - began_;
  if (!busy || !busy_before_ || seconds <= 0) return std::nullopt;
  return std::max(0.0, (*busy - *busy_before_ - (sources_.own_seconds() - own_before_)) / seconds);
}

std::string other_load_text(std::optional<double> others, int64_t threads, int64_t processors) {
  constexpr double kNoticed = 0.1;  // of a thread's processor; less is the system's own work
  const auto spare = static_cast<double>(std::max<int64_t>(0, processors - threads));
  if (!others || *others - spare < kNoticed * static_cast<double>(std::min(threads, processors))) return {};
  return fmt::format("other processes used {:.1f} of {}", *others, plural(processors, "processor"));
}

}  // namespace shoehorn
