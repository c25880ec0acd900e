// The only file that knows oneDNN, and which of its versions: 2.x has operation descriptors, 3.x has not.
#include "exec/cpu/matmul_onednn.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>

#include "base/error.h"

namespace shoehorn::cpu {

namespace {

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

const dnnl::stream& cpu_stream() {
  static const dnnl::stream stream(cpu_engine());
  return stream;
}

dnnl::memory::data_type data_type(DType dtype) {
  CHECK(dtype == DType::kF32 || dtype == DType::kBF16, "no product of {}", dtype_name(dtype));
  return dtype == DType::kF32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// From this many rows of A on, turning B into the library's blocked layout first costs less than it gains:
// each element of B that is moved once serves 2·M operations. Measured on AVX-512 (docs/measurements.md).
constexpr int64_t kRowsThatPayForBlocking = 512;

using dnnl::memory;

struct ProductDescs {
  memory::desc a, b, c, bias;
};

ProductDescs describe(const ProductShape& shape) {
  return {{{shape.m, shape.k},
           data_type(shape.operands),
           memory::dims{shape.row_stride_a, shape.column_stride_a}},
          {{shape.k, shape.n},
           data_type(shape.operands),
           memory::dims{shape.row_stride_b, shape.column_stride_b}},
          {{shape.m, shape.n}, data_type(shape.result), memory::dims{shape.row_stride_c, 1}},
          {{1, shape.n}, memory::data_type::f32, memory::format_tag::ab}};
}

dnnl::primitive_attr product_attributes(bool accumulate) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return attributes;
}

dnnl::matmul::primitive_desc choose(const ProductShape& shape) {
  const ProductDescs plain = describe(shape);
  const memory::desc any({shape.k, shape.n}, data_type(shape.operands), memory::format_tag::any);
  const memory::desc& b = shape.m >= kRowsThatPayForBlocking ? any : plain.b;
  const dnnl::primitive_attr attributes = product_attributes(shape.accumulate);
#if DNNL_VERSION_MAJOR >= 3
  if (shape.bias) return {cpu_engine(), plain.a, b, plain.bias, plain.c, attributes};
  return {cpu_engine(), plain.a, b, plain.c, attributes};
#else
  if (shape.bias) return {dnnl::matmul::desc(plain.a, b, plain.bias, plain.c), attributes, cpu_engine()};
  return {dnnl::matmul::desc(plain.a, b, plain.c), attributes, cpu_engine()};
#endif
}

int64_t align(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

int64_t size_of(const memory::desc& description) {
  return static_cast<int64_t>(description.get_size());
}

}  // namespace

// Workspace: B in blocks (where it is moved), then what the product or, before it, the move asks for.
struct Product::Implementation {
  explicit Implementation(const ProductShape& shape)
      : description(choose(shape)),
        primitive(description),
        a(description.src_desc(), cpu_engine(), nullptr),
        b(description.weights_desc(), cpu_engine(), nullptr),
        c(description.dst_desc(), cpu_engine(), nullptr),
        scratchpad(description.scratchpad_desc(), cpu_engine(), nullptr),
        plain_b(describe(shape).b, cpu_engine(), nullptr) {
    if (shape.bias) bias = memory(describe(shape).bias, cpu_engine(), nullptr);
    moves_b = !(description.weights_desc() == plain_b.get_desc());
    workspace_bytes = size_of(description.scratchpad_desc());
    if (!moves_b) return;
    const dnnl::reorder::primitive_desc move_description(cpu_engine(), plain_b.get_desc(), cpu_engine(),
                                                         description.weights_desc(),
                                                         product_attributes(false));
    move = dnnl::reorder(move_description);
    move_scratchpad = memory(move_description.scratchpad_desc(), cpu_engine(), nullptr);
    scratchpad_offset = align(size_of(description.weights_desc()));
    workspace_bytes =
        scratchpad_offset + std::max(workspace_bytes, size_of(move_description.scratchpad_desc()));
  }

  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  memory a, b, c, scratchpad, plain_b, bias;
  bool moves_b = false;
  dnnl::reorder move;
  memory move_scratchpad;
  int64_t scratchpad_offset = 0;
  int64_t workspace_bytes = 0;
};

Product::Product(const ProductShape& shape) {
  try {
    implementation_ = std::make_unique<Implementation>(shape);
  } catch (const dnnl::error& error) {
    throw system_error("[matmul] expected {} to have a product of {}x{} by {}x{}, got '{}'", matmul_library(),
                       shape.m, shape.k, shape.k, shape.n, error.what());
  }
}

Product::~Product() = default;

int64_t Product::workspace_bytes() const {
  return implementation_->workspace_bytes;
}

// Handles of the shared memory objects are set for each call: products run one at a time. The C calls take
// their arguments from the stack.
void Product::run(const void* a, const void* b, const float* bias, void* c, void* workspace) const {
  Implementation& product = *implementation_;
  const auto set = [](const memory& object, const void* data) {
    object.set_data_handle(const_cast<void*>(data));
  };
  const auto execute = [](const dnnl::primitive& primitive, std::span<const dnnl_exec_arg_t> arguments) {
    const dnnl_status_t status = dnnl_primitive_execute(primitive.get(), cpu_stream().get(),
                                                        static_cast<int>(arguments.size()), arguments.data());
    CHECK(status == dnnl_success, "a product failed with status {}", static_cast<int>(status));
  };
  auto* scratch = static_cast<std::byte*>(workspace) + product.scratchpad_offset;
  if (product.moves_b) {
    set(product.plain_b, b);
    set(product.b, workspace);
    set(product.move_scratchpad, scratch);
    execute(product.move,
            std::array<dnnl_exec_arg_t, 3>{{{DNNL_ARG_FROM, product.plain_b.get()},
                                            {DNNL_ARG_TO, product.b.get()},
                                            {DNNL_ARG_SCRATCHPAD, product.move_scratchpad.get()}}});
  } else {
    set(product.b, b);
  }
  set(product.a, a);
  set(product.c, c);
  set(product.scratchpad, scratch);
  std::array<dnnl_exec_arg_t, 5> arguments = {{{DNNL_ARG_SRC, product.a.get()},
                                               {DNNL_ARG_WEIGHTS, product.b.get()},
                                               {DNNL_ARG_DST, product.c.get()},
                                               {DNNL_ARG_SCRATCHPAD, product.scratchpad.get()},
                                               {}}};
  size_t count = 4;
  if (bias != nullptr) {
    set(product.bias, bias);
    arguments[count++] = {DNNL_ARG_BIAS, product.bias.get()};
  }
  execute(product.primitive, std::span(arguments).first(count));
}

std::shared_ptr<const Product> prepare_product(const ProductShape& shape) {
  static std::map<ProductShape, std::shared_ptr<const Product>> known;
  std::shared_ptr<const Product>& product = known[shape];
  if (product == nullptr) product = std::make_shared<const Product>(shape);
  return product;
}

const char* matmul_library() {
  static const std::string name = [] {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  }();
  return name.c_str();
}

bool has_bf16_products() {
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

}  // namespace shoehorn::cpu
