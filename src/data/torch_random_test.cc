#include "data/torch_random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "data/test_support.h"

namespace shoehorn {
namespace {

uint64_t seed_of(const nlohmann::json& seed) {
  return seed.is_string() ? std::stoull(seed.get<std::string>()) : seed.get<uint64_t>();
}

template <typename Words>
std::string fnv1a(const Words& words) {
  uint64_t value = 0xcbf29ce484222325ULL;
  for (const auto& word : words) {
    const uint32_t bits = std::bit_cast<uint32_t>(word);
    value = (value ^ bits) * 0x100000001b3ULL;
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(value));
  return text;
}

TEST(TorchRandom, DrawsTheIntegersOfPyTorch) {
  for (const auto& golden : read_golden("torch_random", "random_int64")) {
    TorchGenerator generator(seed_of(golden["seed"]));
    for (const auto& draw : golden["draws"])
      EXPECT_EQ(generator.random_int64(), draw.get<int64_t>()) << golden["seed"];
  }
}

TEST(TorchRandom, RandpermOfPyTorch) {
  for (const auto& golden : read_golden("torch_random", "randperm")) {
    TorchGenerator generator(seed_of(golden["seed"]));
    for (const auto& order : golden["orders"]) {
      std::vector<int64_t> ours(golden["n"].get<size_t>());
      generator.randperm(ours);
      EXPECT_EQ(ours, order.get<std::vector<int64_t>>()) << golden["seed"];
    }
  }
}

TEST(TorchRandom, RandpermOfPyTorchAtSize) {
  const auto golden = read_golden("torch_random", "randperm_hash");
  std::vector<int64_t> order(golden["n"].get<size_t>());
  TorchGenerator(seed_of(golden["seed"])).randperm(order);
  EXPECT_EQ(fnv1a(std::vector<uint32_t>(order.begin(), order.end())), golden["fnv1a"].get<std::string>());
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<int64_t>(i));
}

TEST(TorchRandom, RandpermOfNothing) {
  TorchGenerator(1).randperm({});
}

// Both sides of the size at which PyTorch changes its algorithm; what torch 2.15 gives for seed 3.
TEST(TorchRandom, RandpermOfPyTorchWhereTheAlgorithmChanges) {
  if (std::getenv("SHOEHORN_LARGE_TESTS") == nullptr)
    GTEST_SKIP() << "takes 1.7 GB: set SHOEHORN_LARGE_TESTS to run it";
  const auto ends = [](size_t n) {
    std::vector<int64_t> order(n);
    TorchGenerator(3).randperm(order);
    std::vector<int64_t> both(order.begin(), order.begin() + 4);
    both.insert(both.end(), order.end() - 4, order.end());
    return both;
  };
  EXPECT_EQ(ends(214748363), (std::vector<int64_t>{3426993, 89012687, 34994685, 171579910, 2149681, 40745462,
                                                   212516164, 92186696}));
  EXPECT_EQ(ends(214748364), (std::vector<int64_t>{50815193, 116864026, 18612126, 8421410, 15019188,
                                                   108813077, 122959525, 138283752}));
}

TEST(TorchRandom, NormalOfPyTorchBitForBit) {
  for (const auto& golden : read_golden("torch_random", "normal")) {
    TorchGenerator generator(seed_of(golden["seed"]));
    for (size_t i = 0; i < golden["sizes"].size(); ++i) {
      std::vector<float> ours(golden["sizes"][i].get<size_t>());
      generator.normal(ours, golden["mean"].get<double>(), golden["std"].get<double>());
      std::vector<uint32_t> bits;
      for (const float value : ours) bits.push_back(std::bit_cast<uint32_t>(value));
      EXPECT_EQ(bits, golden["bits"][i].get<std::vector<uint32_t>>()) << golden["sizes"] << " tensor " << i;
    }
  }
}

TEST(TorchRandom, NormalOfPyTorchAtSize) {
  const auto golden = read_golden("torch_random", "normal_hash");
  std::vector<float> values(golden["n"].get<size_t>());
  TorchGenerator(seed_of(golden["seed"]))
      .normal(values, golden["mean"].get<double>(), golden["std"].get<double>());
  EXPECT_EQ(fnv1a(values), golden["fnv1a"].get<std::string>());
}

TEST(TorchRandom, UniformOfPyTorchBitForBit) {
  for (const auto& golden : read_golden("torch_random", "uniform")) {
    TorchGenerator generator(seed_of(golden["seed"]));
    for (size_t i = 0; i < golden["sizes"].size(); ++i) {
      std::vector<float> ours(golden["sizes"][i].get<size_t>());
      generator.uniform(ours, golden["from"].get<float>(), golden["to"].get<float>());
      std::vector<uint32_t> bits;
      for (const float value : ours) bits.push_back(std::bit_cast<uint32_t>(value));
      EXPECT_EQ(bits, golden["bits"][i].get<std::vector<uint32_t>>()) << golden["sizes"] << " tensor " << i;
    }
  }
}

// The float polynomials against the library's functions in double precision: Box-Muller of the same uniform
// numbers.
TEST(TorchRandom, NormalIsBoxMuller) {
  constexpr size_t kCount = 16 * 4096;
  std::vector<float> values(kCount);
  TorchGenerator(11).normal(values, 0.0, 1.0);
  TorchGenerator uniform(11);
  std::vector<double> u(kCount);
  for (double& value : u) value = static_cast<double>(uniform.random() & 0xffffffU) * 0x1p-24;
  for (size_t block = 0; block < kCount; block += 16) {
    for (size_t i = block; i < block + 8; ++i) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - u[i]));
      const double theta = 2.0 * M_PI * u[i + 8];
      // The angle is rounded to float before its sine is taken: that error grows with the angle, up to 2 pi.
      const double tolerance = 0x1p-23 * (1.0 + radius * 8.0);
      ASSERT_NEAR(values[i], radius * std::cos(theta), tolerance);
      ASSERT_NEAR(values[i + 8], radius * std::sin(theta), tolerance);
    }
  }
}

