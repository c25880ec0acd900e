#include "models/rotary_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/config_keys.h"

namespace shoehorn {

namespace {

using nlohmann::json;

// The waves of each pair of dimensions, and their inverses: computed in float step by step, as PyTorch does. At position
// 100,000 a frequency that is rounded elsewhere turns by a hundredth of a radian.
std::vector<float> waves_of(double theta, int64_t dimensions) {
  std::vector<float> waves;
  for (int64_t i = 0; i < dimensions; i += 2)
    waves.push_back(
        std::pow(static_cast<float>(theta), static_cast<float>(i) / static_cast<float>(dimensions)));
  return waves;
}

std::vector<float> frequencies_of(std::vector<float> waves) {
  for (float& wave : waves) wave = 1 / wave;
  return waves;
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
    for (const auto& [name, value] : rope_.items()) {
      if (!value.is_object()) continue;
      throw user_error(
          "[{}] expected one '{}' for all layers, got an object at '{}'; one for each type of layer is not supported",
          file, key_, name);
    }
  }

  Rotary read() const {
    const json type = rope_.value("rope_type", rope_.value("type", json("default")));
    check_is_whole();
    const int64_t dimensions = shape_.head_size;
    if (dimensions < 2 || dimensions % 2 != 0)
      throw user_error("[{}] expected an even number of dimensions a head, which turn in pairs, got {}",
                       file_, dimensions);
    const double theta = number("rope_theta", config_number("rope_theta", shape_.theta), 1e-3, 1e18);
    const std::vector<float> waves = waves_of(theta, dimensions);
    std::vector<float> frequencies = frequencies_of(waves);
    double attention_factor = 1;
    Rotary rotary{.max_positions = shape_.max_positions};
    if (type == "linear") {
      const double factor = needed("factor", 1e-3, 1e6);
      for (float& frequency : frequencies) frequency /= static_cast<float>(factor);
      rotary.max_positions = stretched(shape_.max_positions, factor);
    } else if (type == "llama3") {
      scale_as_llama3(frequencies);
    } else if (type == "yarn") {
      const double factor = yarn_factor();
      frequencies = yarn_frequencies(waves, theta, factor);
      attention_factor = yarn_attention_factor(factor);
      rotary.max_positions = stretched(static_cast<int64_t>(original_positions()), factor);
    } else if (type == "longrope" || type == "su") {
      attention_factor = longrope_attention_factor();
      rotary.short_positions = static_cast<int64_t>(original_positions());
      rotary.long_frequencies = longrope_frequencies(waves, "long_factor");
      frequencies = longrope_frequencies(waves, "short_factor");
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
    rotary.frequencies = {.frequencies = frequencies,
                          .attention_factor = static_cast<float>(attention_factor)};
    return rotary;
  }

 private:
  // transformers' classes of these architectures turn whole heads, whatever the config says.
  void check_is_whole() const {
    const double partial = find("partial_rotary_factor").value_or(config_number("partial_rotary_factor", 1));
    if (partial == 1) return;
    throw user_error(
        "[{}] expected 'partial_rotary_factor' to be 1, got {}; heads of this architecture turn as wholes",
        file_, partial);
  }

  // What sequences may have: the config's own number is often that before the stretching.
  int64_t stretched(int64_t positions, double factor) const {
    const double most = std::min(static_cast<double>(positions) * factor, static_cast<double>(kMaxRows));
    return std::max(shape_.max_positions, static_cast<int64_t>(most));
  }

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
  void scale_as_llama3(std::vector<float>& frequencies) const {
    const auto factor = static_cast<float>(needed("factor", 1e-3, 1e6));
    const double low = needed("low_freq_factor", 1e-6, 1e6);
    const double high = needed("high_freq_factor", 1e-6, 1e6);
    if (low >= high) {
      throw user_error("[{}] expected 'low_freq_factor' of '{}' below 'high_freq_factor', got {} and {}",
                       file_, key_, low, high);
    }
    const double positions = original_positions();
    const auto longest_kept = static_cast<float>(positions / high);
    const auto shortest_stretched = static_cast<float>(positions / low);
    for (float& frequency : frequencies) {
      const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
      if (wave < longest_kept) continue;
      if (wave > shortest_stretched) {
        frequency /= factor;
        continue;
      }
      const float smooth =
          (static_cast<float>(positions) / wave - static_cast<float>(low)) / static_cast<float>(high - low);
      frequency = (1 - smooth) * frequency / factor + smooth * frequency;
    }
  }

  // null stands for the ratio of lengths, as in transformers.
  double yarn_factor() const {
    if (!rope_.contains("factor")) return needed("factor", 1e-3, 1e6);
    return number("factor", static_cast<double>(shape_.max_positions) / original_positions(), 1e-3, 1e6);
  }

  // null is false, as in transformers.
  bool truncates() const {
    const json value = rope_.value("truncate", json(true));
    if (value.is_boolean() || value.is_null()) return value == true;
    throw user_error("[{}] expected 'truncate' of '{}' to be true or false, got {}", file_, key_,
                     value.dump());
  }

  // Peng et al., 2023.
  std::vector<float> yarn_frequencies(const std::vector<float>& waves, double theta, double factor) const {
    const double positions = original_positions();
    const auto dimensions = 2 * static_cast<double>(waves.size());
    const auto dimension_of = [&](double rotations) {
      return dimensions * std::log(positions / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
    };
    double first = dimension_of(number("beta_fast", 32, 1e-3, 1e6));
    double last = dimension_of(number("beta_slow", 1, 1e-3, 1e6));
    if (truncates()) {
      first = std::floor(first);
      last = std::ceil(last);
    }
    first = std::max(first, 0.0);
    last = std::min(last, dimensions - 1);
    if (first == last) last += 0.001;
    std::vector<float> frequencies;
    for (size_t i = 0; i < waves.size(); ++i) {
      const float ramp = std::clamp(
          (static_cast<float>(i) - static_cast<float>(first)) / static_cast<float>(last - first), 0.0F, 1.0F);
      const float kept = 1 - ramp;
      frequencies.push_back(1 / (static_cast<float>(factor) * waves[i]) * (1 - kept) + 1 / waves[i] * kept);
    }
    return frequencies;
  }

  // Of cosines and sines.
  double yarn_attention_factor(double factor) const {
    if (const auto stated = find("attention_factor")) return checked("attention_factor", *stated, 1e-6, 1e6);
    const auto scale = [factor](double weight) {
      return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
    };
    const double mscale = find("mscale").value_or(0);
    const double mscale_all = find("mscale_all_dim").value_or(0);
    return mscale != 0 && mscale_all != 0 ? scale(mscale) / scale(mscale_all) : scale(1);
  }

  // By the list of one number for each wave at `key`.
  std::vector<float> longrope_frequencies(std::vector<float> waves, const char* key) const {
    const json factors = rope_.value(key, json());
    if (!factors.is_array() || factors.size() != waves.size()) {
      throw user_error("[{}] expected '{}' of '{}' to be a list of {} numbers, got {}", file_, key, key_,
                       waves.size(), factors.dump());
    }
    for (size_t i = 0; i < waves.size(); ++i) {
      if (!factors[i].is_number() || !(factors[i].get<double>() > 0))
        throw user_error("[{}] expected positive numbers in '{}' of '{}', got {}", file_, key, key_,
                         factors[i].dump());
      waves[i] *= factors[i].get<float>();
    }
    return frequencies_of(std::move(waves));
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
    scaled.frequencies = frequencies_of(waves_of(theta, std::ssize(frequencies.frequencies) * 2));
  } else {
    scaled.frequencies = long_frequencies;
  }
  return scaled;
}

Rotary rotary_from_json(const json& config, const RotaryShape& shape, const std::string& file) {
  return RotaryReader(config, shape, file).read();
}

}  // namespace shoehorn
