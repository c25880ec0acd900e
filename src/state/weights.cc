#include "state/weights.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "base/content_hash.h"
#include "base/error.h"
#include "exec/host_kernels.h"
#include "exec/host_view.h"
#include "io/float_convert.h"

namespace shoehorn {

namespace {

// Conversions pass through this much at a time; static, so that saving during a run allocates nothing of
// size.
constexpr int64_t kChunkElements = int64_t{1} << 16;
struct Staging {
  std::array<float, kChunkElements> values;
  std::array<std::byte, kChunkElements * 8> bytes;
  std::array<int16_t, kChunkElements> rests;
};
Staging& staging() {
  static Staging buffers;
  return buffers;
}

constexpr int64_t kLoadedBytes = int64_t{1}
                                 << 18;  // of a state at a time: in the cache when it is checksummed
constexpr int64_t kRestBytes = 2;        // of an element of a split master's rest

// Calls function(first, count) for the chunks of so many elements.
template <typename Function>
void for_each_chunk(int64_t elements, const Function& function) {
  for (int64_t at = 0; at < elements; at += kChunkElements)
    function(at, std::min(kChunkElements, elements - at));
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Elements [offset, offset + values.size()) of a tensor of float type as fp32; a chunk at most.
void read_elements(VerifiedTensors& tensors, const std::string& name, int64_t offset,
                   std::span<float> values) {
  const DType dtype = tensors.tensor(name).dtype;
  const int64_t element = dtype_bytes(dtype);
  const std::span<std::byte> raw =
      std::span(staging().bytes).first(values.size() * static_cast<size_t>(element));
  tensors.read_range(name, offset * element, raw);
  convert_elements(dtype, raw, values);
}

// Whether a parameter lies here in 16 bits, without a master.
bool has_no_master(const StateTable& state, const Parameter& parameter) {
  return !parameter.rest.valid() && dtype_bytes(state.storage(parameter.storage).type.dtype) == 2;
}

// The name of what the originals have of a parameter beyond what it has here; empty where that is nothing.
std::string original_name(const StateTable& state, const Parameter& parameter,
                          const OriginalWeights* originals) {
  if (originals == nullptr || parameter.trainable || !has_no_master(state, parameter)) return {};
  const std::string name = name_in_files(originals->files, state, parameter.name);
  const DType dtype = state.storage(parameter.storage).type.dtype;
  return name.empty() || originals->files.tensor(name).dtype == dtype ? std::string{} : name;
}

// Bytes of a parameter as they lie here.
void copy_bytes(const Executor& executor, const Parameter& parameter, int64_t offset_bytes,
                std::span<std::byte> to) {
  const int64_t width = dtype_bytes(executor.state().storage(parameter.storage).type.dtype);
  executor.read(parameter.storage, parameter.offset_elements * width + offset_bytes, to);
}

// Fills a parameter a chunk at a time: fill(offset, values).
template <typename Fill>
void fill_parameter(Executor& executor, const Parameter& parameter, const Fill& fill) {
  const int64_t columns = parameter.elements() / std::max<int64_t>(1, parameter.shape[0]);
  const int64_t zero_from = parameter.initializer.zero_row * columns;
  for (int64_t at = 0; at < parameter.elements(); at += kChunkElements) {
    const std::span<float> values =
        std::span(staging().values)
            .first(static_cast<size_t>(std::min(kChunkElements, parameter.elements() - at)));
    fill(at, values);
    for (int64_t i = 0; parameter.initializer.zero_row >= 0 && i < static_cast<int64_t>(values.size()); ++i) {
      if (at + i >= zero_from && at + i < zero_from + columns) values[static_cast<size_t>(i)] = 0;
    }
    write_parameter(executor, parameter, at, values);
  }
}

void fill_constant(Executor& executor, const Parameter& parameter) {
  const float value = parameter.initializer.kind == Initializer::Kind::kOnes ? 1.0F : 0.0F;
  fill_parameter(executor, parameter,
                 [&](int64_t, std::span<float> values) { std::fill(values.begin(), values.end(), value); });
}

// From the initializer; the numbers of parameter `index` are those of stream `index` + 1.
void initialize_parameter(const StateTable& state, size_t index, Executor& executor, uint64_t seed) {
  const Parameter& parameter = state.parameters()[index];
  const Initializer& initializer = parameter.initializer;
  const auto stream = static_cast<uint32_t>(index) + 1;
  switch (initializer.kind) {
    case Initializer::Kind::kNormal:
      fill_parameter(executor, parameter, [&](int64_t at, std::span<float> values) {
        host::fill_normal({seed, stream, at}, initializer.standard_deviation, values);
      });
      return;
    case Initializer::Kind::kUniform:
      fill_parameter(executor, parameter, [&](int64_t at, std::span<float> values) {
        host::fill_uniform({seed, stream, at}, initializer.bound, values);
      });
      return;
    case Initializer::Kind::kZeros:
    case Initializer::Kind::kOnes:
      fill_constant(executor, parameter);
  }
}

// A parameter that a checkpoint lacks, drawn as PyTorch draws it: the whole tensor at once.
void initialize_as_torch(Executor& executor, const Parameter& parameter, TorchGenerator& generator) {
  const Initializer& initializer = parameter.initializer;
  std::vector<float> drawn;
  switch (initializer.kind) {
    case Initializer::Kind::kNormal:
      drawn.resize(static_cast<size_t>(parameter.elements()));
      generator.normal(drawn, 0, initializer.standard_deviation);
      break;
    case Initializer::Kind::kUniform:
      drawn.resize(static_cast<size_t>(parameter.elements()));
      generator.uniform(drawn, -initializer.bound, initializer.bound);
      break;
    case Initializer::Kind::kZeros:
    case Initializer::Kind::kOnes:
      fill_constant(executor, parameter);
      return;
  }
  fill_parameter(executor, parameter, [&](int64_t at, std::span<float> values) {
    std::copy_n(drawn.begin() + at, values.size(), values.begin());
  });
}

// A state of a parameter, as it is called in a file, and where it lies.
struct StateInFile {
  TensorSpec spec;
  StorageId storage;
  int64_t offset_bytes;
  int64_t bytes;
};

std::vector<StateInFile> optimizer_states_of(const StateTable& state, const OptimizerSettings& settings) {
  std::vector<StateInFile> found;
  for (const Parameter& parameter : state.parameters()) {
    for (const OptimizerState& kept : optimizer_states(settings, parameter)) {
      const OptimizerStatePlace place = find_optimizer_state(state, settings, parameter, kept.name);
      if (!place.storage.valid()) continue;
      const int64_t width = dtype_bytes(kept.dtype);
      found.push_back({{parameter.name + "." + kept.name, kept.dtype, kept.shape},
                       place.storage,
                       place.offset_elements * width,
                       kept.elements() * width});
    }
  }
  return found;
}

// Calls function(offset, bytes) for the pieces of a state that are viewed one by one, of `most` bytes or as
// many as the executor can show.
template <typename Function>
void for_each_piece(const Executor& executor, const StateInFile& kept, int64_t most,
                    const Function& function) {
  most = std::clamp<int64_t>(executor.largest_view_bytes(), 1, most);
  int64_t at = 0;
  do {
    const int64_t bytes = std::min(most, kept.bytes - at);
    function(at, bytes);
    at += bytes;
  } while (at < kept.bytes);
}

}  // namespace

void read_parameter(const Executor& executor, const Parameter& parameter, int64_t offset,
                    std::span<float> values) {
  const DType dtype = executor.state().storage(parameter.storage).type.dtype;
  const int64_t width = dtype_bytes(dtype);
  for_each_chunk(std::ssize(values), [&](int64_t at, int64_t count) {
    const int64_t from = parameter.offset_elements + offset + at;
    const auto chunk = values.subspan(static_cast<size_t>(at), static_cast<size_t>(count));
    const ReadView stored(executor, parameter.storage, from * width, count * width);
    if (parameter.rest.valid()) {
      const ReadView rest(executor, parameter.rest, from * kRestBytes, count * kRestBytes);
      host::join_master(stored.as<bfloat16>().data(), rest.as<int16_t>().data(), chunk);
    } else {
      host::convert(dtype, stored.bytes().data(), count, DType::kF32, chunk.data());
    }
  });
}

void write_parameter(Executor& executor, const Parameter& parameter, int64_t offset,
                     std::span<const float> values) {
  const DType dtype = executor.state().storage(parameter.storage).type.dtype;
  const int64_t width = dtype_bytes(dtype);
  for_each_chunk(std::ssize(values), [&](int64_t at, int64_t count) {
    const int64_t to = parameter.offset_elements + offset + at;
    const auto chunk = values.subspan(static_cast<size_t>(at), static_cast<size_t>(count));
    WriteView stored(executor, parameter.storage, to * width, count * width);
    if (parameter.rest.valid()) {
      WriteView rest(executor, parameter.rest, to * kRestBytes, count * kRestBytes);
      host::split_master(chunk, stored.as<bfloat16>().data(), rest.as<int16_t>().data());
      rest.send();
    } else if (dtype == DType::kBF16) {
      // The high half of what a split master would be, so that products see the same.
      host::split_master(chunk, stored.as<bfloat16>().data(), staging().rests.data());
    } else {
      host::convert(DType::kF32, chunk.data(), count, dtype, stored.bytes().data());
    }
    stored.send();
  });
}

std::string name_in_files(const SafetensorsModel& files, const StateTable& state,
                          const std::string& parameter) {
  std::vector<std::string> candidates = {parameter};
  const std::string prefix = state.base_model_prefix() + ".";
  if (prefix.size() > 1 && parameter.starts_with(prefix))
    candidates.push_back(parameter.substr(prefix.size()));
  for (size_t i = 0, count = candidates.size(); i < count; ++i) {
    const std::string candidate = candidates[i];
    for (const auto& [modern, old] :
         {std::pair<std::string, std::string>{"LayerNorm.weight", "LayerNorm.gamma"},
          {"LayerNorm.bias", "LayerNorm.beta"}}) {
      if (candidate.size() > modern.size() && candidate.ends_with(modern)) {
        candidates.push_back(candidate.substr(0, candidate.size() - modern.size()) + old);
      }
    }
  }
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const std::string& candidate) {
    return files.find(candidate) != nullptr;
  });
  return found == candidates.end() ? std::string{} : *found;
}

