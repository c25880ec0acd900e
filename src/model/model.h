// A model that can be trained: what it computes, and what its checkpoint says of itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shoehorn {

class ModelBuilder;
class Tensor;

// A size of a model's products, in elements.
struct NamedSize {
  std::string name;
  int64_t size = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  // Logits [S, C] of the batch. Called once for each program of the family.
  virtual Tensor forward(ModelBuilder& builder) const = 0;
  virtual int64_t num_labels() const = 0;
  // Longest sequence it takes, and the number of token ids, so that data can be checked against them.
  virtual int64_t max_positions() const = 0;
  virtual int64_t vocab_size() const = 0;

  // Width of a token between layers; 0 where the model does not say.
  virtual int64_t hidden_size() const { return 0; }
  // Sizes that its products are of, for advice on what hardware likes.
  virtual std::vector<NamedSize> product_sizes() const { return {}; }

  // Names of the classes, in their order; LABEL_0, LABEL_1, … where the model has none.
  virtual std::vector<std::string> labels() const;
  // The classes of another task. UserError where the model's cannot be changed, or not to these.
  virtual void set_labels(const std::vector<std::string>& labels);

  // The text of config.json; empty for a model without one.
  virtual std::string config_json() const { return {}; }
  // The first part of the names of parameters ("bert") that files of the model without its head leave out; empty: no
  // such files.
  virtual std::string base_model_prefix() const { return {}; }

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

// LABEL_0, LABEL_1, …: what Hugging Face calls classes without names.
std::vector<std::string> default_labels(int64_t count);

}  // namespace shoehorn
