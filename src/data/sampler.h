// The order of samples in an epoch: that of the Hugging Face Trainer (transformers 5.23, accelerate 1.15) in
// a single process with its default options.
//
//   random           accelerate's SeedableRandomSampler: torch.randperm(n) of a generator seeded with
//                    (data_seed, or else seed) + epoch.
//   sequential       0 … n - 1.
//   group_by_length  transformers' LengthGroupedSampler over chunks of per-device batch × accumulation
//                    samples: a permutation, cut into mega-batches, each sorted by falling length (ties keep their
//                    order), the longest sample of all first. It draws from PyTorch's global generator, which
//                    is seeded with `seed` (not data_seed). In each epoch the data loader draws one number
//                    before the permutation. So our order equals theirs as long as nothing else draws from
//                    that generator: always in the first epoch; in later ones if dropout runs on a GPU or
//                    not at all.
//
//   a mixture        (data/mixture.h) random and sequential: the mixture says which set a place draws from; each set's draws
//                    go through its samples in one permutation after another, of generators seeded with seed + the
//                    number of the permutation + 0x9E3779B9 × the number of the set, or from 0 to n - 1. So the
//                    first set has the order of a run with it alone.
//
// An order depends on (options, lengths, epoch) only. So resuming needs neither a saved generator state nor a
// replay of the data. Memory, for group_by_length only: 4 n bytes for the lengths, and 16 bytes per sample of
// a mega-batch; of a mixture 8 bytes a sample.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/mixture.h"

namespace shoehorn {

enum class SamplingStrategy : uint8_t { kRandom, kSequential, kGroupByLength };

// "random", "sequential", "group_by_length": the values of --train_sampling_strategy. UserError for any
// other.
SamplingStrategy parse_sampling_strategy(std::string_view name);

struct SamplerOptions {
  SamplingStrategy strategy = SamplingStrategy::kRandom;
  int64_t seed = 42;
  std::optional<int64_t> data_seed = {};
  int64_t group_size = 8;  // per_device_train_batch_size × gradient_accumulation_steps, for group_by_length
};

class Sampler {
 public:
  // `lengths`: tokens of each sample; only group_by_length reads more than their number. UserError: no
  // samples, or group_size below 1.
  Sampler(const SamplerOptions& options, std::span<const int32_t> lengths);
  // For strategies that need no lengths.
  Sampler(const SamplerOptions& options, int64_t samples);
  // UserError: group_by_length. `mixture` is copied.
  Sampler(const SamplerOptions& options, const Mixture& mixture);

  int64_t size() const { return size_; }

  // Writes the order of `epoch` (the first is 0) into `order`, which has size() elements. Does not allocate.
  // Not thread-safe: this object has the scratch in which mega-batches are sorted.
  void epoch_order(int64_t epoch, std::span<int64_t> order);

  int64_t memory_bytes() const;

 private:
  void group_by_length(int64_t epoch, std::span<int64_t> order);
  void mix(int64_t epoch, std::span<int64_t> order);
  int64_t mixed_sample(int64_t set, int64_t draw);

  SamplerOptions options_;
  int64_t size_;
  int64_t mega_batch_size_ = 0;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> positions_;  // scratch: a mega-batch before sorting
  std::vector<int64_t> ranks_;      // scratch: the places that its samples come from
  // Of a mixture: its turns, where each set begins in the samples of all, and the permutation that its draws are in.
  std::optional<Mixture> mixture_ = {};
  std::optional<MixtureTurns> turns_ = {};
  std::vector<int64_t> first_samples_;
  std::vector<int64_t> permutations_;  // of all sets, end to end
  std::vector<int64_t> numbers_;       // of the permutation of each set; -1: none so far
};

}  // namespace shoehorn
