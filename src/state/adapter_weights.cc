#include "state/adapter_weights.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>

#include "base/content_hash.h"
#include "base/error.h"
#include "exec/host_kernels.h"
#include "io/safetensors_writer.h"
#include "io/tensor_files.h"
#include "state/adapter_config.h"
#include "state/adapter_tensors.h"
#include "state/parts_of_ranks.h"
#include "state/weights.h"

namespace shoehorn {

namespace {

namespace fs = std::filesystem;

// Elements that pass through memory at a time: of adapters, which are saved in a run, few enough for the
// stack.
constexpr int64_t kAdapterChunkElements = int64_t{1} << 12;
constexpr int64_t kMergedChunkElements = int64_t{1} << 16;

void require_base(bool is_there) {
  if (!is_there) {
    throw user_error(
        "[lora_rank] expected a base model with weights, got a model that starts from random ones; its "
        "adapters could be loaded by nobody");
  }
}

// Elements of a parameter as trained, on the first rank.
void read_trained(const Executor& executor, const PartsOfRanks& parts, const Parameter& parameter,
                  int64_t offset, std::span<float> values) {
  parts.read(parameter, offset, values,
             [&](int64_t first, std::span<float> own) { read_parameter(executor, parameter, first, own); });
}

std::vector<float> read_whole(const Executor& executor, const PartsOfRanks& parts,
                              const Parameter& parameter) {
  std::vector<float> values(static_cast<size_t>(parameter.global_elements()));
  read_trained(executor, parts, parameter, 0, values);
  return values;
}

std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> made(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column)
      made[static_cast<size_t>(column * rows + row)] = values[static_cast<size_t>(row * columns + column)];
  }
  return made;
}

// B·A of one adapter, or (B·A)ᵀ = Aᵀ·Bᵀ if its weight is transposed, a range of elements at a time.
class LowRankProduct {
 public:
  LowRankProduct(const StateTable& state, const Executor& executor, const PartsOfRanks& parts,
                 const LowRankAdapter& adapter, float scale)
      : left_(read_whole(executor, parts, state.parameter(adapter.b))),
        right_(read_whole(executor, parts, state.parameter(adapter.a))),
        rank_(state.parameter(adapter.a).shape[0]),
        columns_(state.parameter(adapter.weight).shape[1]),
        scale_(scale) {
    if (!adapter.is_transposed) return;
    left_.swap(right_);
    left_ = transposed(left_, rank_, state.parameter(adapter.weight).shape[0]);
    right_ = transposed(right_, columns_, rank_);
  }

  // Adds elements [offset, offset + values.size()) of the scaled product.
  void add_to(int64_t offset, std::span<float> values) const {
    const int64_t end = offset + static_cast<int64_t>(values.size());
    std::vector<float> sums(static_cast<size_t>(columns_));
    for (int64_t at = offset; at < end;) {
      const int64_t row = at / columns_;
      const int64_t first = at - row * columns_;
      const int64_t last = std::min(columns_, end - row * columns_);
      std::fill(sums.begin(), sums.end(), 0.0F);
      for (int64_t r = 0; r < rank_; ++r) {
        const float factor = left_[static_cast<size_t>(row * rank_ + r)];
        const float* right = right_.data() + r * columns_;
        for (int64_t column = first; column < last; ++column)
          sums[static_cast<size_t>(column)] += factor * right[column];
      }
      for (int64_t column = first; column < last; ++column, ++at)
        values[static_cast<size_t>(at - offset)] += scale_ * sums[static_cast<size_t>(column)];
    }
  }

 private:
  std::vector<float> left_;   // [rows of the weight, rank]
  std::vector<float> right_;  // [rank, columns]
  int64_t rank_;
  int64_t columns_;
  float scale_;
};

// The weights of the merged model, a range at a time.
class MergedWeights {
 public:
  MergedWeights(const OriginalWeights& base, const ProgramFamily& family, const Executor& executor,
                const PartsOfRanks& parts)
      : base_(base), family_(family), executor_(executor), parts_(parts) {}

