// A model that can be trained: what it computes, and what its checkpoint says of itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

class ModelBuilder;
class Outputs;
class Task;
struct LabelMap;

// A size of a model's products, in elements.
struct NamedSize {
  std::string name;
  int64_t size = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  // The outputs that its task reads: for most tasks "logits" [S, C] of the batch. Called once for each program of the
  // family.
  virtual Outputs forward(ModelBuilder& builder) const = 0;
  // What it is trained for; lives as long as the model, or until set_labels.
  virtual const Task& task() const = 0;
  // Longest sequence it takes, and the number of token ids, so that data can be checked against them.
  virtual int64_t max_positions() const = 0;
  virtual int64_t vocab_size() const = 0;

  // Width of a token between layers; 0 where the model does not say.
  virtual int64_t hidden_size() const { return 0; }
  // Sizes that its products are of, for advice on what hardware likes.
  virtual std::vector<NamedSize> product_sizes() const { return {}; }

  // Of its task: the number of outputs, and their names in their order.
  int64_t num_labels() const;
  const std::vector<std::string>& labels() const;
  // Makes the task that of such labels. UserError where the model's cannot be changed, or not to these.
  virtual void set_labels(const LabelMap& labels);

  // The text of config.json; empty for a model without one.
  virtual std::string config_json() const { return {}; }
  // The first part of the names of parameters ("transformer") that files of the model without its head leave out;
  // empty: no such files.
  virtual std::string base_model_prefix() const { return {}; }

  // The parameter whose rows are the outputs that the task scores ("score.weight"); empty: none is.
  virtual std::string head_weight() const { return {}; }

  // The linear layers that low-rank adapters go to where nobody says, by the last part of their names: PEFT's.
  virtual std::vector<std::string> lora_targets() const { return {"query", "value"}; }
  // The modules that are trained and saved whole beside them, being new for a task; empty: the layer of the logits.
  virtual std::vector<std::string> lora_modules_to_save() const { return {}; }

  // The directory whose weights runs of this model start from, unless they name another; empty: new ones.
  const std::filesystem::path& weights_directory() const { return weights_directory_; }
  void set_weights_directory(std::filesystem::path directory) { weights_directory_ = std::move(directory); }

  // Runs that follow make the activations of every n layers again in the backward in place of keeping them,
  // as --gradient_checkpointing asks of one run. UserError: fewer than one layer.
  void gradient_checkpointing_enable(int64_t every_n_layers = 1);
  void gradient_checkpointing_disable() { recompute_every_n_layers_ = 0; }
  int64_t recompute_every_n_layers() const { return recompute_every_n_layers_; }  // 0: off

 private:
  std::filesystem::path weights_directory_;
  int64_t recompute_every_n_layers_ = 0;
};

}  // namespace shoehorn
