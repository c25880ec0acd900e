#include "lab/mpi_memory.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace shoehorn {
namespace {

TEST(MpiMemory, OneRankHasNone) {
  EXPECT_EQ(mpi_memory(1, std::nullopt).bytes, 0);
  EXPECT_EQ(mpi_memory(1, MpiMemory{.bytes = 100, .measured_ranks = 2}).bytes, 0);
}

// What is measured counts as it is; other ranks than those add as much each as where nothing is measured.
TEST(MpiMemory, GrowsWithTheRanks) {
  const int64_t of_another = mpi_memory(3, std::nullopt).bytes - mpi_memory(2, std::nullopt).bytes;
  EXPECT_GT(of_another, 0);
  EXPECT_EQ(mpi_memory(1024, std::nullopt).bytes, mpi_memory(2, std::nullopt).bytes + 1022 * of_another);
  const MpiMemory measured{.bytes = int64_t{9} << 20, .measured_ranks = 4};
  EXPECT_EQ(mpi_memory(4, measured).bytes, measured.bytes);
  EXPECT_EQ(mpi_memory(6, measured).bytes, measured.bytes + 2 * of_another);
  EXPECT_EQ(mpi_memory(2, measured).bytes, measured.bytes) << "most of it are libraries";
}

TEST(MpiMemory, SaysWhereItComesFrom) {
  EXPECT_EQ(describe_source(mpi_memory(8, std::nullopt)), "an estimate, as nobody measured it here");
  EXPECT_TRUE(to_json(mpi_memory(8, std::nullopt)).at("measured_ranks").is_null());
  const MpiMemory measured = mpi_memory(8, MpiMemory{.bytes = 100, .measured_ranks = 2});
  EXPECT_EQ(describe_source(measured), "as measured on 2 ranks of this host");
  EXPECT_EQ(to_json(measured).at("measured_ranks"), 2);
}

}  // namespace
}  // namespace shoehorn