// A tensor that is drawn a piece after the other has the numbers of one that is drawn at once, and leaves the generator
// as that does.
TEST(TorchRandom, NormalInPiecesIsNormalAtOnce) {
  for (const int64_t elements : {0, 1, 2, 15, 16, 17, 31, 32, 33, 100, 1003}) {
    for (const int64_t piece : {1, 3, 16, 29, 2000}) {
      TorchGenerator at_once(9);
      std::vector<float> expected(static_cast<size_t>(elements));
      at_once.normal(expected, 1.0, 0.02);
      TorchGenerator in_pieces(9);
      TorchNormalPieces pieces(in_pieces, elements, 1.0, 0.02);
      std::vector<float> drawn(expected.size());
      for (int64_t at = 0; at < elements; at += piece) {
        const int64_t count = std::min(piece, elements - at);
        pieces.next(std::span(drawn).subspan(static_cast<size_t>(at), static_cast<size_t>(count)));
      }
      EXPECT_EQ(drawn, expected) << elements << " in pieces of " << piece;
      EXPECT_EQ(in_pieces.random(), at_once.random());
      std::vector<float> next(3);
      std::vector<float> next_expected(3);
      in_pieces.normal(next, 0, 1);
      at_once.normal(next_expected, 0, 1);
      EXPECT_EQ(next, next_expected);
    }
  }
}

TEST(TorchRandom, SeedingAgainForgetsTheSecondNormal) {
  TorchGenerator generator(1);
  std::vector<float> first(3);
  generator.normal(first, 0.0, 1.0);
  generator.manual_seed(1);
  std::vector<float> again(3);
  generator.normal(again, 0.0, 1.0);
  EXPECT_EQ(first, again);
}

}  // namespace
}  // namespace shoehorn
