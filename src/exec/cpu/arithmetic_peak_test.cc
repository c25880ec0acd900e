#include "exec/cpu/arithmetic_peak.h"

#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <string>

namespace shoehorn::cpu {
namespace {

// Multiply-adds of an iteration: accumulators × lanes × products of a lane; of tiles, 4 × 16 × 16 × 32.
const std::map<std::string, double> kMultiplyAdds = {{"AVX2 FMA", 12 * 8},
                                                     {"AVX-512 FMA", 24 * 16},
                                                     {"AVX-512 BF16 dot products", 24 * 16 * 2},
                                                     {"AMX bf16 tiles", 4 * 16 * 16 * 32}};

class ArithmeticLoops : public testing::TestWithParam<size_t> {};

// Every product is 1, so that a loop's sum is the number of its multiply-adds, to the last one: fp32 counts
// exactly to 2^24.
TEST_P(ArithmeticLoops, DoAllTheirWork) {
  const ArithmeticLoop& loop = arithmetic_loops()[GetParam()];
  ASSERT_TRUE(kMultiplyAdds.contains(loop.name)) << loop.name;
  if (!loop.is_available()) GTEST_SKIP() << "this processor has no " << loop.name;
  for (const int64_t iterations : {int64_t{0}, int64_t{1}, int64_t{1000}, kMaxIterations}) {
    EXPECT_EQ(loop.run(iterations), static_cast<double>(iterations) * kMultiplyAdds.at(loop.name))
        << iterations;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ArithmeticLoops, testing::Range(size_t{0}, arithmetic_loops().size()),
                         [](const auto& info) {
                           std::string name = arithmetic_loops()[info.param].name;
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

TEST(ArithmeticPeak, EachLoopIsMeasuredWhereTheProcessorHasIt) {
  const std::vector<ArithmeticPeak> peaks = measure_arithmetic_peaks();
  ASSERT_EQ(peaks.size(), arithmetic_loops().size());
  for (size_t i = 0; i < peaks.size(); ++i) {
    const ArithmeticLoop& loop = arithmetic_loops()[i];
    EXPECT_EQ(peaks[i].name, loop.name);
    EXPECT_EQ(peaks[i].is_measured, loop.is_available()) << loop.name;
    EXPECT_EQ(peaks[i].flops_one_thread > 0, peaks[i].is_measured) << loop.name;
    EXPECT_EQ(peaks[i].flops_all_threads > 0, peaks[i].is_measured) << loop.name;
  }
}

}  // namespace
}  // namespace shoehorn::cpu