  std::vector<TensorSpec> specs() const {
    std::vector<TensorSpec> specs = weight_specs(*family_.state, &base_);
    for (TensorSpec& spec : specs) {
      const std::string name = name_in_files(base_.files, *family_.state, spec.name);
      if (name.empty()) continue;
      const DType stored = base_.files.tensor(name).dtype;
      if (stored == DType::kBF16 || stored == DType::kF16) spec.dtype = stored;
    }
    return specs;
  }

  void begin(const TensorSpec& spec) {
    const StateTable& state = *family_.state;
    const ParameterId id = state.find_parameter(spec.name);
    dtype_ = spec.dtype;
    parameter_ = &state.parameter(id);
    const std::vector<ParameterId>& saved = family_.adapters.saved;
    const std::string name = name_in_files(base_.files, state, spec.name);
    // What the files lack is new, and in the arena alone.
    const bool is_trained = name.empty() || std::find(saved.begin(), saved.end(), id) != saved.end();
    original_.reset();
    if (!is_trained) original_.emplace(base_, name, parameter_->slice());
    product_.reset();
    for (const LowRankAdapter& adapter : family_.adapters.list) {
      if (adapter.weight == id) product_.emplace(state, executor_, parts_, adapter, family_.adapters.scale);
    }
  }

  void fill(int64_t offset_bytes, std::span<std::byte> chunk) {
    const auto count = static_cast<int64_t>(chunk.size()) / dtype_bytes(dtype_);
    const int64_t offset = offset_bytes / dtype_bytes(dtype_);
    values_.resize(static_cast<size_t>(count));
    parts_.read(*parameter_, offset, values_, [&](int64_t first, std::span<float> own) {
      if (original_) {
        original_->read_next(own);
      } else {
        read_parameter(executor_, *parameter_, first, own);
      }
    });
    if (!parts_.is_first()) return;
    if (product_) product_->add_to(offset, values_);
    host::convert(DType::kF32, values_.data(), count, dtype_, chunk.data());
  }

 private:
  const OriginalWeights& base_;
  const ProgramFamily& family_;
  const Executor& executor_;
  const PartsOfRanks& parts_;
  // Of the tensor that is being written.
  DType dtype_ = DType::kF32;
  const Parameter* parameter_ = nullptr;
  std::optional<OriginalTensor> original_;  // none: what was trained
  std::optional<LowRankProduct> product_;
  std::vector<float> values_;
};

DType usual_dtype(const std::vector<TensorSpec>& specs) {
  std::map<DType, int64_t> elements;
  for (const TensorSpec& spec : specs) {
    elements[spec.dtype] +=
        std::accumulate(spec.shape.begin(), spec.shape.end(), int64_t{1}, std::multiplies<>());
  }
  return std::ranges::max_element(elements, {}, &std::pair<const DType, int64_t>::second)->first;
}

void load_adapter_tensors(VerifiedTensorFiles& tensors, const ProgramFamily& family, Executor& executor) {
  const TensorFiles& files = tensors.files();
  std::map<std::string, ParameterId> parameter_of;
  for (const AdapterTensor& tensor : adapter_file_tensors(family))
    parameter_of[tensor.name] = tensor.parameter;
  struct Loaded {
    std::string name;
    std::string content;
  };
  std::map<ParameterId, Loaded> loaded;
  for (const std::string& name : files.names_in_files()) {
    const auto found = parameter_of.find(name);
    if (found == parameter_of.end()) {
      throw user_error(
          "[{}: {}] expected adapters of the layers that target_modules names and tensors of "
          "modules_to_save, "
          "got another tensor; does the adapter go with this base model?",
          files.path().string(), name);
    }
    ContentHash content;
    load_parameter(tensors, name, family.state->parameter(found->second),
                   "the base model and r in adapter_config.json say", executor, &content);
    const auto& [first, is_first] =
        loaded.try_emplace(found->second, Loaded{.name = name, .content = content.hex()});
    if (!is_first && first->second.content != content.hex()) {
      throw user_error(
          "[{}: {}] expected the numbers of {}, which is one with it in the base model, got others",
          files.path().string(), name, first->second.name);
    }
  }
  for (const auto& [name, parameter] : parameter_of) {
    if (loaded.contains(parameter)) continue;
    throw user_error(
        "[{}] expected a tensor '{}', got none of that name; was the adapter trained with other targets, or is "
        "the file cut short?",
        files.path().string(), name);
  }
}

}  // namespace

