// Continues sequences of tokens with a language model: each new token is drawn from the logits of the last one.
//
// Every token runs the whole sequence through the model; what it computed of the tokens before is not kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/token_sampling.h"
#include "model/model.h"

namespace shoehorn {

struct GenerationOptions {
  SamplingOptions sampling = {};
  int64_t max_new_tokens = 20;
  std::vector<int32_t> end_tokens = {};  // a sequence ends behind any of them
  uint64_t seed = 42;
};

// What a generator runs.
struct TextGeneratorOptions {
  std::filesystem::path weights;       // a directory
  std::filesystem::path adapter = {};  // in PEFT's format; empty: none
  int64_t max_length = 0;              // the most tokens of a sequence, prompt and continuation
  int threads = 0;                     // 0: thread_count() decides
  // Told of notices about the weights (state/starting_weights.h); may be unset.
  std::function<void(const std::string& line)> on_line = {};
};

class NextTokenModel;
class Session;

class TextGenerator {
 public:
  // `model` must outlive this object. UserError if the model is no language model, or has fewer positions; errors of
  // read_adapter_config, start_run and Session.
  TextGenerator(const Model& model, const TextGeneratorOptions& options);
  ~TextGenerator();
  TextGenerator(const TextGenerator&) = delete;
  TextGenerator& operator=(const TextGenerator&) = delete;

  // The new tokens behind `prompt`, which has one token or more; the end token is among them. `on_token` is told of each
  // as it is drawn; may be unset. The same prompt, options and `number` give the same tokens. UserError: a prompt without
  // tokens or with one that the model does not have, one that fills max_length.
  std::vector<int32_t> generate(std::span<const int32_t> prompt, const GenerationOptions& options,
                                int64_t number = 0, const std::function<void(int32_t token)>& on_token = {});

 private:
  std::span<const float> logits_of(std::span<const int32_t> tokens);

  int64_t max_length_;
  std::unique_ptr<NextTokenModel> model_;
  std::unique_ptr<Session> session_;
  std::vector<float> logits_;
};

}  // namespace shoehorn
