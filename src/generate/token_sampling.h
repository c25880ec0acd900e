// Draws the next token from a model's logits, as transformers' generate does: temperature, then the largest k, then the
// smallest set that holds the share p, then a draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shoehorn {

struct SamplingOptions {
  bool do_sample = false;  // false: the token of the largest logit
  double temperature = 1;  // above 0
  int64_t top_k = 50;      // 0: all tokens
  double top_p = 1;        // (0, 1]
};

// UserError naming the option that is out of its range.
void validate(const SamplingOptions& options);

// A candidate's token and logit; memory of token_of_logits that its caller keeps.
struct TokenCandidate {
  float logit = 0;
  int32_t token = 0;
};

// The drawn token. `uniform` is a number in [0, 1). Of equal logits the token with the smaller id comes first.
int32_t token_of_logits(std::span<const float> logits, const SamplingOptions& options, double uniform,
                        std::vector<TokenCandidate>& candidates);

}  // namespace shoehorn
