#include "optim/reduce_lr_on_plateau.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace shoehorn {

ReduceLrOnPlateau::ReduceLrOnPlateau(double learning_rate, const PlateauOptions& options)
    : learning_rate_(learning_rate), options_(options) {
  const auto require = [](bool met, std::string_view name, std::string_view expected, double value) {
    if (!met) throw user_error("[lr_scheduler_kwargs: {}] expected {}, got {}", name, expected, value);
  };
  const auto require_size = [&](std::string_view name, double value) {
    require(value >= 0 && std::isfinite(value), name, "a number of 0 or more", value);
  };
  if (!std::isfinite(learning_rate))
    throw user_error("[learning_rate] expected a number, got {}", learning_rate);
  require(options.factor >= 0 && options.factor < 1, "factor", "a number in [0, 1)", options.factor);
  require_size("patience", static_cast<double>(options.patience));
  require_size("threshold", options.threshold);
  require_size("cooldown", static_cast<double>(options.cooldown));
  require_size("min_lr", options.min_lr);
  require_size("eps", options.eps);
}

PlateauState ReduceLrOnPlateau::start() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {.learning_rate = learning_rate_, .best = options_.is_max ? -kInfinity : kInfinity};
}

bool ReduceLrOnPlateau::is_better(double metric, double best) const {
  if (options_.is_max) {
    return metric > (options_.is_absolute ? best + options_.threshold : best * (options_.threshold + 1.0));
  }
  return metric < (options_.is_absolute ? best - options_.threshold : best * (1.0 - options_.threshold));
}

PlateauState ReduceLrOnPlateau::next(PlateauState state, double metric) const {
  if (is_better(metric, state.best)) {
    state.best = metric;
    state.bad_evaluations = 0;
  } else {
    ++state.bad_evaluations;
  }
  if (state.cooldown_left > 0) {
    --state.cooldown_left;
    state.bad_evaluations = 0;
  }
  if (state.bad_evaluations > options_.patience) {
    const double reduced = std::max(state.learning_rate * options_.factor, options_.min_lr);
    if (state.learning_rate - reduced > options_.eps) state.learning_rate = reduced;
    state.cooldown_left = options_.cooldown;
    state.bad_evaluations = 0;
  }
  return state;
}

}  // namespace shoehorn
