// What decoders share: a stack of an architecture's own, and the heads that stand on any of them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "data/labels.h"
#include "model/model_builder.h"
#include "models/text_classifier.h"

namespace shoehorn {

// Names are those of transformers and of its files.
struct DecoderFacts {
  std::string model_type;         // "gpt2"
  std::string causal_class;       // "GPT2LMHeadModel"
  std::string classifier_class;   // "GPT2ForSequenceClassification"
  std::string base_model_prefix;  // "transformer"
  std::string embedding;          // the parameter of the token embeddings: "transformer.wte.weight"
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t max_positions = 0;
  int64_t max_position_embeddings =
      0;  // config.json's, up to which a rotary scaling leaves positions as they were trained
  float initializer_range = 0.02F;
  bool ties_word_embeddings = false;  // the head of a language model is the table of the embeddings
  std::vector<NamedSize> product_sizes;
  std::vector<std::string> lora_targets;  // PEFT's defaults
  int64_t pad_token_id = -1;              // of config.json; -1: none
};

// Everything below the head. Immutable.
class DecoderStack {
 public:
  virtual ~DecoderStack() = default;
  const DecoderFacts& facts() const { return facts_; }
  // The output of the last norm for each token, [N, H].
  virtual Tensor hidden_states(ModelBuilder& builder) const = 0;

 protected:
  explicit DecoderStack(DecoderFacts facts) : facts_(std::move(facts)) {}

 private:
  DecoderFacts facts_;
};

// A language model that predicts the next token: output "logits" [N, V]. A head that is not tied is the parameter
// lm_head.weight.
class CausalLanguageModel : public Model {
 public:
  // `config_json` is the text of a config.json; all its keys are kept. Empty: what is saved says no more than the class.
  explicit CausalLanguageModel(std::shared_ptr<const DecoderStack> decoder, std::string config_json = {});

  Outputs forward(ModelBuilder& builder) const override;
  const Task& task() const override { return *task_; }
  int64_t max_positions() const override { return decoder_->facts().max_positions; }
  int64_t max_position_embeddings() const override { return decoder_->facts().max_position_embeddings; }
  int64_t vocab_size() const override { return decoder_->facts().vocab_size; }
  int64_t hidden_size() const override { return decoder_->facts().hidden_size; }
  std::vector<NamedSize> product_sizes() const override { return decoder_->facts().product_sizes; }
  std::string config_json() const override;
  std::string base_model_prefix() const override { return decoder_->facts().base_model_prefix; }
  std::vector<std::string> lora_targets() const override { return decoder_->facts().lora_targets; }
  // A tied head that was saved alone is the table.
  std::map<std::string, std::string> other_names() const override;
  bool ties_word_embeddings() const { return decoder_->facts().ties_word_embeddings; }
  // The parameters of the table and of a head that is not tied.
  const std::string& embedding() const { return decoder_->facts().embedding; }
  static constexpr const char* kHead = "lm_head.weight";
  // No module is new for the task.
  std::vector<std::string> lora_modules_to_save() const override { return {"none"}; }

 private:
  std::shared_ptr<const DecoderStack> decoder_;
  std::string config_json_;
  std::shared_ptr<const Task> task_;
};

// A classifier of texts by their last token, which is the last one that is not pad_token_id: "logits" [S, C]. The head is the
// parameter score.weight.
class DecoderForSequenceClassification : public TextClassifier {
 public:
  // As above. Throws UserError as make_task does.
  DecoderForSequenceClassification(std::shared_ptr<const DecoderStack> decoder, LabelMap labels,
                                   std::string config_json = {});

  Outputs forward(ModelBuilder& builder) const override;
  int64_t max_positions() const override { return decoder_->facts().max_positions; }
  int64_t max_position_embeddings() const override { return decoder_->facts().max_position_embeddings; }
  int64_t vocab_size() const override { return decoder_->facts().vocab_size; }
  int64_t hidden_size() const override { return decoder_->facts().hidden_size; }
  std::vector<NamedSize> product_sizes() const override { return decoder_->facts().product_sizes; }
  std::string base_model_prefix() const override { return decoder_->facts().base_model_prefix; }
  std::string head_weight() const override { return "score.weight"; }
  std::vector<std::string> lora_targets() const override { return decoder_->facts().lora_targets; }

 private:
  void write_keys(nlohmann::json& config) const override;

  std::shared_ptr<const DecoderStack> decoder_;
};

// Both heads, with the config that the stack was made of. UserError naming `file` for labels that no task has.
std::unique_ptr<Model> classifier_of_decoder(std::shared_ptr<const DecoderStack> decoder,
                                             const nlohmann::json& config, const std::string& file);
std::unique_ptr<Model> language_model_of_decoder(std::shared_ptr<const DecoderStack> decoder,
                                                 const nlohmann::json& config);

}  // namespace shoehorn
