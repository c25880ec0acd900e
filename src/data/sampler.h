// The order in which an epoch meets the samples: that of the Hugging Face Trainer (transformers 5.23,
// accelerate 1.15) in a single process with its default options.
//
//   random           accelerate's SeedableRandomSampler: torch.randperm(n) of a generator seeded with
//                    (data_seed, or else seed) + epoch.
//   sequential       0 … n - 1.
//   group_by_length  transformers' LengthGroupedSampler over chunks of per-device batch × accumulation
//                    samples: a permutation, cut into mega-batches, each sorted by falling length (ties keep their
//                    order), the longest sample of all first. It draws from PyTorch's global generator,
//                    seeded with `seed`; data_seed does not touch it. In each epoch the loader draws one
//                    number before the permutation. So ours equals theirs as long as nothing else draws from
//                    that generator: always in the first epoch, and in later ones where dropout runs on a GPU
//                    or not at all.
//
// An order follows from (options, lengths, epoch) alone, so that a resumed run needs neither a saved
// generator state nor a replay of data. Memory: 4 n bytes for the lengths and 16 bytes a sample of a
// mega-batch, for group_by_length only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

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
  // `lengths`: tokens of each sample, for group_by_length; other strategies look at their number only.
  // UserError: no samples; group_size below 1.
  Sampler(const SamplerOptions& options, std::span<const int32_t> lengths);
  // Of a strategy that needs no lengths.
  Sampler(const SamplerOptions& options, int64_t samples);

  int64_t size() const { return size_; }

  // Writes the order of `epoch` (0 is the first) into `order`, which has size() elements. Does not allocate.
  // Not thread-safe: mega-batches are sorted in a scratch of this object.
  void epoch_order(int64_t epoch, std::span<int64_t> order);

  int64_t memory_bytes() const;

 private:
  void group_by_length(int64_t epoch, std::span<int64_t> order);

  SamplerOptions options_;
  int64_t size_;
  int64_t mega_batch_size_ = 0;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> positions_;  // the scratch: a mega-batch as it was before sorting
  std::vector<int64_t> ranks_;      // and the places its samples come from
};

}  // namespace shoehorn
