// PyTorch's CPU random number generator, bit for bit: what a run needs to meet samples in the same order, and
// to start a new layer from the same weights, as the same script under PyTorch.
//
// The engine is MT19937 seeded with the low 32 bits of the seed (at::mt19937 is std::mt19937). On top of it:
//   random_int64   torch.empty((), dtype=torch.int64).random_().item()
//   randperm       torch.randperm(n, generator=g), both of its algorithms
//   uniform        tensor.uniform_(from, to, generator=g) of a float32 CPU tensor
//   normal         tensor.normal_(mean, std, generator=g) of a contiguous float32 CPU tensor, both of its
//   algorithms
//
// `normal` of 16 elements and more is, in PyTorch, a vector kernel whose logarithm, sine and cosine are the
// float polynomials of Cephes; ours computes the same polynomials with the same fused multiply-adds, and
// equals PyTorch on every x86 machine with AVX2 or AVX-512. (On a machine without, PyTorch itself differs
// from that in the last bits.)
//
// Not thread-safe: one generator belongs to one thread at a time. Nothing allocates; nothing throws.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <span>

namespace shoehorn {

class TorchGenerator {
 public:
  explicit TorchGenerator(uint64_t seed) { manual_seed(seed); }

  // torch.Generator.manual_seed; a negative Python seed s is passed as 2^64 + s, which is what the cast
  // gives.
  void manual_seed(uint64_t seed);

  // The engine's next 32 bits, and its next two draws with the first one high.
  uint32_t random();
  uint64_t random64();

  // Uniform over [0, 2^63).
  int64_t random_int64();

  // Fills `out` with a permutation of 0 … out.size() - 1.
  void randperm(std::span<int64_t> out);

  // Fills `out` with numbers in [from, to).
  void uniform(std::span<float> out, float from, float to);

  // Fills `out` with normal deviates. Below 16 elements PyTorch draws them one by one in double precision and
  // keeps every second one for later: that memory is part of the generator and is cleared by manual_seed.
  void normal(std::span<float> out, double mean, double std);

 private:
  friend class TorchNormalPieces;
  float uniform_float();
  double uniform_double();
  double next_normal_double();

  std::mt19937 engine_;
  std::optional<double> next_normal_;
};

// The numbers of normal() for a tensor of so many elements, a piece after the other: for a tensor that is not held
// whole. Nobody else draws from the generator, which outlives this, before the last piece.
class TorchNormalPieces {
 public:
  TorchNormalPieces(TorchGenerator& generator, int64_t elements, double mean, double std)
      : generator_(generator), elements_(elements), mean_(mean), std_(std) {}

  // The next ones; together at most the tensor's.
  void next(std::span<float> out);

 private:
  static constexpr int64_t kBlock = 16;  // what PyTorch's kernel turns at once

  void draw_block();

  TorchGenerator& generator_;
  int64_t elements_;
  double mean_;
  double std_;
  int64_t given_ = 0;
  std::array<float, kBlock> block_{};
  int64_t block_begin_ = -kBlock;  // the element that block_ begins with
};

}  // namespace shoehorn
