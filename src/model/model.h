// A model that can be trained: its computation, its task, and what its checkpoint needs to know.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace shoehorn {

class ModelBuilder;
class Outputs;
class Task;
struct LabelMap;

// The size of a dimension in the model's matrix products, in elements.
struct NamedSize {
  std::string name;
  int64_t size = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  // Computes the outputs that the task reads: for most tasks "logits" [S, C]. Called once for each program of
  // a family, on symbolic tensors.
  virtual Outputs forward(ModelBuilder& builder) const = 0;
  // The task that the model is trained for. The reference is valid until set_labels() or the end of the
  // model.
  virtual const Task& task() const = 0;
  // The longest sequence in tokens and the number of token ids; data is checked against both.
  virtual int64_t max_positions() const = 0;
  virtual int64_t vocab_size() const = 0;
  // The longest sequence, in tokens, where nobody says one: the config's. Models that extend their positions (rotary scaling
  // of type dynamic) take longer ones.
  virtual int64_t max_position_embeddings() const { return max_positions(); }

  // The hidden size (elements per token between layers); 0 if the model does not say.
  virtual int64_t hidden_size() const { return 0; }
  // The sizes of the model's products, for advice on multiples that the hardware prefers.
  virtual std::vector<NamedSize> product_sizes() const { return {}; }

  // From the task: the number of outputs, and their names in order.
  int64_t num_labels() const;
  const std::vector<std::string>& labels() const;
  // Changes the task to one for such labels. UserError if the model's labels cannot be changed, or not to
  // these.
  virtual void set_labels(const LabelMap& labels);

  // The text of config.json; empty for a model without one.
  virtual std::string config_json() const { return {}; }
  // The first part of the parameter names ("transformer") that files of the model without its head leave out. Empty:
  // there are no such files.
  virtual std::string base_model_prefix() const { return {}; }

  // Other names under which files may have a parameter, by the parameter's: those of a tied head that was saved in place of
  // the table.
  virtual std::map<std::string, std::string> other_names() const { return {}; }

  // The parameter whose rows are the outputs that the task scores ("classifier.weight"); empty if there is
  // none.
  virtual std::string head_weight() const { return {}; }

  // The linear layers that get low-rank adapters by default, by the last part of their names; PEFT's
  // defaults.
  virtual std::vector<std::string> lora_targets() const { return {"query", "value"}; }
  // The modules that are trained and saved whole beside the adapters, because they are new for a task. Empty:
  // the layer that makes the logits.
  virtual std::vector<std::string> lora_modules_to_save() const { return {}; }

  // The directory with the weights that runs of this model start from, unless a run names another. Empty: new
  // weights.
  const std::filesystem::path& weights_directory() const { return weights_directory_; }
  void set_weights_directory(std::filesystem::path directory) { weights_directory_ = std::move(directory); }

  // Lines for people about how the model was read; none for most.
  const std::vector<std::string>& notices() const { return notices_; }
  void add_notice(std::string notice) { notices_.push_back(std::move(notice)); }

  // Makes later runs recompute the activations of every n layers in the backward instead of keeping them
  // (activation checkpointing), as --gradient_checkpointing does for one run. UserError if n is less than 1.
  void gradient_checkpointing_enable(int64_t every_n_layers = 1);
  void gradient_checkpointing_disable() { recompute_every_n_layers_ = 0; }
  int64_t recompute_every_n_layers() const { return recompute_every_n_layers_; }  // 0: off

 private:
  std::filesystem::path weights_directory_;
  std::vector<std::string> notices_;
  int64_t recompute_every_n_layers_ = 0;
};

}  // namespace shoehorn
