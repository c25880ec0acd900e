// The architectures by Hugging Face's model_type, and named model sizes. architecture_list.h has the list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/labels.h"
#include "model/model.h"

namespace shoehorn {

// What stands on an architecture.
enum class Head : uint8_t { kSequenceClassification, kCausalLanguageModel };

// The head of the class that the config's 'architectures' names. A decoder's config without it, or with null or an empty list, is
// a language model's; others, and configs of other heads, are a classifier's.
Head head_of(const nlohmann::json& config);

// A model with new weights from a parsed config.json. Without model_type it is BERT. `file` is named in
// errors. UserError: an unknown model_type, an architecture without this head, or a config that the
// architecture cannot compute.
std::unique_ptr<Model> model_from_json(const nlohmann::json& config, const std::string& file,
                                       Head head = Head::kSequenceClassification);

// A model with the head that `head` names, or else the one of its config, new or from a directory; as the classes below. A decoder
// has a notice where its config names a class that is of neither head.
std::unique_ptr<Model> model_of_config(const nlohmann::json& config, const std::string& file,
                                       std::optional<Head> head);
std::unique_ptr<Model> model_of_config(const std::filesystem::path& file, std::optional<Head> head = {});
std::unique_ptr<Model> model_of_directory(const std::filesystem::path& directory,
                                          std::optional<Head> head = {});
// To be planned, or given other weights: of a directory that needs none. Its weights, where it has some, say whether a head is
// apart from the table that the config ties it to, as the model of the directory has it.
std::unique_ptr<Model> model_of_files(const std::filesystem::path& directory, std::optional<Head> head = {});

// Chooses the architecture by the config's model_type, like transformers' class of this name.
class AutoModelForSequenceClassification {
 public:
  // A model with new weights from a config.json. Errors also of read_json.
  static std::unique_ptr<Model> from_config(const std::filesystem::path& file);
  // A model from a directory (io/model_directory.h); runs start from its weights. Errors also of
  // open_model_directory.
  static std::unique_ptr<Model> from_pretrained(const std::filesystem::path& directory);
};

// The same for language models.
class AutoModelForCausalLM {
 public:
  static std::unique_ptr<Model> from_config(const std::filesystem::path& file);
  static std::unique_ptr<Model> from_pretrained(const std::filesystem::path& directory);
};

// The keys with one value that the architecture of a config.json reads, in order: what --config_overrides may set. None for an
// unknown model_type.
std::vector<std::string> config_key_names(const nlohmann::json& config);
// The key that transformers' attribute_map of the architecture has for this name; else the name.
std::string config_key_of(const nlohmann::json& config, std::string_view name);
// Sets a key where it is read: in the object of the ropes if that has it, which wins over the config's own.
void set_config_key(nlohmann::json& config, const std::string& key, const nlohmann::json& value);

// Names of model sizes ("bert-large"). They have no weights.
std::vector<std::string> shape_names();
// With the head that `head` names, or else a language model where the architecture is a decoder, and a classifier where it is
// none. Null if no size has this name. UserError if the architecture has no such head.
std::unique_ptr<Model> model_of_shape(std::string_view name, std::optional<Head> head = {});

// The default sizes of benchmarks: of one step, of the ladder of the efficient-training guides, and of
// `--quick`.
inline constexpr std::string_view kStepShape = "bert-base";
inline constexpr std::string_view kLadderShape = "bert-large";
inline constexpr std::string_view kQuickShape = "bert-mini";

// A model that trains within a second: two layers of hidden size 64.
std::unique_ptr<Model> model_of_a_second(int64_t vocab_size, int64_t positions, LabelMap labels);

}  // namespace shoehorn
