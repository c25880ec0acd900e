#include "exec/null/null_backend.h"

#include <algorithm>

#include "base/error.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

constexpr int64_t kBlock = int64_t{4} << 20;  // a product's packing buffers stay below this

class NullBackend final : public Backend {
 public:
  std::string name() const override { return "null"; }

  // Products: packing buffers, and for 16-bit operands the widened panels. Reductions over rows: partials of
  // 64 rows each.
  int64_t workspace_bytes(const Program& program, const Node& node) const override {
    const OpContext context{program, node};
    switch (op_info(node.kind).op_class) {
      case OpClass::kContraction: {
        if (context.type(0).dtype == DType::kF32) return kBlock;
        int64_t widened = 0;
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          if (node.inputs[i].valid()) widened += context.type(static_cast<int64_t>(i)).shape.elements() * 4;
        }
        return kBlock + widened;
      }
      case OpClass::kNormalization:
      case OpClass::kElementwise: {
        const Shape& shape = context.type(0).shape;
        return shape.rank() < 2 ? 0 : (shape[0].maximum / 64 + 1) * shape.back().maximum * 3 * 4;
      }
      case OpClass::kUpdate:
        return 1 << 20;
      case OpClass::kMovement:
        return 0;
    }
    return 0;
  }

  PreparedNode prepare(const Program& program, const Node&, const NodeBuffers&) const override {
    throw user_error("[null backend] expected a machine to run program '{}' on, got a plan only",
                     program.name());
  }
};

}  // namespace

std::unique_ptr<Backend> make_null_backend() {
  return std::make_unique<NullBackend>();
}

}  // namespace shoehorn
