// Reads keys of config.json that many architectures share, within bounds. `file` is named in errors. Every
// function throws UserError naming file and key, what was expected and what was found.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "data/labels.h"
#include "graph/attributes.h"

namespace shoehorn {

// Far above any model's sizes, and low enough for sizes in bytes to fit in 63 bits.
inline constexpr int64_t kMaxRows = int64_t{1} << 26;  // of an embedding table
inline constexpr int64_t kMaxColumns = int64_t{1} << 20;
inline constexpr int64_t kMaxLayers = 256;  // planning takes seconds with so many

class ConfigReader {
 public:
  // Both must outlive this object. UserError if `config` is not a JSON object.
  ConfigReader(const nlohmann::json& config, const std::string& file);

  // For an absent key or null these return the fallback.
  int64_t size(const char* key, int64_t fallback, int64_t most) const;
  float number(const char* key, float fallback, float low, float high) const;
  Activation activation(const char* key, Activation fallback = Activation::kGelu) const;
  bool flag(const char* key, bool fallback) const;
  // As size(), but from 0.
  int64_t count(const char* key, int64_t fallback, int64_t most) const;
  // Whether the key is there, be it null.
  bool has(const char* key) const;
  bool is_null(const char* key) const;  // it is there
  // The id that fills up sequences; -1 if there is none. transformers lets a config say -1, which is no token's id.
  int64_t padding_token(int64_t fallback, int64_t vocab_size) const;
  // The row of a table that is not trained, that of the padding; -1 if there is none. A config's -1 is the last row.
  int64_t padding_row(int64_t fallback, int64_t vocab_size) const;
  // The labels by num_labels, id2label and problem_type. As in transformers, without problem_type one label
  // means regression and several mean single-label classification. Throws UserError as make_task does.
  LabelMap label_map() const;

  // UserError if the key has another value; an absent key passes.
  void expect_model_type(const char* model_type) const;
  void expect_false(const char* key) const;
  // UserError if the key is there and not null: what it asks for is not supported.
  void expect_absent(const char* key) const;
  // UserError if `value` is no multiple of `divisor`.
  void expect_multiple(const char* key, int64_t value, const char* divisor_key, int64_t divisor) const;

 private:
  int64_t whole_number(const char* key, int64_t fallback, int64_t least, int64_t most) const;
  ProblemType problem_type(int64_t num_labels) const;

  const nlohmann::json& config_;
  const std::string& file_;
};

// The keys with a number or a text that every architecture or transformers' generation reads.
inline constexpr std::string_view kSharedConfigKeys[] = {"bos_token_id", "eos_token_id", "num_labels",
                                                         "pad_token_id", "problem_type", "vocab_size"};

// Writes problem_type, id2label and label2id. The number of labels follows from them.
void write_labels(nlohmann::json& config, const LabelMap& labels);

}  // namespace shoehorn
