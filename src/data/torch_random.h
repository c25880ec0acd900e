// PyTorch's CPU random number generator, bit for bit. With it a run meets samples in the same order, and
// initializes a new layer with the same weights, as the same script under PyTorch.
//
// The engine is MT19937 seeded with the low 32 bits of the seed (at::mt19937 is std::mt19937). On top of it:
//   random_int64   torch.empty((), dtype=torch.int64).random_().item()
//   randperm       torch.randperm(n, generator=g), both of its algorithms
//   uniform        tensor.uniform_(from, to, generator=g) of a float32 CPU tensor
//   normal         tensor.normal_(mean, std, generator=g) of a contiguous float32 CPU tensor, both of its
//   algorithms
//
// In PyTorch, `normal` of 16 or more elements is a vector kernel that computes logarithm, sine and cosine
// with the float polynomials of Cephes. Ours computes the same polynomials with the same fused multiply-adds.
// It equals PyTorch on every x86 machine with AVX2 or AVX-512; on a machine without them PyTorch itself
// differs in the last bits.
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

  // torch.Generator.manual_seed. For a negative Python seed s pass 2^64 + s (what a cast to uint64_t gives).
  void manual_seed(uint64_t seed);

  // random(): the next 32 bits. random64(): the next two draws, the first one in the high bits.
  uint32_t random();
  uint64_t random64();

  // Uniform over [0, 2^63).
  int64_t random_int64();

  // Fills `out` with a permutation of 0 … out.size() - 1.
  void randperm(std::span<int64_t> out);

  // Fills `out` with numbers in [from, to).
  void uniform(std::span<float> out, float from, float to);

  // Fills `out` with normal deviates. For fewer than 16 elements PyTorch draws in pairs in double precision
  // and keeps the second one for the next call; the kept one is part of the generator's state, and
  // manual_seed clears it.
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
