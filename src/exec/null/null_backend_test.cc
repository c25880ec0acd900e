#include "exec/null/null_backend.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/op_builder.h"
#include "ops/op_info.h"

namespace shoehorn {
namespace {

class NullBackendTest : public testing::Test {
 protected:
  ValueId read(const std::string& name, Shape shape, DType dtype) {
    return program_.read_state(state_.add_storage({name, {dtype, std::move(shape)}, Role::kInput, {}, {}}));
  }
  int64_t product_workspace(DType dtype) {
    const ValueId x = read("x", {300, 500}, dtype);
    const NodeId id =
        builder_.add(OpKind::kMatmul, {x, read("w", {500, 70}, dtype)}, MatmulAttributes{}, "y");
    return backend_->workspace_bytes(program_, program_.node(id));
  }

  StateTable state_;
  Program program_{ProgramKind::kTrainStep, &state_};
  OpBuilder builder_{program_};
  std::unique_ptr<Backend> backend_ = make_null_backend();
};

TEST_F(NullBackendTest, WorkspaceIsAStatedBound) {
  const int64_t fp32 = product_workspace(DType::kF32);
  EXPECT_GT(fp32, 0);
  EXPECT_GE(product_workspace(DType::kBF16), fp32 + (300 * 500 + 500 * 70) * 4) << "operands widened whole";
  const ValueId x = read("z", {300, 500}, DType::kF32);
  const NodeId copy = builder_.add(OpKind::kCopy, {x}, {}, "copy");
  EXPECT_EQ(backend_->workspace_bytes(program_, program_.node(copy)), 0);
  const NodeId sum = builder_.add(OpKind::kColumnSum, {x}, {}, "sum");
  EXPECT_GE(backend_->workspace_bytes(program_, program_.node(sum)), 5 * 500 * 4) << "partials of 64 rows";
}

TEST_F(NullBackendTest, RunsNothing) {
  const auto backend = make_null_backend({.profile = {.isa = "SVE", .products = "a library", .threads = 96}});
  EXPECT_FALSE(backend->can_run());
  try {
    backend->reserve(AddressSpace::kDevice, 64);
    FAIL() << "reserved";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("(SVE, a library, 96 threads)"), std::string::npos)
        << error.what();
  }
}

TEST_F(NullBackendTest, MeasuresNothing) {
  const auto backend = make_null_backend({.limits = {1e12, 2e12, 1e11}, .process_overhead_bytes = 77});
  EXPECT_EQ(backend->measure_overhead_bytes(AddressSpace::kHost), 77);
  EXPECT_EQ(backend->measure_limits().bf16_flops, 2e12);
}

}  // namespace
}  // namespace shoehorn
