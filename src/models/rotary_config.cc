#include "models/rotary_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <vector>

#include "base/error.h"
#include "models/config_keys.h"

namespace shoehorn {

namespace {

using nlohmann::json;

std::vector<double> frequencies_of(double theta, int64_t dimensions) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dimensions; i += 2)
    frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(dimensions)));
  return frequencies;
}

std::vector<float> floats_of(const std::vector<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

class RotaryReader {
 public:
  RotaryReader(const json& config, const RotaryShape& shape, const std::string& file)
      : config_(config), shape_(shape), file_(file) {
    // A legacy key that is not empty wins, as in transformers.
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const json value = config.value(key, json());
      if (value.is_null() || (value.is_object() && value.empty())) continue;
      if (!value.is_object())
        throw user_error("[{}] expected '{}' to be an object, got {}", file, key, value.dump());
      key_ = key;
      rope_ = value;
      break;
    }
  }

  Rotary read() const {
    const json type = rope_.value("rope_type", rope_.value("type", json("default")));
    const double partial = number("partial_rotary_factor", config_number("partial_rotary_factor", 1), 0, 1);
    const auto dimensions = static_cast<int64_t>(static_cast<double>(shape_.head_size) * partial);
    if (dimensions < 2 || dimensions % 2 != 0) {
      throw user_error("[{}] expected an even number of rotary dimensions a head, got {} of {}", file_,
                       dimensions, shape_.head_size);
    }
    const double theta = number("rope_theta", config_number("rope_theta", shape_.theta), 1e-3, 1e18);
    std::vector<double> frequencies = frequencies_of(theta, dimensions);
    double attention_factor = 1;
    Rotary rotary{.max_positions = shape_.max_positions};
    if (type == "linear") {
      const double factor = number("factor", 1, 1e-3, 1e6);
      for (double& frequency : frequencies) frequency /= factor;
    } else if (type == "llama3") {
      scale_as_llama3(frequencies);
    } else if (type == "yarn") {
      attention_factor = scale_as_yarn(frequencies, theta);
    } else if (type == "longrope" || type == "su") {
      attention_factor = longrope_attention_factor();
      rotary.short_positions = static_cast<int64_t>(original_positions());
      rotary.long_frequencies = floats_of(divided(frequencies, "long_factor"));
      frequencies = divided(frequencies, "short_factor");
    } else if (type == "dynamic") {
      rotary.dynamic = DynamicRope{.theta = theta, .factor = needed("factor", 1e-3, 1e6)};
      if (dimensions == 2) {
        throw user_error(
            "[{}] expected more than 2 rotary dimensions a head with the 'rope_type' dynamic, got 2", file_);
      }
      rotary.short_positions = shape_.max_positions;
      rotary.max_positions = kMaxRows;
    } else if (type != "default") {
      throw user_error(
          "[{}] expected the 'rope_type' of '{}' to be default, linear, dynamic, llama3, yarn or longrope, got {}",
          file_, key_, type.dump());
    }
    rotary.frequencies = {.frequencies = floats_of(frequencies),
                          .attention_factor = static_cast<float>(attention_factor)};
    return rotary;
  }

 private:
  std::optional<double> find(const char* key) const {
    const json value = rope_.value(key, json());
    if (value.is_null()) return std::nullopt;
    if (!value.is_number())
      throw user_error("[{}] expected '{}' of '{}' to be a number, got {}", file_, key, key_, value.dump());
    return value.get<double>();
  }

  double checked(const char* key, double value, double low, double high) const {
    if (value >= low && value <= high) return value;
    throw user_error("[{}] expected '{}' of '{}' to be from {} to {}, got {}", file_, key, key_, low, high,
                     value);
  }

  double number(const char* key, double fallback, double low, double high) const {
    return checked(key, find(key).value_or(fallback), low, high);
  }

  double needed(const char* key, double low, double high) const {
    const auto value = find(key);
    if (!value) throw user_error("[{}] expected '{}' in '{}', got none", file_, key, key_);
    return checked(key, *value, low, high);
  }

  double config_number(const char* key, double fallback) const {
    const json value = config_.value(key, json());
    if (value.is_null()) return fallback;
    if (!value.is_number())
      throw user_error("[{}] expected '{}' to be a number, got {}", file_, key, value.dump());
    return value.get<double>();
  }

  // The config's own key wins, as in transformers.
  double original_positions() const {
    const double in_rope =
        number("original_max_position_embeddings", static_cast<double>(shape_.max_positions), 1, 1e12);
    const double stated = config_number("original_max_position_embeddings", in_rope);
    if (stated >= 1 && stated <= 1e12) return stated;
    throw user_error("[{}] expected 'original_max_position_embeddings' to be from 1 to 1e12, got {}", file_,
                     stated);
  }

  // Long waves are stretched, short ones stay, those between are interpolated.
  void scale_as_llama3(std::vector<double>& frequencies) const {
    const double factor = needed("factor", 1e-3, 1e6);
    const double low = needed("low_freq_factor", 1e-6, 1e6);
    const double high = needed("high_freq_factor", 1e-6, 1e6);
    if (low >= high) {
      throw user_error("[{}] expected 'low_freq_factor' of '{}' below 'high_freq_factor', got {} and {}",
                       file_, key_, low, high);
    }
    const double positions = original_positions();
    for (double& frequency : frequencies) {
      const double wave = 2 * std::numbers::pi / frequency;
      const double smooth = std::clamp((positions / wave - low) / (high - low), 0.0, 1.0);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }

  // Peng et al., 2023. Returns the factor of cosines and sines.
  double scale_as_yarn(std::vector<double>& frequencies, double theta) const {
    const double positions = original_positions();
    const double factor = number("factor", static_cast<double>(shape_.max_positions) / positions, 1e-3, 1e6);
    const auto dimensions = 2 * static_cast<double>(frequencies.size());
    const auto dimension_of = [&](double rotations) {
      return dimensions * std::log(positions / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
    };
    double first = dimension_of(number("beta_fast", 32, 1e-3, 1e6));
    double last = dimension_of(number("beta_slow", 1, 1e-3, 1e6));
    if (rope_.value("truncate", json(true)) != false) {
      first = std::floor(first);
      last = std::ceil(last);
    }
    first = std::max(first, 0.0);
    last = std::min(last, dimensions - 1);
    if (first == last) last += 0.001;
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double stretched = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
      frequencies[i] = frequencies[i] / factor * stretched + frequencies[i] * (1 - stretched);
    }
    if (const auto stated = find("attention_factor")) return checked("attention_factor", *stated, 1e-6, 1e6);
    const auto scale = [factor](double weight) {
      return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
    };
    const double mscale = find("mscale").value_or(0);
    const double mscale_all = find("mscale_all_dim").value_or(0);
    return mscale != 0 && mscale_all != 0 ? scale(mscale) / scale(mscale_all) : scale(1);
  }

  // By the list of one number for each frequency at `key`.
  std::vector<double> divided(std::vector<double> frequencies, const char* key) const {
    const json factors = rope_.value(key, json());
    if (!factors.is_array() || factors.size() != frequencies.size()) {
      throw user_error("[{}] expected '{}' of '{}' to be a list of {} numbers, got {}", file_, key, key_,
                       frequencies.size(), factors.dump());
    }
    for (size_t i = 0; i < frequencies.size(); ++i) {
      if (!factors[i].is_number() || !(factors[i].get<double>() > 0))
        throw user_error("[{}] expected positive numbers in '{}' of '{}', got {}", file_, key, key_,
                         factors[i].dump());
      frequencies[i] /= factors[i].get<double>();
    }
    return frequencies;
  }

  // Of cosines and sines, with either list.
  double longrope_attention_factor() const {
    const double positions = original_positions();
    const double factor = number("factor", static_cast<double>(shape_.max_positions) / positions, 1e-3, 1e6);
    if (const auto stated = find("attention_factor")) return checked("attention_factor", *stated, 1e-6, 1e6);
    return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(positions));
  }

  const json& config_;
  const RotaryShape& shape_;
  const std::string& file_;
  const char* key_ = "rope_parameters";
  json rope_ = json::object();
};

}  // namespace

RotaryFrequencies Rotary::for_length(int64_t longest) const {
  if (longest <= short_positions) return frequencies;
  RotaryFrequencies scaled = frequencies;
  if (dynamic) {
    const auto dimensions = 2 * static_cast<double>(frequencies.frequencies.size());
    const double lengths = static_cast<double>(longest) / static_cast<double>(short_positions);
    const double growth = dynamic->factor * lengths - (dynamic->factor - 1);
    const double theta = dynamic->theta * std::pow(growth, dimensions / (dimensions - 2));
    scaled.frequencies = floats_of(frequencies_of(theta, std::ssize(frequencies.frequencies) * 2));
  } else {
    scaled.frequencies = long_frequencies;
  }
  return scaled;
}

Rotary rotary_from_json(const json& config, const RotaryShape& shape, const std::string& file) {
  return RotaryReader(config, shape, file).read();
}

}  // namespace shoehorn
