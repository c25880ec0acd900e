// The state table: the persistent storages that all programs of a family share (weights, optimizer states,
// gradients under accumulation, inputs, scalars), and the parameters in them.
//
// A parameter is a logical tensor with its Hugging Face name; a storage may hold several (query, key and
// value in one), so that checkpoints, decay groups and freezing follow the parameter while kernels follow the
// storage. Where several processes share a model, each has a state table with all parameters, and of each
// parameter the shard that it holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/slice.h"
#include "graph/ids.h"
#include "graph/types.h"

namespace shoehorn {

struct Storage {
  std::string name;
  TensorType type;
  Role role = Role::kWeight;
  Region region;  // layer and component
  // After merge() joined this storage with others: the storage that has its bytes now. Invalid otherwise.
  StorageId merged_into;
  AddressSpace space = AddressSpace::kDevice;
};

// How a parameter is initialized if no checkpoint has it.
struct Initializer {
  enum class Kind : uint8_t { kNormal, kZeros, kOnes, kUniform } kind = Kind::kZeros;
  float standard_deviation = 0.02F;
  int64_t zero_row = -1;  // this row is set to zero (an embedding's padding index)
  float bound = 0;        // kUniform: [-bound, bound)
};

// What a process holds of a tensor that several processes share.
struct Shard {
  Slice slice = {};
  // Elements behind those of the slice that its storage has too, so that the shards of a tensor can be of one size.
  // They are zero: nothing updates them, and no file has them.
  int64_t padding = 0;
  // The process that writes these elements to files, by its number; several may hold the same.
  int32_t owner = 0;
};
// The owner of elements that another process writes, whichever that is.
inline constexpr int32_t kAnotherOwner = -1;

// A tensor by its logical shape, of which a process holds all elements or a shard. *Global* counts are of the whole
// tensor, *local* ones of the elements that are here.
struct ShardedTensor {
  std::vector<int64_t> shape;  // of the whole tensor, whatever of it is here
  std::optional<Shard> shard;  // none: all of it is here, and process 0 writes it

  int64_t global_elements() const;
  int64_t local_elements() const { return shard ? shard->slice.elements() : global_elements(); }
  // The local ones and their padding: what the storage has.
  int64_t stored_elements() const { return local_elements() + (shard ? shard->padding : 0); }
  bool is_sharded() const { return shard.has_value(); }
  bool is_whole() const { return local_elements() == global_elements(); }
  Slice slice() const { return shard ? shard->slice : Slice::whole(global_elements()); }
  int32_t owner() const { return shard ? shard->owner : 0; }
};

// One of several processes that have a weight alike, and each states of its own for it (local SGD).
struct Replica {
  int32_t number = 0;
  int32_t count = 1;
};

// Elements are stored in the order of the tensor's slice (base/slice.h), from `offset_elements` of the storage on.
struct Parameter : ShardedTensor {
  std::string name;   // as in a Hugging Face checkpoint
  StorageId storage;  // fp32, the bf16 high half of a split master, or 16 bits without a master
  StorageId rest;     // the 16-bit rest of a split master; invalid otherwise
  int64_t offset_elements = 0;
  bool trainable = true;
  bool is_embedding = false;   // a table whose rows are looked up
  bool is_layer_norm = false;  // the scale or shift of a LayerNorm, which has no weight decay
  bool is_adapter = false;     // the pass `lora` added it; no file of the base model has it
  float weight_decay = 0;
  std::optional<Replica> own_states;  // none: the process's states are those of all that have the weight
  Initializer initializer;
};

class StateTable {
 public:
  StorageId add_storage(Storage storage);
  ParameterId add_parameter(Parameter parameter);

  const Storage& storage(StorageId id) const { return storages_[id.at()]; }
  Storage& storage(StorageId id) { return storages_[id.at()]; }
  const Parameter& parameter(ParameterId id) const { return parameters_[id.at()]; }
  Parameter& parameter(ParameterId id) { return parameters_[id.at()]; }

  const std::vector<Storage>& storages() const { return storages_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<Parameter>& parameters() { return parameters_; }

  // The parameters that lie in a storage, by offset.
  std::vector<ParameterId> parameters_of(StorageId storage) const;
  ParameterId find_parameter(std::string_view name) const;  // invalid if absent
  StorageId find_storage(std::string_view name) const;      // invalid if absent

  // The prefix of parameter names that files of the model without its head leave out; empty if there is none.
  const std::string& base_model_prefix() const { return base_model_prefix_; }
  void set_base_model_prefix(std::string prefix) { base_model_prefix_ = std::move(prefix); }

  // Other names under which files may have a parameter, by its name.
  const std::map<std::string, std::string>& other_names() const { return other_names_; }
  void set_other_names(std::map<std::string, std::string> names) { other_names_ = std::move(names); }

  // Every parameter lies in its storage, beside the others, with no more elements than its tensor has; InternalError
  // that names it otherwise.
  void verify_parameters() const;

  // Lays the storages one behind the other in a new one and moves their parameters there; the first dimension
  // adds up. The old storages stay in the table, empty.
  StorageId merge(const std::vector<StorageId>& parts, std::string name);

 private:
  std::vector<Storage> storages_;
  std::vector<Parameter> parameters_;
  std::string base_model_prefix_;
  std::map<std::string, std::string> other_names_;
};

}  // namespace shoehorn
