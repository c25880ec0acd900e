#include "generate/token_sampling.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace shoehorn {

namespace {

bool comes_first(const TokenCandidate& a, const TokenCandidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

}  // namespace

void validate(const SamplingOptions& options) {
  if (!(options.temperature > 0) || !std::isfinite(options.temperature))
    throw user_error(
        "[--temperature] expected a number above 0, got {}; the most likely token is --no_do_sample",
        options.temperature);
  if (options.top_k < 0) throw user_error("[--top_k] expected 0 (all tokens) or more, got {}", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw user_error("[--top_p] expected a share above 0 and up to 1, got {}", options.top_p);
}

int32_t token_of_logits(std::span<const float> logits, const SamplingOptions& options, double uniform,
                        std::vector<TokenCandidate>& candidates) {
  candidates.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates[i] = {logits[i], static_cast<int32_t>(i)};
  if (!options.do_sample) return std::min_element(candidates.begin(), candidates.end(), comes_first)->token;
  if (options.top_k > 0 && options.top_k < std::ssize(candidates)) {
    std::nth_element(candidates.begin(), candidates.begin() + options.top_k - 1, candidates.end(),
                     comes_first);
    candidates.resize(static_cast<size_t>(options.top_k));
  }
  std::sort(candidates.begin(), candidates.end(), comes_first);
  const double largest = candidates.front().logit;
  const auto weight = [&](const TokenCandidate& candidate) {
    return std::exp((candidate.logit - largest) / options.temperature);
  };
  double total = 0;
  for (const TokenCandidate& candidate : candidates) total += weight(candidate);
  double kept = 0;
  size_t count = 0;
  while (count < candidates.size() && (count == 0 || kept < options.top_p * total)) {
    kept += weight(candidates[count++]);
  }
  double left = uniform * kept;
  for (size_t i = 0; i < count; ++i) {
    left -= weight(candidates[i]);
    if (left < 0) return candidates[i].token;
  }
  return candidates[count - 1].token;
}

}  // namespace shoehorn
