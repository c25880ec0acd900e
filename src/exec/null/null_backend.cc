#include "exec/null/null_backend.h"

#include <algorithm>

#include "base/error.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

// A library's own packing buffers: those of a few threads stay below the first, and each of many below the second. (oneDNN
// 2.6.3 takes 129 KiB a thread for a product of one row by 768 columns, with 2 MiB of second-level cache, and 257 for one of
// 2x2 whose sums have 1536 terms in fp32, with 1 MiB.)
int64_t packing_bytes(int threads) {
  return std::max(int64_t{4} << 20, threads * (int64_t{288} << 10));
}

int64_t elements(const TensorType& type) {
  return type.shape.elements();
}

// The result and every operand in fp32, staged or packed into blocks; operands of 16 bits twice, widened before.
int64_t product_bytes(const OpContext& node, int threads) {
  int64_t count = 0;
  for (size_t i = 0; i < node.node.inputs.size(); ++i) {
    if (!node.node.inputs[i].valid()) continue;
    const TensorType& operand = node.type(static_cast<int64_t>(i));
    count += elements(operand) * (dtype_bytes(operand.dtype) == 2 ? 2 : 1);
  }
  for (size_t i = 0; i < node.node.outputs.size(); ++i)
    count += elements(node.output_type(static_cast<int64_t>(i)));
  return packing_bytes(threads) + count * 4;
}

// Of a language model's loss: a block of tokens with its logits, and chunks of the weight and its gradient, up to a fixed size;
// and what the products of a chunk take.
int64_t vocabulary_loss_bytes(const OpContext& node, int threads) {
  constexpr int64_t kMost = int64_t{112} << 20;
  constexpr int64_t kMostRows = 1024;
  constexpr int64_t kMostColumns = 2048 + 64;
  constexpr int64_t kPadding = 32;
  const int64_t rows = std::min(kMostRows, node.type(0).shape[0].maximum + kPadding);
  const int64_t hidden = node.type(0).shape[1].maximum;
  const int64_t entries = node.type(1).shape[0].maximum;
  const int64_t columns = std::min(kMostColumns, entries + 64);
  const int64_t whole = rows * (64 + 6 * (entries + 64) + 8 * hidden) + 2 * columns * hidden * 4 + hidden * 4;
  return packing_bytes(threads) + std::min(kMost, whole) + (columns * (hidden + rows) + rows * hidden) * 4;
}

// The most sequences of the batch: elements of its starts and lengths.
int64_t most_sequences(const OpContext& node) {
  int64_t sequences = 0;
  for (size_t i = 0; i < node.node.inputs.size(); ++i) {
    if (!node.node.inputs[i].valid()) continue;
    const TensorType& type = node.type(static_cast<int64_t>(i));
    if (type.dtype == DType::kI32) sequences = std::max(sequences, elements(type));
  }
  return sequences;
}

// Per thread: a few matrices of one head of a sequence, and strips of scores. Heads are padded to vectors,
// sequences to blocks of keys and queries. A trained bias has one gradient per sequence.
int64_t attention_bytes(const OpContext& node, int threads) {
  constexpr int64_t kMatrices = 8;
  constexpr int64_t kStripRows = 128;
  constexpr int64_t kPadding = 576;
  const auto& attributes = node.attributes<AttentionAttributes>();
  const int64_t tokens = attributes.max_query_length + attributes.max_key_length;
  const int64_t head_size = attributes.head_size + 16;
  const int64_t of_bias = attributes.trains_bias ? most_sequences(node) * attributes.heads * tokens : 0;
  return (threads * (tokens + kPadding) * (kMatrices * head_size + kStripRows) + of_bias) * 4;
}

// Partials of 64 rows each, for up to three parameters, and a number a row.
int64_t row_sums_bytes(const OpContext& node) {
  const Shape& shape = node.type(0).shape;
  if (shape.rank() == 0) return 0;
  const int64_t rows = shape[0].maximum;
  const int64_t columns = shape.rank() < 2 ? 1 : shape.back().maximum;
  return ((rows / 64 + 1) * columns * 3 + rows) * 4;
}

