// Parameters between files and the persistent arena: by Hugging Face name, whatever the layout they have
// here.
//
// Where several processes share a model, each reads the elements of its shards, a piece at a time, from files
// of whole tensors or of slices alike; each writes those that it owns into a file of its own beside the
// others' (io/owner.h, io/tensor_files.h). No process holds a whole tensor on the way.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/torch_random.h"
#include "exec/executor.h"
#include "graph/state_table.h"
#include "io/safetensors_writer.h"
#include "io/tensor_files.h"
#include "optim/optimizer.h"
#include "state/original_weights.h"

namespace shoehorn {

// A tensor of the files that was not read, since its parameter has another shape.
struct DroppedTensor {
  std::string parameter;
  std::vector<int64_t> shape_in_file;
  std::vector<int64_t> shape;  // the parameter's
};

struct LoadedWeights {
  std::vector<std::string>
      initialized;  // parameters that are missing in the files or dropped; they were initialized
  std::vector<std::string> unused;  // tensors without a parameter in the model
  std::vector<DroppedTensor> dropped;
  std::map<std::string, std::string> contents;  // as of OriginalWeights
};

// Whether a parameter may have another shape than its tensor in the files: it is initialized then. Empty: none may.
using MayBeDropped = std::function<bool(const Parameter& parameter)>;

// Whether this is a parameter of the head.
bool is_of_head(const StateTable& state, const Parameter& parameter);

// A line for people that names them with their shapes, empty if there are none.
std::string format_dropped(const std::vector<DroppedTensor>& dropped);

// A line for people that names unused tensors (the first ones, if there are many). Empty if there are none,
// or only buffers that older versions of transformers saved (position_ids, GPT-2's masks, rotary frequencies).
std::string format_unused(const std::vector<std::string>& tensors);

// Reads every parameter into place, of shards their elements, but those of adapters, which no base model has.
// Names: as they are, the state table's other names for them, without the leading base_model_prefix (a base model's
// files), and with the old endings gamma and beta. Only parameters of the head may be absent: they are initialized from `generator`. UserError
// naming file and tensor: another shape, a missing tensor; DamagedFile where a file is not what its manifest
// says.
LoadedWeights load_weights(const TensorFiles& files, const StateTable& state, Executor& executor,
                           TorchGenerator& generator, const MayBeDropped& may_be_dropped = {});

// The name under which the files have a parameter of the model, by the rules above; empty if they have not.
std::string name_in_files(const TensorFiles& files, const StateTable& state, const std::string& parameter);

// Reads tensor `name` into the parameter. UserError: another shape than the parameter's, which `says`
// explains ("config.json says"), or no floating-point numbers. `content` is told of the values that are here
// in float32.
void load_parameter(VerifiedTensorFiles& tensors, const std::string& name, const Parameter& parameter,
                    std::string_view says, Executor& executor, ContentHash* content = nullptr);

// Every parameter from its initializer; random ones counter-based (exec/host_kernels.h), a stream each, so that an
// element's number does not depend on who holds it.
void initialize_weights(const StateTable& state, Executor& executor, uint64_t seed);

// The starting weights of a run: those in `directory` or, if that is empty, new ones; both as above with this
// seed. Adapters are always new.
struct StartedWeights {
  std::vector<std::string> initialized;  // parameters missing in the files or dropped, except adapters
  std::vector<std::string> unused;       // tensors without a parameter in the model
  std::vector<DroppedTensor> dropped;
  std::optional<OriginalWeights> originals;  // the files of the others; nullopt: all are new
};
StartedWeights start_weights(const std::filesystem::path& directory, const StateTable& state,
                             Executor& executor, int64_t seed, const MayBeDropped& may_be_dropped = {});

// The names, dtypes in files and whole shapes of all parameters, in the order of the state table. There are no
// adapters among them: those are saved by state/adapter_weights.h. A weight is written in the type that holds
// all of it: float32, or the 16-bit type that it has here without a master. One that is not trained, and has
// fewer bits here than in `originals`, the files that the weights came from (null: none), is written as those
// have it, in float32.
std::vector<TensorSpec> weight_specs(const StateTable& state, const OriginalWeights* originals = nullptr);

// The dtype for the model's config.json: that of trained weights without masters, or else float32.
DType model_dtype(const StateTable& state);

// Writes model.safetensors (or shards) with these into an existing directory, which may be that of the
// originals. SystemError, and the directory stays as it was, where those are not what they were.
// One of several owners writes the elements that it owns to its own file in place of model.safetensors; one that is
// alone has every parameter whole (else InternalError).
void save_weights(const std::filesystem::path& directory, const StateTable& state, const Executor& executor,
                  const OriginalWeights* originals = nullptr, const Owner& owner = {});

// Writes the weights that are in `files`, whole or in slices, into an existing directory as save_weights of a single
// owner does, byte for byte. UserError for a parameter that they lack; DamagedFile as above.
void assemble_weights(const std::filesystem::path& directory, const TensorFiles& files,
                      const StateTable& state);

// Optimizer states, as "<parameter>.<state>". DamagedFile as above; owners as of save_weights.
void save_optimizer_states(const std::filesystem::path& file, const StateTable& state,
                           const Executor& executor, const OptimizerSettings& settings,
                           const Owner& owner = {});
// From this file, or where it is missing from those that owners wrote in place of it. UserError for a state that is
// missing or has another form, and for a tensor that is no state of these parameters.
void load_optimizer_states(const std::filesystem::path& file, const StateTable& state, Executor& executor,
                           const OptimizerSettings& settings);

// Local elements [offset, offset + values.size()) of a parameter as fp32, whatever its storage.
void read_parameter(const Executor& executor, const Parameter& parameter, int64_t offset,
                    std::span<float> values);
void write_parameter(Executor& executor, const Parameter& parameter, int64_t offset,
                     std::span<const float> values);

}  // namespace shoehorn
