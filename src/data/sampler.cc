#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "data/torch_random.h"

namespace shoehorn {

SamplingStrategy parse_sampling_strategy(std::string_view name) {
  if (name == "random") return SamplingStrategy::kRandom;
  if (name == "sequential") return SamplingStrategy::kSequential;
  if (name == "group_by_length") return SamplingStrategy::kGroupByLength;
  const std::string nearest = nearest_name(name, {"random", "sequential", "group_by_length"});
  throw user_error("[train_sampling_strategy] expected random, sequential or group_by_length, got '{}'{}",
                   name, nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
}

Sampler::Sampler(const SamplerOptions& options, int64_t samples) : options_(options), size_(samples) {
  if (size_ == 0) throw user_error("[sampler] expected at least one sample, got none; the data set is empty");
}

Sampler::Sampler(const SamplerOptions& options, std::span<const int32_t> lengths)
    : Sampler(options, static_cast<int64_t>(lengths.size())) {
  if (options_.strategy != SamplingStrategy::kGroupByLength) return;
  if (options_.group_size < 1) {
    throw user_error("[group_by_length] expected a batch of at least 1 sample, got {}", options_.group_size);
  }
  // As many as 50 groups, but at least four mega-batches, and at least one group.
  const int64_t group = std::min(options_.group_size, size_);
  const int64_t multiple = options_.group_size > size_ ? 1 : std::clamp<int64_t>(size_ / (group * 4), 1, 50);
  mega_batch_size_ = std::min(group * multiple, size_);
  lengths_.assign(lengths.begin(), lengths.end());
  positions_.resize(static_cast<size_t>(mega_batch_size_));
  ranks_.resize(static_cast<size_t>(mega_batch_size_));
}

Sampler::Sampler(const SamplerOptions& options, const Mixture& mixture)
    : options_(options), size_(mixture.epoch_size()), mixture_(mixture), turns_(mixture) {
  if (options_.strategy == SamplingStrategy::kGroupByLength) {
    throw user_error(
        "[train_sampling_strategy] expected random or sequential with files that are mixed by weight, got "
        "group_by_length");
  }
  int64_t samples = 0;
  for (int64_t set = 0; set < mixture.sets(); ++set) {
    first_samples_.push_back(samples);
    samples += mixture.set(set).samples;
  }
  numbers_.assign(first_samples_.size(), -1);
  if (options_.strategy == SamplingStrategy::kRandom) permutations_.resize(static_cast<size_t>(samples));
}

void Sampler::epoch_order(int64_t epoch, std::span<int64_t> order) {
  CHECK(static_cast<int64_t>(order.size()) == size_, "an order of {} samples for a sampler of {}",
        order.size(), size_);
  CHECK(epoch >= 0, "epoch {}", epoch);
  if (mixture_) {
    mix(epoch, order);
    return;
  }
  switch (options_.strategy) {
    case SamplingStrategy::kRandom: {
      const int64_t seed = options_.data_seed.value_or(options_.seed);
      TorchGenerator(static_cast<uint64_t>(seed) + static_cast<uint64_t>(epoch)).randperm(order);
      break;
    }
    case SamplingStrategy::kSequential:
      std::iota(order.begin(), order.end(), int64_t{0});
      break;
    case SamplingStrategy::kGroupByLength:
      group_by_length(epoch, order);
      break;
  }
}

void Sampler::mix(int64_t epoch, std::span<int64_t> order) {
  turns_->go_to(epoch * size_);
  for (int64_t& sample : order) {
    const int64_t set = turns_->next();
    sample = mixed_sample(set, turns_->draws(set) - 1);
  }
}

int64_t Sampler::mixed_sample(int64_t set, int64_t draw) {
  const int64_t samples = mixture_->set(set).samples;
  const int64_t first = first_samples_[static_cast<size_t>(set)];
  if (options_.strategy == SamplingStrategy::kSequential) return first + draw % samples;
  constexpr uint64_t kSetStride = 0x9E3779B9;
  const auto permutation =
      std::span(permutations_).subspan(static_cast<size_t>(first), static_cast<size_t>(samples));
  int64_t& number = numbers_[static_cast<size_t>(set)];
  if (number != draw / samples) {
    number = draw / samples;
    const auto seed = static_cast<uint64_t>(options_.data_seed.value_or(options_.seed));
    TorchGenerator(seed + static_cast<uint64_t>(number) + kSetStride * static_cast<uint64_t>(set))
        .randperm(permutation);
  }
  return first + permutation[static_cast<size_t>(draw % samples)];
}

void Sampler::group_by_length(int64_t epoch, std::span<int64_t> order) {
  TorchGenerator generator(static_cast<uint64_t>(options_.seed));
  for (int64_t e = 0; e <= epoch; ++e) {
    generator.random_int64();  // the loader's base seed for worker processes
    generator.randperm(order);
  }

  const auto length_of = [&](int64_t sample) { return lengths_[static_cast<size_t>(sample)]; };
  int64_t longest = 0;  // where the mega-batch with the longest sample starts
  for (int64_t begin = 0; begin < size_; begin += mega_batch_size_) {
    const auto count = static_cast<size_t>(std::min(mega_batch_size_, size_ - begin));
    const auto batch = order.subspan(static_cast<size_t>(begin), count);
    // A stable sort without a buffer of its own: places, ordered by length and then by place.
    std::copy(batch.begin(), batch.end(), positions_.begin());
    const auto ranks = std::span(ranks_).first(count);
    std::iota(ranks.begin(), ranks.end(), int64_t{0});
    std::sort(ranks.begin(), ranks.end(), [&](int64_t a, int64_t b) {
      const int32_t length_a = length_of(positions_[static_cast<size_t>(a)]);
      const int32_t length_b = length_of(positions_[static_cast<size_t>(b)]);
      return length_a != length_b ? length_a > length_b : a < b;
    });
    for (size_t i = 0; i < count; ++i) batch[i] = positions_[static_cast<size_t>(ranks[i])];
    if (length_of(order[static_cast<size_t>(begin)]) > length_of(order[static_cast<size_t>(longest)]))
      longest = begin;
  }
  std::swap(order[0], order[static_cast<size_t>(longest)]);
}

int64_t Sampler::memory_bytes() const {
  return static_cast<int64_t>(lengths_.capacity() * sizeof(int32_t) +
                              (positions_.capacity() + ranks_.capacity() + permutations_.capacity()) *
                                  sizeof(int64_t));
}

}  // namespace shoehorn
