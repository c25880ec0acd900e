// The only file that knows oneDNN, and which of its versions: 2.x has operation descriptors, 3.x has not.
#include "exec/cpu/matmul_onednn.h"

#include <fmt/format.h>

#include <map>
#include <oneapi/dnnl/dnnl.hpp>

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

dnnl::matmul::primitive_desc describe(const ProductShape& shape) {
  using dnnl::memory;
  const memory::desc a({shape.m, shape.k}, data_type(shape.operands),
                       memory::dims{shape.row_stride_a, shape.column_stride_a});
  const memory::desc b({shape.k, shape.n}, data_type(shape.operands),
                       memory::dims{shape.row_stride_b, shape.column_stride_b});
  const memory::desc c({shape.m, shape.n}, data_type(shape.result), memory::dims{shape.row_stride_c, 1});
  const memory::desc bias({1, shape.n}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  if (shape.bias) return {cpu_engine(), a, b, bias, c, attributes};
  return {cpu_engine(), a, b, c, attributes};
#else
  if (shape.bias) return {dnnl::matmul::desc(a, b, bias, c), attributes, cpu_engine()};
  return {dnnl::matmul::desc(a, b, c), attributes, cpu_engine()};
#endif
}

}  // namespace

struct Product::Implementation {
  explicit Implementation(const ProductShape& shape)
      : description(describe(shape)),
        primitive(description),
        a(description.src_desc(), cpu_engine(), nullptr),
        b(description.weights_desc(), cpu_engine(), nullptr),
        c(description.dst_desc(), cpu_engine(), nullptr),
        scratchpad(description.scratchpad_desc(), cpu_engine(), nullptr) {
    if (shape.bias) {
      bias = dnnl::memory({{1, shape.n}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab},
                          cpu_engine(), nullptr);
    }
  }

  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  dnnl::memory a, b, c, scratchpad, bias;
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
  return static_cast<int64_t>(implementation_->description.scratchpad_desc().get_size());
}

// Handles of the shared memory objects are set for each call: products run one at a time. The C call takes
// its arguments from the stack.
void Product::run(const void* a, const void* b, const float* bias, void* c, void* workspace) const {
  Implementation& product = *implementation_;
  const auto set = [](const dnnl::memory& memory, const void* data) {
    memory.set_data_handle(const_cast<void*>(data));
  };
  set(product.a, a);
  set(product.b, b);
  set(product.c, c);
  set(product.scratchpad, workspace);
  dnnl_exec_arg_t arguments[5] = {{DNNL_ARG_SRC, product.a.get()},
                                  {DNNL_ARG_WEIGHTS, product.b.get()},
                                  {DNNL_ARG_DST, product.c.get()},
                                  {DNNL_ARG_SCRATCHPAD, product.scratchpad.get()},
                                  {}};
  int count = 4;
  if (bias != nullptr) {
    set(product.bias, bias);
    arguments[count++] = {DNNL_ARG_BIAS, product.bias.get()};
  }
  const dnnl_status_t status =
      dnnl_primitive_execute(product.primitive.get(), cpu_stream().get(), count, arguments);
  CHECK(status == dnnl_success, "a product failed with status {}", static_cast<int>(status));
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