void load_parameter(VerifiedTensors& tensors, const std::string& name, const Parameter& parameter,
                    std::string_view says, Executor& executor, ContentHash* content) {
  const TensorEntry& entry = tensors.tensor(name);
  const SafetensorsFile& file = tensors.file();
  if (entry.shape != parameter.shape) {
    throw user_error("[{}: {}] expected shape {} as {}, got {}", file.path().string(), name,
                     shape_text(parameter.shape), says, shape_text(entry.shape));
  }
  if (!is_float(entry.dtype)) {
    throw user_error("[{}: {}] expected a floating-point tensor, got {}", file.path().string(), name,
                     dtype_name(entry.dtype));
  }
  for (int64_t at = 0; at < parameter.elements(); at += kChunkElements) {
    const auto count = static_cast<size_t>(std::min(kChunkElements, parameter.elements() - at));
    const std::span<float> values = std::span(staging().values).first(count);
    read_elements(tensors, name, at, values);
    if (content != nullptr) content->add(std::as_bytes(values));
    write_parameter(executor, parameter, at, values);
  }
}

LoadedWeights load_weights(const SafetensorsModel& files, const StateTable& state, Executor& executor,
                           TorchGenerator& generator) {
  LoadedWeights loaded;
  std::map<std::string, const Parameter*> parameter_of;  // by the name of a tensor
  for (const Parameter& parameter : state.parameters()) {
    if (parameter.is_adapter) continue;
    const std::string name = name_in_files(files, state, parameter.name);
    if (!name.empty()) {
      parameter_of[name] = &parameter;
    } else if (state.storage(parameter.storage).region.component == Component::kHead) {
      initialize_as_torch(executor, parameter, generator);
      loaded.initialized.push_back(parameter.name);
    } else {
      for (const SafetensorsFile& file : files.files()) verify_listed(file.path());
      throw user_error(
          "[{}] expected a tensor '{}', got none of that name; are these the weights of this model, and "
          "of its config.json?",
          files.directory().string(), parameter.name);
    }
  }
  for (const SafetensorsFile& file : files.files()) {
    load_verified(file, [&](VerifiedTensors& tensors) {
      for (const TensorEntry& tensor : file.tensors()) {
        const auto found = parameter_of.find(tensor.name);
        if (found == parameter_of.end()) {
          loaded.unused.push_back(tensor.name);
        } else {
          ContentHash content;
          load_parameter(tensors, tensor.name, *found->second, "config.json says", executor, &content);
          loaded.contents[tensor.name] = content.hex();
        }
      }
    });
  }
  return loaded;
}

