#include "analysis/find_anomaly.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/bfloat16.h"
#include "base/error.h"
#include "base/float16.h"
#include "exec/host_view.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

double element(const std::byte* data, DType dtype, int64_t i) {
  if (dtype == DType::kBF16) return to_float(reinterpret_cast<const bfloat16*>(data)[i]);
  if (dtype == DType::kF16) return to_float(reinterpret_cast<const float16*>(data)[i]);
  if (dtype == DType::kF64) return reinterpret_cast<const double*>(data)[i];
  return reinterpret_cast<const float*>(data)[i];
}

// Among elements [first, first + count) of a value.
std::optional<double> first_not_finite(const Executor& executor, ProgramId program, ValueId value,
                                       int64_t first, int64_t count) {
  const DType dtype = executor.program(program).type(value).dtype;
  const int64_t width = dtype_bytes(dtype);
  const int64_t most = std::max<int64_t>(1, std::min(count, executor.largest_view_bytes() / width));
  for (int64_t at = 0; at < count; at += most) {
    const int64_t piece = std::min(most, count - at);
    const ReadView view(executor, program, value, (first + at) * width, piece * width);
    for (int64_t i = 0; i < piece; ++i) {
      const double found = element(view.bytes().data(), dtype, i);
      if (!std::isfinite(found)) return found;
    }
  }
  return std::nullopt;
}

bool is_checked(const Node& node, const TensorType& type) {
  return !op_info(node.kind).makes_infinities && is_float(type.dtype);
}

// True for a gradient that a node of the forward makes: those of a vocabulary's loss, behind the loss's own outputs.
bool is_gradient_in_forward(const Node& node, size_t output) {
  constexpr size_t kLossOutputs = 4;
  return node.kind == OpKind::kLinearCrossEntropyWithGrad && output >= kLossOutputs;
}

}  // namespace

std::string find_anomaly(const Executor& executor, ProgramId ran, size_t node_at,
                         std::span<const int64_t> counts, bool forward_only) {
  const Program& program = executor.program(ran);
  const Node& node = program.nodes()[node_at];
  for (size_t output = 0; output < node.outputs.size(); ++output) {
    const ValueId id = node.outputs[output];
    const TensorType& type = program.type(id);
    if (!is_checked(node, type) || (forward_only && is_gradient_in_forward(node, output))) continue;
    // Rows in use: the outermost dimension that has a count; what lies behind it is whole.
    int64_t outer = 1;
    int64_t used = type.shape.elements();
    int64_t stride = used;
    for (int64_t axis = 0; axis < type.shape.rank(); ++axis) {
      const Dim& dim = type.shape[axis];
      stride = dim.maximum == 0 ? 0 : stride / dim.maximum;
      if (dim.count.valid()) {
        used = counts[dim.count.at()] * stride;
        stride *= dim.maximum;
        break;
      }
      outer *= dim.maximum;
      used = stride;
    }
    if (type.shape.rank() == 0 || (outer == type.shape.elements() && used != type.shape.elements())) {
      outer = 1;
      used = stride = type.shape.elements();
    }
    for (int64_t block = 0; block < outer; ++block) {
      const auto value = first_not_finite(executor, ran, id, block * stride, used);
      if (!value) continue;
      return fmt::format(
          "[--detect_anomaly] expected finite numbers, got {} from op {} ('{}', {}, {}) of program {}",
          *value, op_info(node.kind).name, program.value(id).name, region_name(node.region),
          phase_name(node.region.phase), program.name());
    }
  }
  return {};
}

void watch_for_anomaly(Executor& executor, bool forward_only) {
  executor.set_observer(
      [&executor, forward_only](ProgramId program, size_t node, std::span<const int64_t> counts) {
        const Phase phase = executor.program(program).nodes()[node].region.phase;
        if (forward_only && (phase == Phase::kBackward || phase == Phase::kUpdate)) return;
        const std::string found = find_anomaly(executor, program, node, counts, forward_only);
        if (!found.empty()) throw SystemError(found);
      });
}

}  // namespace shoehorn
