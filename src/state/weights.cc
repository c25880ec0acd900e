#include "state/weights.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/content_hash.h"
#include "base/error.h"
#include "exec/host_kernels.h"
#include "exec/host_view.h"
#include "io/file.h"
#include "io/float_convert.h"
#include "io/manifest.h"
#include "io/model_directory.h"
#include "passes/local_sgd.h"

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

// Elements of a slice of a tensor of float type, from its local number `first` on, as fp32; a chunk at most.
void read_elements(VerifiedTensorFiles& tensors, const std::string& name, const Slice& slice, int64_t first,
                   std::span<float> values) {
  const DType dtype = tensors.tensor(name).dtype;
  const std::span<std::byte> raw =
      std::span(staging().bytes).first(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  tensors.read_slice(name, slice, first, raw);
  convert_elements(dtype, raw, values);
}

// A head has the size that the labels ask for, so that its refusal says another way out.
void check_head_size(const TensorFiles& files, const std::string& name, const StateTable& state,
                     const Parameter& parameter) {
  const std::vector<int64_t>& shape = files.tensor(name).shape;
  if (!is_of_head(state, parameter) || shape == parameter.shape) return;
  throw user_error(
      "[{}: {}] expected shape {} for the labels of this run, got {}; give train "
      "--ignore_mismatched_sizes for a new head in its place",
      files.path_of(name).string(), name, shape_text(parameter.shape), shape_text(shape));
}

// A process that has all of a model vouches for every file; of several each for those that it reads.
VerifiedTensorFiles::Verifies files_to_verify(const StateTable& state) {
  const auto is_sharded = [](const Parameter& parameter) { return parameter.is_sharded(); };
  const std::vector<Parameter>& all = state.parameters();
  return std::any_of(all.begin(), all.end(), is_sharded) ? VerifiedTensorFiles::Verifies::kWhatIsRead
                                                         : VerifiedTensorFiles::Verifies::kAll;
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

// Puts zeros where a parameter has its row of zeros; `values` are its elements from the global number `first` on.
void clear_zero_row(const Parameter& parameter, int64_t first, std::span<float> values) {
  const int64_t row = parameter.initializer.zero_row;
  if (row < 0) return;
  const int64_t columns = parameter.global_elements() / std::max<int64_t>(1, parameter.shape[0]);
  const int64_t end = first + std::ssize(values);
  for (int64_t i = std::max(first, row * columns); i < std::min(end, (row + 1) * columns); ++i)
    values[static_cast<size_t>(i - first)] = 0;
}

// Fills what is here of a parameter, a chunk at a time: fill(first, values) gives its elements from the global number
// `first` on.
template <typename Fill>
void fill_parameter(Executor& executor, const Parameter& parameter, const Fill& fill) {
  const Slice slice = parameter.slice();
  for_each_chunk(slice.elements(), [&](int64_t at, int64_t count) {
    const std::span<float> values = std::span(staging().values).first(static_cast<size_t>(count));
    for (const SliceRun& run : SliceRuns(slice, at, at + count)) {
      const auto part = values.subspan(static_cast<size_t>(run.local - at), static_cast<size_t>(run.length));
      fill(run.global, part);
      clear_zero_row(parameter, run.global, part);
    }
    write_parameter(executor, parameter, at, values);
  });
}

// The same for numbers that are drawn one after the other: draw(values) gives all elements of the whole parameter in
// turn, and those that are not here are dropped.
template <typename Draw>
void fill_in_turn(Executor& executor, const Parameter& parameter, const Draw& draw) {
  const Slice slice = parameter.slice();
  for_each_chunk(parameter.global_elements(), [&](int64_t first, int64_t count) {
    const std::span<float> values = std::span(staging().values).first(static_cast<size_t>(count));
    draw(values);
    clear_zero_row(parameter, first, values);
    const int64_t begin = slice.elements_before(first);
    const int64_t end = slice.elements_before(first + count);
    for (const SliceRun& run : SliceRuns(slice, begin, end)) {
      std::copy_n(values.begin() + (run.global - first), run.length, values.begin() + (run.local - begin));
    }
    write_parameter(executor, parameter, begin, values.first(static_cast<size_t>(end - begin)));
  });
}

// Normal numbers of a stream from any place on: those of a multiple of kDrawnTogether are drawn at once.
void draw_normal(host::RandomRange range, float standard_deviation, std::span<float> values) {
  constexpr int64_t kDrawnTogether = 64;
  if (const int64_t skipped = range.first % kDrawnTogether; skipped > 0) {
    std::array<float, kDrawnTogether> drawn;
    range.first -= skipped;
    host::fill_normal(range, standard_deviation, drawn);
    const size_t count = std::min(values.size(), static_cast<size_t>(kDrawnTogether - skipped));
    std::copy_n(drawn.begin() + skipped, count, values.begin());
    range.first += kDrawnTogether;
    values = values.subspan(count);
  }
  if (!values.empty()) host::fill_normal(range, standard_deviation, values);
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
        draw_normal({seed, stream, at}, initializer.standard_deviation, values);
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

// A parameter that a checkpoint lacks, drawn as PyTorch draws it.
void initialize_as_torch(Executor& executor, const Parameter& parameter, TorchGenerator& generator) {
  const Initializer& initializer = parameter.initializer;
  switch (initializer.kind) {
    case Initializer::Kind::kNormal: {
      TorchNormalPieces pieces(generator, parameter.global_elements(), 0, initializer.standard_deviation);
      fill_in_turn(executor, parameter, [&](std::span<float> values) { pieces.next(values); });
      return;
    }
    case Initializer::Kind::kUniform:
      fill_in_turn(executor, parameter, [&](std::span<float> values) {
        generator.uniform(values, -initializer.bound, initializer.bound);
      });
      return;
    case Initializer::Kind::kZeros:
    case Initializer::Kind::kOnes:
      fill_constant(executor, parameter);
  }
}

// A state of a parameter, as it is called in a file, and where what is here of it lies.
struct StateInFile {
  TensorSpec spec;  // of the whole state
  Slice slice;
  int32_t owner;
  StorageId storage;
  int64_t offset_bytes;
  int64_t bytes;  // of the slice
};

std::vector<StateInFile> optimizer_states_of(const StateTable& state, const OptimizerSettings& settings) {
  std::vector<StateInFile> found;
  for (const Parameter& parameter : state.parameters()) {
    if (!parameter.trainable) continue;
    for (const OptimizerState& kept : optimizer_states(settings, parameter)) {
      const OptimizerStatePlace place = find_optimizer_state(state, settings, parameter, kept.name);
      // A parameter of which nothing is here has its states elsewhere.
      if (!place.storage.valid() && parameter.local_elements() > 0) continue;
      const int64_t width = dtype_bytes(kept.dtype);
      found.push_back({{parameter.name + "." + kept.name, kept.dtype, kept.shape},
                       kept.slice(),
                       kept.owner(),
                       place.storage,
                       place.offset_elements * width,
                       kept.local_elements() * width});
    }
    // Alike on all ranks that average this weight (passes/local_sgd.h); the first writes it.
    const StorageId momentum =
        state.find_storage(fmt::format("{}.{}", state.storage(parameter.storage).name, kOuterMomentum));
    if (!momentum.valid()) continue;
    const int64_t width = dtype_bytes(DType::kF32);
    found.push_back({{fmt::format("{}.{}", parameter.name, kOuterMomentum), DType::kF32, parameter.shape},
                     parameter.slice(),
                     parameter.owner(),
                     momentum,
                     parameter.offset_elements * width,
                     parameter.local_elements() * width});
  }
  return found;
}

// Calls function(offset, bytes) for the pieces of a state that are viewed one by one, of `most` bytes or as
// many as the executor can show; whole elements.
template <typename Function>
void for_each_piece(const Executor& executor, const StateInFile& kept, int64_t most,
                    const Function& function) {
  constexpr int64_t kWidestElement = 8;
  most = std::max(kWidestElement,
                  std::min(executor.largest_view_bytes(), most) / kWidestElement * kWidestElement);
  for (int64_t at = 0; at < kept.bytes;) {
    const int64_t bytes = std::min(most, kept.bytes - at);
    function(at, bytes);
    at += bytes;
  }
}

void write_state(SafetensorsWriter& writer, const Executor& executor, const StateInFile& kept) {
  writer.append(kept.spec.name, {});
  for_each_piece(executor, kept, std::numeric_limits<int64_t>::max(), [&](int64_t at, int64_t bytes) {
    writer.append(kept.spec.name, ReadView(executor, kept.storage, kept.offset_bytes + at, bytes).bytes());
  });
}

void load_state(VerifiedTensorFiles& tensors, const StateInFile& kept, Executor& executor) {
  for_each_piece(executor, kept, kLoadedBytes, [&](int64_t at, int64_t bytes) {
    WriteView piece(executor, kept.storage, kept.offset_bytes + at, bytes);
    tensors.read_slice(kept.spec.name, kept.slice, at / dtype_bytes(kept.spec.dtype), piece.bytes());
    piece.send();
  });
}

// What a file has of a parameter, a range of what is here after the other.
class WeightReader {
 public:
  WeightReader(const Executor& executor, const Parameter& parameter, DType dtype,
               const OriginalWeights* originals)
      : executor_(executor), parameter_(parameter), dtype_(dtype) {
    const std::string name = original_name(executor.state(), parameter, originals);
    if (!name.empty()) original_.emplace(*originals, name, parameter.slice());
  }

  void read(int64_t offset_bytes, std::span<std::byte> to) {
    if (dtype_ != DType::kF32) {
      copy_bytes(executor_, parameter_, offset_bytes, to);
      return;
    }
    const std::span<float> values(reinterpret_cast<float*>(to.data()), to.size() / sizeof(float));
    if (original_) {
      original_->read_next(values);
    } else {
      read_parameter(executor_, parameter_, offset_bytes / 4, values);
    }
  }

 private:
  const Executor& executor_;
  const Parameter& parameter_;
  DType dtype_;
  std::optional<OriginalTensor> original_;
};

// `Writer`: of a file or of a model.
template <typename Writer>
void write_weight(Writer& writer, const TensorSpec& spec, const Parameter& parameter,
                  const Executor& executor, const OriginalWeights* originals) {
  WeightReader reader(executor, parameter, spec.dtype, originals);
  writer.append_filled(spec.name, std::as_writable_bytes(std::span(staging().values)),
                       [&](int64_t offset, std::span<std::byte> chunk) { reader.read(offset, chunk); });
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

std::string name_in_files(const TensorFiles& files, const StateTable& state, const std::string& parameter) {
  std::vector<std::string> candidates = {parameter};
  if (const auto other = state.other_names().find(parameter); other != state.other_names().end())
    candidates.push_back(other->second);
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

void load_parameter(VerifiedTensorFiles& tensors, const std::string& name, const Parameter& parameter,
                    std::string_view says, Executor& executor, ContentHash* content) {
  const TensorEntry& entry = tensors.tensor(name);
  const auto file = [&] { return tensors.files().path_of(name).string(); };
  if (entry.shape != parameter.shape) {
    throw user_error("[{}: {}] expected shape {} as {}, got {}", file(), name, shape_text(parameter.shape),
                     says, shape_text(entry.shape));
  }
  if (!is_float(entry.dtype)) {
    throw user_error("[{}: {}] expected a floating-point tensor, got {}", file(), name,
                     dtype_name(entry.dtype));
  }
  const Slice slice = parameter.slice();
  for_each_chunk(slice.elements(), [&](int64_t at, int64_t count) {
    const std::span<float> values = std::span(staging().values).first(static_cast<size_t>(count));
    read_elements(tensors, name, slice, at, values);
    if (content != nullptr) content->add(std::as_bytes(values));
    write_parameter(executor, parameter, at, values);
  });
}

bool is_of_head(const StateTable& state, const Parameter& parameter) {
  return state.storage(parameter.storage).region.component == Component::kHead;
}

std::string format_dropped(const std::vector<DroppedTensor>& dropped) {
  if (dropped.empty()) return {};
  std::vector<std::string> each;
  for (const DroppedTensor& tensor : dropped) {
    each.push_back(fmt::format("{} has {} in the files and {} here", tensor.parameter,
                               shape_text(tensor.shape_in_file), shape_text(tensor.shape)));
  }
  return fmt::format("not read, of another size: {}", fmt::join(each, ", "));
}

LoadedWeights load_weights(const TensorFiles& files, const StateTable& state, Executor& executor,
                           TorchGenerator& generator, const MayBeDropped& may_be_dropped) {
  LoadedWeights loaded;
  std::map<std::string, const Parameter*> parameter_of;  // by the name of a tensor
  std::set<std::string, std::less<>> dropped;            // tensors
  for (const Parameter& parameter : state.parameters()) {
    if (parameter.is_adapter) continue;
    std::string name = name_in_files(files, state, parameter.name);
    if (!name.empty() && files.tensor(name).shape != parameter.shape && may_be_dropped &&
        may_be_dropped(parameter)) {
      loaded.dropped.push_back({parameter.name, files.tensor(name).shape, parameter.shape});
      dropped.insert(std::exchange(name, {}));
    }
    if (!name.empty()) {
      parameter_of[name] = &parameter;
    } else if (is_of_head(state, parameter)) {
      initialize_as_torch(executor, parameter, generator);
      loaded.initialized.push_back(parameter.name);
    } else {
      for (const SafetensorsFile& file : files.files()) verify_listed(file.path());
      throw user_error(
          "[{}] expected a tensor '{}', got none of that name; are these the weights of this model, and "
          "of its config.json?",
          files.path().string(), parameter.name);
    }
  }
  std::set<std::string, std::less<>> twins;  // tensors that others stand for
  for (const auto& [parameter, other] : state.other_names()) twins.insert(other);
  VerifiedTensorFiles tensors(files, files_to_verify(state));
  load_verified(tensors, [&] {
    for (const std::string& name : files.names_in_files()) {
      const auto found = parameter_of.find(name);
      if (found == parameter_of.end()) {
        if (!twins.contains(name) && !dropped.contains(name)) loaded.unused.push_back(name);
      } else {
        ContentHash content;
        check_head_size(files, name, state, *found->second);
        load_parameter(tensors, name, *found->second, "config.json says", executor, &content);
        loaded.contents[name] = content.hex();
      }
    }
  });
  return loaded;
}

std::string format_unused(const std::vector<std::string>& tensors) {
  // Saved by older versions of transformers: positions, masks and frequencies.
  constexpr std::array<std::string_view, 4> kBuffers = {"position_ids", ".attn.bias", ".attn.masked_bias",
                                                        "rotary_emb.inv_freq"};
  constexpr size_t kMaxNamed = 8;
  std::vector<std::string> named;
  for (const std::string& tensor : tensors) {
    const bool is_buffer = std::any_of(kBuffers.begin(), kBuffers.end(),
                                       [&](std::string_view end) { return tensor.ends_with(end); });
    if (!is_buffer) named.push_back(tensor);
  }
  if (named.empty()) return {};
  const size_t more = named.size() - std::min(named.size(), kMaxNamed);
  named.resize(named.size() - more);
  return fmt::format("not used, the model has no such parameters: {}{}", fmt::join(named, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

void initialize_weights(const StateTable& state, Executor& executor, uint64_t seed) {
  for (size_t i = 0; i < state.parameters().size(); ++i) initialize_parameter(state, i, executor, seed);
}

StartedWeights start_weights(const std::filesystem::path& directory, const StateTable& state,
                             Executor& executor, int64_t seed, const MayBeDropped& may_be_dropped) {
  if (directory.empty()) {
    initialize_weights(state, executor, static_cast<uint64_t>(seed));
    return {};
  }
  TorchGenerator generator(static_cast<uint64_t>(seed));
  TensorFiles files = TensorFiles::open_weights(directory);
  LoadedWeights loaded = load_weights(files, state, executor, generator, may_be_dropped);
  for (size_t i = 0; i < state.parameters().size(); ++i) {
    if (state.parameters()[i].is_adapter)
      initialize_parameter(state, i, executor, static_cast<uint64_t>(seed));
  }
  return {std::move(loaded.initialized), std::move(loaded.unused), std::move(loaded.dropped),
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
                  const OriginalWeights* originals, const Owner& owner) {
  const std::vector<TensorSpec> specs = weight_specs(state, originals);
  if (owner.is_alone()) {
    SafetensorsModelWriter writer(directory, specs);
    for (const TensorSpec& spec : writer.order()) {
      const Parameter& parameter = state.parameter(state.find_parameter(spec.name));
      CHECK(parameter.is_whole(), "{} is saved whole and has {} here", spec.name,
            slice_text(parameter.slice()));
      write_weight(writer, spec, parameter, executor, originals);
    }
    writer.commit();
    return;
  }
  std::vector<SliceSpec> owned;
  for (const TensorSpec& spec : specs) {
    const Parameter& parameter = state.parameter(state.find_parameter(spec.name));
    if (parameter.owner() == owner.number && parameter.local_elements() > 0)
      owned.push_back({spec, parameter.slice()});
  }
  SafetensorsWriter writer = slices_writer(directory / owner_file_name(kSafetensorsFileName, owner), owned);
  for (const TensorSpec& spec : writer.tensors()) {
    const Parameter& parameter = state.parameter(state.find_parameter(spec.name));
    write_weight(writer, spec, parameter, executor, originals);
  }
  writer.commit();
}

void assemble_weights(const std::filesystem::path& directory, const TensorFiles& files,
                      const StateTable& state) {
  std::vector<TensorSpec> specs;
  for (const Parameter& parameter : state.parameters()) {
    if (parameter.is_adapter) continue;
    const TensorEntry& entry = files.tensor(parameter.name);
    specs.push_back({entry.name, entry.dtype, entry.shape});
  }
  SafetensorsModelWriter writer(directory, specs);
  VerifiedTensorFiles tensors(files);
  load_verified(tensors, [&] {
    for (const TensorSpec& spec : writer.order()) {
      const int64_t width = dtype_bytes(spec.dtype);
      const Slice whole = Slice::whole(tensor_bytes(spec) / width);
      writer.append_filled(spec.name, staging().bytes, [&](int64_t offset, std::span<std::byte> chunk) {
        tensors.read_slice(spec.name, whole, offset / width, chunk);
      });
    }
  });
  writer.commit();
}

void save_optimizer_states(const std::filesystem::path& file, const StateTable& state,
                           const Executor& executor, const OptimizerSettings& settings, const Owner& owner) {
  const std::vector<StateInFile> states = optimizer_states_of(state, settings);
  if (owner.is_alone()) {
    std::vector<TensorSpec> specs;
    for (const StateInFile& kept : states) {
      CHECK(kept.bytes == tensor_bytes(kept.spec), "{} is saved whole and has {} here", kept.spec.name,
            slice_text(kept.slice));
      specs.push_back(kept.spec);
    }
    SafetensorsWriter writer(file, specs);
    for (const StateInFile& kept : states) write_state(writer, executor, kept);
    writer.commit();
    return;
  }
  std::vector<SliceSpec> owned;
  std::map<std::string_view, const StateInFile*> state_of;
  for (const StateInFile& kept : states) {
    if (kept.owner != owner.number || kept.bytes == 0) continue;
    owned.push_back({kept.spec, kept.slice});
    state_of[kept.spec.name] = &kept;
  }
  SafetensorsWriter writer =
      slices_writer(parent_directory(file) / owner_file_name(file.filename().string(), owner), owned);
  for (const TensorSpec& spec : writer.tensors()) write_state(writer, executor, *state_of.at(spec.name));
  writer.commit();
}

void load_optimizer_states(const std::filesystem::path& file, const StateTable& state, Executor& executor,
                           const OptimizerSettings& settings) {
  const TensorFiles source = TensorFiles::open(file);
  const std::vector<StateInFile> states = optimizer_states_of(state, settings);
  std::map<std::string_view, const StateInFile*> state_of;
  for (const StateInFile& kept : states) state_of[kept.spec.name] = &kept;
  for (const std::string& name : source.names_in_files()) {
    if (state_of.contains(name)) continue;
    throw user_error(
        "[{}: {}] expected states of the weights that are trained, got another tensor; was it saved by a run "
        "with another optimizer, or with other weights frozen?",
        source.path_of(name).string(), name);
  }
  VerifiedTensorFiles tensors(source, files_to_verify(state));
  load_verified(tensors, [&] {
    for (const StateInFile& kept : states) {
      const TensorEntry& entry = source.tensor(kept.spec.name);
      if (entry.dtype == kept.spec.dtype && entry.shape == kept.spec.shape) continue;
      throw user_error(
          "[{}: {}] expected {} of shape {}, got {} of shape {}; was it saved by a run with another model?",
          source.path_of(entry.name).string(), kept.spec.name, dtype_name(kept.spec.dtype),
          shape_text(kept.spec.shape), dtype_name(entry.dtype), shape_text(entry.shape));
    }
    for (const std::string& name : source.names_in_files()) load_state(tensors, *state_of.at(name), executor);
  });
}

}  // namespace shoehorn