std::string format_unused(const std::vector<std::string>& tensors) {
  constexpr size_t kMostNamed = 8;
  std::vector<std::string> named;
  for (const std::string& tensor : tensors) {
    if (!tensor.ends_with("position_ids")) named.push_back(tensor);
  }
  if (named.empty()) return {};
  const size_t more = named.size() - std::min(named.size(), kMostNamed);
  named.resize(named.size() - more);
  return fmt::format("not used, the model has no such parameters: {}{}", fmt::join(named, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

void initialize_weights(const StateTable& state, Executor& executor, uint64_t seed) {
  for (size_t i = 0; i < state.parameters().size(); ++i) initialize_parameter(state, i, executor, seed);
}

StartedWeights start_weights(const std::filesystem::path& directory, const StateTable& state,
                             Executor& executor, int64_t seed) {
  if (directory.empty()) {
    initialize_weights(state, executor, static_cast<uint64_t>(seed));
    return {};
  }
  TorchGenerator generator(static_cast<uint64_t>(seed));
  SafetensorsModel files = SafetensorsModel::open(directory);
  LoadedWeights loaded = load_weights(files, state, executor, generator);
  for (size_t i = 0; i < state.parameters().size(); ++i) {
    if (state.parameters()[i].is_adapter)
      initialize_parameter(state, i, executor, static_cast<uint64_t>(seed));
  }
  return {std::move(loaded.initialized), std::move(loaded.unused),
          OriginalWeights{std::move(files), std::move(loaded.contents)}};
}

std::vector<TensorSpec> weight_specs(const StateTable& state, const OriginalWeights* originals) {
  std::vector<TensorSpec> specs;
  for (const Parameter& parameter : state.parameters()) {
    if (parameter.is_adapter) continue;
    const bool is_narrow =
        has_no_master(state, parameter) && original_name(state, parameter, originals).empty();
    const DType dtype = is_narrow ? state.storage(parameter.storage).type.dtype : DType::kF32;
    specs.push_back({parameter.name, dtype, parameter.shape});
  }
  return specs;
}

DType model_dtype(const StateTable& state) {
  for (const Parameter& parameter : state.parameters()) {
    if (parameter.trainable && has_no_master(state, parameter))
      return state.storage(parameter.storage).type.dtype;
  }
  return DType::kF32;
}

void save_weights(const std::filesystem::path& directory, const StateTable& state, const Executor& executor,
                  const OriginalWeights* originals) {
  SafetensorsModelWriter writer(directory, weight_specs(state, originals));
  for (const TensorSpec& spec : writer.order()) {
    const Parameter& parameter = state.parameter(state.find_parameter(spec.name));
    std::optional<OriginalTensor> original;
    if (const std::string name = original_name(state, parameter, originals); !name.empty())
      original.emplace(*originals, name);
    writer.append_filled(spec.name, std::as_writable_bytes(std::span(staging().values)),
                         [&](int64_t offset, std::span<std::byte> chunk) {
                           if (spec.dtype != DType::kF32) {
                             copy_bytes(executor, parameter, offset, chunk);
                             return;
                           }
                           const std::span<float> values(reinterpret_cast<float*>(chunk.data()),
                                                         chunk.size() / sizeof(float));
                           if (original) {
                             original->read_next(values);
                           } else {
                             read_parameter(executor, parameter, offset / 4, values);
                           }
                         });
  }
  writer.commit();
}

void save_optimizer_states(const std::filesystem::path& file, const StateTable& state,
                           const Executor& executor, const OptimizerSettings& settings) {
  const std::vector<StateInFile> states = optimizer_states_of(state, settings);
  std::vector<TensorSpec> specs;
  specs.reserve(states.size());
  for (const StateInFile& kept : states) specs.push_back(kept.spec);
  SafetensorsWriter writer(file, specs);
  for (const StateInFile& kept : states) {
    for_each_piece(executor, kept, std::numeric_limits<int64_t>::max(), [&](int64_t at, int64_t bytes) {
      writer.append(kept.spec.name, ReadView(executor, kept.storage, kept.offset_bytes + at, bytes).bytes());
    });
  }
  writer.commit();
}

void load_optimizer_states(const std::filesystem::path& file, const StateTable& state, Executor& executor,
                           const OptimizerSettings& settings) {
  const SafetensorsFile source = SafetensorsFile::open(file);
  const std::vector<StateInFile> states = optimizer_states_of(state, settings);
  std::set<std::string_view> known;
  for (const StateInFile& kept : states) known.insert(kept.spec.name);
  for (const TensorEntry& entry : source.tensors()) {
    if (known.contains(entry.name)) continue;
    throw user_error(
        "[{}: {}] expected states of the weights that are trained, got another tensor; was it saved by a run "
        "with another optimizer, or with other weights frozen?",
        file.string(), entry.name);
  }
  load_verified(source, [&](VerifiedTensors& tensors) {
    for (const StateInFile& kept : states) {
      const TensorEntry& entry = source.tensor(kept.spec.name);
      if (entry.dtype != kept.spec.dtype || entry.shape != kept.spec.shape) {
        throw user_error(
            "[{}: {}] expected {} of shape {}, got {} of shape {}; was it saved by a run with another model?",
            file.string(), kept.spec.name, dtype_name(kept.spec.dtype), shape_text(kept.spec.shape),
            dtype_name(entry.dtype), shape_text(entry.shape));
      }
      for_each_piece(executor, kept, kLoadedBytes, [&](int64_t at, int64_t bytes) {
        WriteView piece(executor, kept.storage, kept.offset_bytes + at, bytes);
        tensors.read_range(kept.spec.name, at, piece.bytes());
        piece.send();
      });
    }
  });
}

}  // namespace shoehorn