// Sums of rows and columns of a matrix, or of a part's rows.
int64_t adafactor_bytes(const UpdatedParameter& parameter) {
  const int64_t columns = std::max({parameter.columns, parameter.whole.columns, int64_t{1}});
  const int64_t matrices = std::max(parameter.matrices, parameter.whole.matrices);
  const int64_t rows = (parameter.elements() + parameter.padding) / columns;
  const int64_t chunks = rows / 64 + 2 * matrices + 3;
  return 4096 + 8 * chunks * (columns + 2) + 24 * matrices * (columns + 1);
}

// A partial sum for every 16384 elements of each input; Adafactor's sums of rows and columns of a matrix.
int64_t update_bytes(const OpContext& node) {
  constexpr int64_t kElementsPerPartial = 16384;
  int64_t bytes = 0;
  for (size_t i = 0; i < node.node.inputs.size(); ++i) {
    if (node.node.inputs[i].valid())
      bytes += (elements(node.type(static_cast<int64_t>(i))) / kElementsPerPartial + 1) * 8;
  }
  if (node.node.kind == OpKind::kAdafactorSums) {
    for (const UpdatedParameter& parameter : node.attributes<AdafactorSumsAttributes>().parameters)
      bytes = std::max(bytes, adafactor_bytes(parameter));
  }
  if (node.node.kind != OpKind::kAdafactor) return bytes;
  for (const auto& tensor : node.attributes<UpdateAttributes>().parameters) {
    for (const UpdatedParameter& parameter : tensor) bytes = std::max(bytes, adafactor_bytes(parameter));
  }
  return bytes;
}

class NullBackend final : public Backend {
 public:
  explicit NullBackend(OtherMachine machine) : machine_(std::move(machine)) {}

  const MachineProfile& machine() const override { return machine_.profile; }
  bool can_run() const override { return false; }

  int64_t workspace_bytes(const Program& program, const Node& node) const override {
    const OpContext context{program, node};
    const int threads = std::max(1, machine_.profile.threads);
    if (node.kind == OpKind::kAttention || node.kind == OpKind::kAttentionGrad)
      return attention_bytes(context, threads);
    if (node.kind == OpKind::kLinearCrossEntropy || node.kind == OpKind::kLinearCrossEntropyGrad ||
        node.kind == OpKind::kLinearCrossEntropyWithGrad)
      return vocabulary_loss_bytes(context, threads);
    switch (op_info(node.kind).op_class) {
      case OpClass::kContraction:
        return product_bytes(context, threads);
      case OpClass::kNormalization:
      case OpClass::kElementwise:
        return row_sums_bytes(context);
      case OpClass::kUpdate:
        return update_bytes(context);
      case OpClass::kMovement:
        return 0;
    }
    return 0;
  }

  std::unique_ptr<Arena> reserve(AddressSpace, int64_t) const override { throw nothing_runs(); }
  std::unique_ptr<Stream> make_stream() const override { throw nothing_runs(); }
  std::unique_ptr<Event> make_event() const override { throw nothing_runs(); }
  void copy_to_host(const std::byte*, std::span<std::byte>, Stream&) const override { throw nothing_runs(); }
  void copy_from_host(std::span<const std::byte>, std::byte*, Stream&) const override {
    throw nothing_runs();
  }
  void fill(std::byte*, int64_t, std::byte, Stream&) const override { throw nothing_runs(); }
  PreparedNode prepare(const Program&, const Node&, const NodeBuffers&, Stream&) const override {
    throw nothing_runs();
  }

  // As they were measured there.
  MemoryLimit memory_limit() const override {
    return {
        MemoryLimitKind::kOtherMachine, {}, machine_.available_memory_bytes, machine_.available_memory_bytes};
  }
  int64_t measure_overhead_bytes(AddressSpace) const override { return machine_.process_overhead_bytes; }
  MachineLimits measure_limits() const override { return machine_.limits; }
  std::vector<ArithmeticPeak> measure_arithmetic_peaks() const override { return {}; }
  int64_t rows_of_full_tiles(DType) const override { return 1; }

 private:
  UserError nothing_runs() const {
    return user_error(
        "[machine_profile] expected the machine of the profile ({}, {}, {} threads) to run on, got "
        "another: there is a plan only",
        machine_.profile.isa, machine_.profile.products, machine_.profile.threads);
  }

  OtherMachine machine_;
};

}  // namespace

std::unique_ptr<Backend> make_null_backend(OtherMachine machine) {
  return std::make_unique<NullBackend>(std::move(machine));
}

}  // namespace shoehorn
