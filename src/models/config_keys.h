// Keys of config.json that many architectures have, read with bounds. `file` names it in errors; every reader throws
// UserError naming file and key, what was expected and what was found.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "graph/attributes.h"

namespace shoehorn {

// Far above any model's sizes, and low enough for bytes to be counted in 63 bits.
inline constexpr int64_t kMostRows = int64_t{1} << 26;  // of a table
inline constexpr int64_t kMostColumns = int64_t{1} << 20;
inline constexpr int64_t kMostLayers = 256;  // planning takes seconds then
inline constexpr int64_t kMostLabels = int64_t{1} << 20;

class ConfigReader {
 public:
  // Both outlive it. UserError: no JSON object.
  ConfigReader(const nlohmann::json& config, const std::string& file);

  // Absent and null are the fallback.
  int64_t size(const char* key, int64_t fallback, int64_t most) const;
  float number(const char* key, float fallback, float low, float high) const;
  Activation activation(const char* key) const;  // "gelu" where it is absent
  // The token whose embedding is not trained; -1 for none.
  int64_t padding_token(int64_t fallback, int64_t vocab_size) const;
  // The number of classes, of num_labels or id2label.
  int64_t num_labels() const;

  // Refuses another value; absent is as expected.
  void expect_model_type(const char* model_type) const;
  void expect_false(const char* key) const;
  // Refuses problems that are not the choice of one class.
  void expect_single_label() const;

 private:
  const nlohmann::json& config_;
  const std::string& file_;
};

// UserError naming `source` where a model of classes cannot have so many: one is a regression.
void check_num_labels(int64_t num_labels, const std::string& source);

// id2label in the order of the classes; nothing where the config has no names.
std::optional<std::vector<std::string>> read_labels(const nlohmann::json& config, const std::string& file);
// Writes id2label and label2id, which have the number of labels too.
void write_labels(nlohmann::json& config, const std::vector<std::string>& labels);

}  // namespace shoehorn
