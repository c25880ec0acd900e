// The only file that knows oneDNN, and which of its versions: 2.x has operation descriptors, 3.x has not.
#include "exec/cpu/products/matmul_onednn.h"

#include <fmt/format.h>
#include <malloc.h>

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <vector>

#include "base/error.h"
#include "exec/cpu/products/code_memory.h"
#include "exec/cpu/simd/bf16_dots.h"

namespace shoehorn::cpu {

namespace {

// The library's own cache of primitives would keep the code of products that were given back.
const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine = [] {
    dnnl::set_primitive_cache_capacity(0);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

const dnnl::stream& cpu_stream() {
  static const dnnl::stream stream(cpu_engine());
  return stream;
}

dnnl::memory::data_type data_type(DType dtype) {
  CHECK(has_products_of(dtype) || widens_fast(dtype), "no product of {}", dtype_name(dtype));
  if (dtype == DType::kBF16) return dnnl::memory::data_type::bf16;
  return dtype == DType::kF16 ? dnnl::memory::data_type::f16 : dnnl::memory::data_type::f32;
}

using dnnl::memory;

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

memory::desc stored_b(const ProductShape& shape, DType dtype) {
  return {{shape.k, shape.n}, data_type(dtype), memory::dims{shape.row_stride_b, shape.column_stride_b}};
}

dnnl::matmul::primitive_desc describe_product(const ProductShape& shape, const memory::desc& b) {
  const memory::desc a({shape.m, shape.k}, data_type(shape.operands),
                       memory::dims{shape.row_stride_a, shape.column_stride_a});
  const memory::desc c({shape.m, shape.n}, data_type(shape.result), memory::format_tag::ab);
  const memory::desc bias({1, shape.n}, memory::data_type::f32, memory::format_tag::ab);
  const dnnl::primitive_attr attributes = product_attributes(shape.accumulate);
#if DNNL_VERSION_MAJOR >= 3
  if (shape.bias) return {cpu_engine(), a, b, bias, c, attributes};
  return {cpu_engine(), a, b, c, attributes};
#else
  if (shape.bias) return {dnnl::matmul::desc(a, b, bias, c), attributes, cpu_engine()};
  return {dnnl::matmul::desc(a, b, c), attributes, cpu_engine()};
#endif
}

// Blocked layouts of B by the product that they are for. A description takes the library a millisecond, and all pieces of a
// product have one such layout.
class BlockedLayouts {
 public:
  memory::desc of(const ProductShape& typical) {
    const std::lock_guard lock(mutex_);
    memory::desc& layout = layouts_[typical];
    if (layout.get_size() == 0) {
      const memory::desc any({typical.k, typical.n}, data_type(typical.operands), memory::format_tag::any);
      layout = describe_product(typical, any).weights_desc();
    }
    return layout;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    layouts_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<ProductShape, memory::desc> layouts_;
};

BlockedLayouts& blocked_layouts() {
  static BlockedLayouts layouts;
  return layouts;
}

// How the products of `shape` take B.
memory::desc taken_b(const ProductShape& shape) {
  if (shape.blocks_for_rows == 0) return stored_b(shape, shape.operands);
  ProductShape typical = shape;
  typical.m = shape.blocks_for_rows;
  return blocked_layouts().of(typical);
}

int64_t size_of(const memory::desc& description) {
  return static_cast<int64_t>(description.get_size());
}

void set(const memory& object, const void* data) {
  object.set_data_handle(const_cast<void*>(data));
}

// The C call takes its arguments from the stack.
void execute(const dnnl::primitive& primitive, std::span<const dnnl_exec_arg_t> arguments) {
  const dnnl_status_t status = dnnl_primitive_execute(primitive.get(), cpu_stream().get(),
                                                      static_cast<int>(arguments.size()), arguments.data());
  CHECK(status == dnnl_success, "a product failed with status {}", static_cast<int>(status));
}

// Sets of instructions are sets of bits: later processors have those of this one and more.
bool includes(dnnl::cpu_isa least) {
  const auto bits = static_cast<unsigned>(least);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

template <typename Implementation, typename ShapeType>
std::unique_ptr<Implementation> make(const ShapeType& shape, const ProductShape& product) {
  try {
    return std::make_unique<Implementation>(shape);
  } catch (const dnnl::error& error) {
    throw system_error("[matmul] expected {} to have a product of {}x{} by {}x{}, got '{}'", matmul_library(),
                       product.m, product.k, product.k, product.n, error.what());
  }
}

// A thread's copies of operands take 951,904 bytes or fewer (oneDNN 2.6.3). Where results are few and threads tens, the threads of
// a sum have a second result instead, which is smaller than all their copies and does not grow with the sum.
constexpr int64_t kCopyBytes = int64_t{1} << 20;

template <typename Shape, typename Made>
using Known = std::map<Shape, std::shared_ptr<const Made>>;

Known<ProductShape, Product>& known_products() {
  static Known<ProductShape, Product> products;
  return products;
}

Known<MoveShape, Move>& known_moves() {
  static Known<MoveShape, Move> moves;
  return moves;
}

// The one made of `shape`, made now where there is none.
template <typename Shape, typename Made>
std::shared_ptr<const Made> known(Known<Shape, Made>& all, const Shape& shape) {
  std::shared_ptr<const Made>& made = all[shape];
  if (made == nullptr) made = std::make_shared<const Made>(shape);
  return made;
}

}  // namespace

// The library's description of a product takes 20 kilobytes (2.6) or 130 (3.7). It is made to learn the
// workspace, freed, and made again for the code. So a plan with all its alternatives holds none.
struct Product::Implementation {
  explicit Implementation(const ProductShape& of)
      : shape(of), workspace_bytes(size_of(describe().scratchpad_desc())) {}

  dnnl::matmul::primitive_desc describe() const { return describe_product(shape, taken_b(shape)); }

  void compile() {
    check_room_for_code();
    const dnnl::matmul::primitive_desc description = describe();
    primitive = dnnl::matmul(description);
    a = memory(description.src_desc(), cpu_engine(), nullptr);
    b = memory(description.weights_desc(), cpu_engine(), nullptr);
    c = memory(description.dst_desc(), cpu_engine(), nullptr);
    scratchpad = memory(description.scratchpad_desc(), cpu_engine(), nullptr);
    if (shape.bias)
      bias = memory({{1, shape.n}, memory::data_type::f32, memory::format_tag::ab}, cpu_engine(), nullptr);
  }

  ProductShape shape;
  int64_t workspace_bytes;
  // Behind compile().
  dnnl::matmul primitive;
  memory a, b, c, scratchpad, bias;
};

Product::Product(const ProductShape& shape) : implementation_(make<Implementation>(shape, shape)) {}
Product::~Product() = default;

int64_t Product::workspace_bytes() const {
  return implementation_->workspace_bytes;
}

void Product::compile() const {
  if (!implementation_->primitive) implementation_->compile();
}

// Handles of the shared memory objects are set for each call: products run one at a time.
void Product::run(const void* a, const void* b, const float* bias, void* c, void* workspace) const {
  const Implementation& product = *implementation_;
  set(product.a, a);
  set(product.b, b);
  set(product.c, c);
  set(product.scratchpad, workspace);
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

struct Move::Implementation {
  // Who makes the form that the product reads: nobody, where it is the stored one; the caller, column blocks; or the library.
  enum class Kind : uint8_t { kIdle, kColumnBlocks, kColumnPairBlocks, kLibrary };

  explicit Implementation(const MoveShape& of) : shape(of) {
    const memory::desc taken = taken_b(shape.product);
    kind = kind_of(taken);
    if (kind == Kind::kIdle) return;
    moved_bytes = size_of(taken);
    if (kind == Kind::kLibrary) workspace_bytes = size_of(describe().scratchpad_desc());
  }

  Kind kind_of(const memory::desc& taken) const {
    if (taken == stored_b(shape.product, shape.stored)) return Kind::kIdle;
    const memory::dims sizes = {shape.product.k, shape.product.n};
    if (taken == memory::desc(sizes, memory::data_type::f32, memory::format_tag::BA16a64b))
      return Kind::kColumnBlocks;
    const bool has_pairs = dtype_bytes(shape.stored) == 2 && shape.stored == shape.product.operands;
    if (has_pairs && taken == memory::desc(sizes, data_type(shape.stored), memory::format_tag::BA16a64b2a))
      return Kind::kColumnPairBlocks;
    return Kind::kLibrary;
  }

  dnnl::reorder::primitive_desc describe() const {
    return {cpu_engine(), stored_b(shape.product, shape.stored), cpu_engine(), taken_b(shape.product),
            product_attributes(false)};
  }

  void compile() {
    check_room_for_code();
    const dnnl::reorder::primitive_desc description = describe();
    primitive = dnnl::reorder(description);
    from = memory(description.src_desc(), cpu_engine(), nullptr);
    to = memory(description.dst_desc(), cpu_engine(), nullptr);
    scratchpad = memory(description.scratchpad_desc(), cpu_engine(), nullptr);
  }

  MoveShape shape;
  Kind kind = Kind::kIdle;
  int64_t moved_bytes = 0;
  int64_t workspace_bytes = 0;
  // Of a move that is the library's, behind compile().
  dnnl::reorder primitive;
  memory from, to, scratchpad;
};

Move::Move(const MoveShape& shape) : implementation_(make<Implementation>(shape, shape.product)) {}
Move::~Move() = default;

bool Move::is_idle() const {
  return implementation_->kind == Implementation::Kind::kIdle;
}

bool Move::is_column_blocks() const {
  return implementation_->kind == Implementation::Kind::kColumnBlocks;
}

bool Move::is_column_pair_blocks() const {
  return implementation_->kind == Implementation::Kind::kColumnPairBlocks;
}

int64_t Move::moved_bytes() const {
  return implementation_->moved_bytes;
}

int64_t Move::workspace_bytes() const {
  return implementation_->workspace_bytes;
}

void Move::compile() const {
  Implementation& move = *implementation_;
  if (move.kind == Implementation::Kind::kLibrary && !move.primitive) move.compile();
}

void Move::run(const void* stored, void* moved, void* workspace) const {
  const Implementation& move = *implementation_;
  set(move.from, stored);
  set(move.to, moved);
  set(move.scratchpad, workspace);
  execute(move.primitive, std::array<dnnl_exec_arg_t, 3>{{{DNNL_ARG_FROM, move.from.get()},
                                                          {DNNL_ARG_TO, move.to.get()},
                                                          {DNNL_ARG_SCRATCHPAD, move.scratchpad.get()}}});
}

std::shared_ptr<const Product> plan_product(const ProductShape& shape) {
  return known(known_products(), shape);
}

std::shared_ptr<const Move> plan_move(const MoveShape& shape) {
  return known(known_moves(), shape);
}

void release_unused_products() {
  const auto is_unused = [](const auto& entry) { return entry.second.use_count() == 1; };
  std::erase_if(known_products(), is_unused);
  std::erase_if(known_moves(), is_unused);
  blocked_layouts().forget();
}

int64_t bytes_while_running(int threads) {
  return includes(dnnl::cpu_isa::avx512_core) ? 0 : threads * kCopyBytes;
}

const char* matmul_library() {
  static const std::string name = [] {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  }();
  return name.c_str();
}

bool has_products_of(DType operands) {
  if (operands == DType::kF32) return true;
  if (operands == DType::kBF16)
    // Tiles (AMX) are faster than both, but virtual machines may not have them.
    return includes(dnnl::cpu_isa::avx512_core_bf16) &&
           (includes(dnnl::cpu_isa::avx512_core_amx) || has_fast_bf16_dots());
#if DNNL_VERSION_MAJOR >= 3
  // With AVX-512 FP16 alone the library widens the operands, too, into buffers of each thread.
  if (operands == DType::kF16) return includes(dnnl::cpu_isa::avx512_core_amx_fp16);
#endif
  return false;
}

bool widens_fast(DType stored) {
  return stored == DType::kBF16 && includes(dnnl::cpu_isa::avx512_core);
}

bool has_blocked_layouts() {
  return includes(dnnl::cpu_isa::avx512_core);
}

// The library makes the code of sgemm when the first one runs: here, so that it is there when what the process holds is
// measured. Its copies of operands would stay in the heap, between other blocks, and make it grow; as mappings of their own
// they go back to the system each time.
void prepare_sgemm() {
  static std::once_flag once;
  std::call_once(once, [] {
    check_room_for_code();
    mallopt(M_MMAP_THRESHOLD, kCopyBytes / 4);
    constexpr int64_t kSize = 64;
    const std::vector<float> operand(kSize * kSize);
    std::vector<float> result(kSize * kSize);
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        run_sgemm({.m = kSize,
                   .n = kSize,
                   .k = kSize,
                   .transpose_a = transpose_a,
                   .transpose_b = transpose_b,
                   .row_stride_a = kSize,
                   .row_stride_b = kSize,
                   .accumulate = false,
                   .a = operand.data(),
                   .b = operand.data(),
                   .c = result.data()});
      }
    }
  });
}

void run_sgemm(const Sgemm& product) {
  const auto letter = [](bool transposed) { return transposed ? 'T' : 'N'; };
  const dnnl_status_t status =
      dnnl_sgemm(letter(product.transpose_a), letter(product.transpose_b), product.m, product.n, product.k,
                 1.0F, product.a, product.row_stride_a, product.b, product.row_stride_b,
                 product.accumulate ? 1.0F : 0.0F, product.c, product.n);
  CHECK(status == dnnl_success, "a product failed with status {}", static_cast<int>(status));
}

}  // namespace shoehorn::cpu
