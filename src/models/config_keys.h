// Keys of config.json that many architectures have, read with bounds. `file` names it in errors; every reader throws
// UserError naming file and key, what was expected and what was found.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/labels.h"
#include "graph/attributes.h"

namespace shoehorn {

// Far above any model's sizes, and low enough for bytes to be counted in 63 bits.
inline constexpr int64_t kMostRows = int64_t{1} << 26;  // of a table
inline constexpr int64_t kMostColumns = int64_t{1} << 20;
inline constexpr int64_t kMostLayers = 256;  // planning takes seconds then

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
  // The labels of num_labels, id2label and problem_type; where that is absent, one label is a regression and
  // several are classes of which a text has one, as transformers has it. UserError of make_task.
  LabelMap label_map() const;

  // Refuses another value; absent is as expected.
  void expect_model_type(const char* model_type) const;
  void expect_false(const char* key) const;

 private:
  ProblemType problem_type(int64_t num_labels) const;

  const nlohmann::json& config_;
  const std::string& file_;
};

// Writes problem_type, id2label and label2id; these have the number of labels too.
void write_labels(nlohmann::json& config, const LabelMap& labels);

}  // namespace shoehorn
