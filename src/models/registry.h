// The architectures, by Hugging Face's model_type, and the shapes that have names. A new architecture is a
// file of this folder and a row in registry.cc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/labels.h"
#include "model/model.h"

namespace shoehorn {

// The model of a parsed config.json, with new weights; without a model_type it is a BERT. `file` names it in errors.
// UserError: an unknown model_type, what the architecture cannot compute.
std::unique_ptr<Model> model_from_json(const nlohmann::json& config, const std::string& file);

// Picks the architecture by the config's model_type, as transformers' class of this name does.
class AutoModelForSequenceClassification {
 public:
  // The model of a config.json, with new weights. Errors also of read_json.
  static std::unique_ptr<Model> from_config(const std::filesystem::path& file);
  // The model of a directory (io/model_directory.h), whose weights a run starts from. Errors also of
  // open_model_directory.
  static std::unique_ptr<Model> from_pretrained(const std::filesystem::path& directory);
};

// Sizes that have names ("bert-large"), and no weights.
std::vector<std::string> shape_names();
// Null where no shape has this name.
std::unique_ptr<Model> model_of_shape(std::string_view name);

// The shapes that benches take where nobody names one: of a step, of the efficient-training guides' ladder, of a look
// in a minute.
inline constexpr std::string_view kStepShape = "bert-base";
inline constexpr std::string_view kLadderShape = "bert-large";
inline constexpr std::string_view kQuickShape = "bert-mini";

// A model that learns in a second: two layers of 64.
std::unique_ptr<Model> model_of_a_second(int64_t vocab_size, int64_t positions, LabelMap labels);

}  // namespace shoehorn