std::vector<AdapterTensor> adapter_file_tensors(const ProgramFamily& family) {
  const StateTable& state = *family.state;
  std::vector<AdapterTensor> tensors;
  const auto add = [&](const std::string& name, ParameterId id) {
    tensors.push_back({std::string(kAdapterTensorPrefix) + name, id});
  };
  for (const LowRankAdapter& adapter : family.adapters.list) {
    for (const ParameterId id : {adapter.a, adapter.b}) add(state.parameter(id).name, id);
  }
  for (const ParameterId id : family.adapters.saved) {
    const std::string& name = state.parameter(id).name;
    add(name, id);
    const auto other = state.other_names().find(name);
    if (other != state.other_names().end()) add(other->second, id);
  }
  return tensors;
}

void save_adapter(const fs::path& directory, const fs::path& base, const LoraOptions& options,
                  const ProgramFamily& family, const Executor& executor, Communicator* ranks) {
  require_base(!base.empty());
  const PartsOfRanks parts(ranks);
  std::vector<TensorSpec> specs;
  std::map<std::string, ParameterId> parameter_of;
  for (const AdapterTensor& tensor : adapter_file_tensors(family)) {
    specs.push_back({tensor.name, DType::kF32, family.state->parameter(tensor.parameter).shape});
    parameter_of[tensor.name] = tensor.parameter;
  }
  sort_as_hugging_face(specs);
  std::array<float, kAdapterChunkElements> staging;
  const auto bytes = std::as_writable_bytes(std::span(staging));
  const auto fill_from = [&](const TensorSpec& spec) {
    return [&, &parameter = family.state->parameter(parameter_of.at(spec.name))](int64_t offset,
                                                                                 std::span<std::byte> chunk) {
      read_trained(executor, parts, parameter, offset / 4,
                   {reinterpret_cast<float*>(chunk.data()), chunk.size() / 4});
    };
  };
  if (!parts.is_first()) {
    for (const TensorSpec& spec : specs) fill_unwritten(spec, bytes, fill_from(spec));
    return;
  }
  SafetensorsWriter writer(directory / kAdapterWeightsName, specs);
  for (const TensorSpec& spec : writer.tensors()) writer.append_filled(spec.name, bytes, fill_from(spec));
  write_adapter_config(directory, base, options, family.adapters);
  writer.commit();
}

void load_adapter(const fs::path& directory, const ProgramFamily& family, Executor& executor) {
  const TensorFiles file = TensorFiles::open(directory / kAdapterWeightsName);
  VerifiedTensorFiles tensors(file);
  load_verified(tensors, [&] { load_adapter_tensors(tensors, family, executor); });
}

bool replaces_head(const ProgramFamily& family, const Parameter& parameter) {
  const auto is_this = [&](ParameterId id) { return family.state->parameter(id).name == parameter.name; };
  return is_of_head(*family.state, parameter) && std::ranges::any_of(family.adapters.saved, is_this);
}

DType save_merged_weights(const fs::path& directory, const OriginalWeights* base, const ProgramFamily& family,
                          const Executor& executor, Communicator* ranks) {
  require_base(base != nullptr);
  const PartsOfRanks parts(ranks);
  MergedWeights weights(*base, family, executor, parts);
  std::vector<std::byte> staging(static_cast<size_t>(kMergedChunkElements) * sizeof(float));
  const FillChunk fill = [&](int64_t offset, std::span<std::byte> chunk) { weights.fill(offset, chunk); };
  const std::vector<TensorSpec> specs = weights.specs();
  if (!parts.is_first()) {
    for (const ModelShard& file : split_into_shards(specs, kDefaultMaxShardBytes)) {
      for (const TensorSpec& spec : file.tensors) {
        weights.begin(spec);
        fill_unwritten(spec, staging, fill);
      }
    }
    return usual_dtype(specs);
  }
  SafetensorsModelWriter writer(directory, specs);
  for (const TensorSpec& spec : writer.order()) {
    weights.begin(spec);
    writer.append_filled(spec.name, staging, fill);
  }
  writer.commit();
  return usual_dtype(specs);
}

}  // namespace shoehorn
