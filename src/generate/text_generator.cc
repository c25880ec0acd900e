#include "generate/text_generator.h"

#include <algorithm>

#include "base/error.h"
#include "base/philox.h"
#include "base/rounding.h"
#include "data/batch.h"
#include "generate/next_token_model.h"
#include "session/batch_feed.h"
#include "session/session.h"
#include "state/adapter_config.h"
#include "state/starting_weights.h"

namespace shoehorn {

TextGenerator::TextGenerator(const Model& model, const TextGeneratorOptions& options)
    : max_length_(options.max_length), model_(std::make_unique<NextTokenModel>(model)) {
  if (max_length_ < 2 || max_length_ > model.max_positions()) {
    throw user_error("[generate] expected a length from 2 to {} tokens, the model's positions, got {}",
                     model.max_positions(), max_length_);
  }
  SessionOptions run;
  run.kind = RunKind::kEvaluate;
  run.threads = options.threads;
  run.evaluation = {
      .tokens = round_up(max_length_, kTokenMultiple), .sequences = 1, .longest_sequence = max_length_};
  if (!options.adapter.empty()) run.step.lora = read_adapter_config(options.adapter).lora;
  session_ = std::make_unique<Session>(*model_, run);
  session_->reserve();
  start_run({.weights = options.weights, .adapter = options.adapter, .on_line = options.on_line}, *session_);
  logits_.resize(static_cast<size_t>(model.vocab_size()));
}

TextGenerator::~TextGenerator() = default;

std::span<const float> TextGenerator::logits_of(std::span<const int32_t> tokens) {
  const ProgramFamily& family = session_->family();
  Executor& executor = session_->executor();
  DatasetBuilder builder;
  builder.add(tokens);
  const Dataset dataset = builder.finish();
  MicroBatchInputs inputs(executor, family.evaluation_batch);
  const int64_t first = 0;
  pack_micro_batch(dataset, {&first, 1}, 0, {.micro_batch_size = 1}, inputs.batch());
  inputs.send();
  std::vector<int64_t> counts;
  append_counts(inputs.batch(), counts);
  executor.write_scalar(family.scalars.target_count, 1.0F);
  const ProgramId program = family.find(ProgramKind::kEvaluate);
  executor.run(program, counts);
  const ReadView view(executor, program, family.program(program).result("logits"), 0,
                      std::ssize(logits_) * static_cast<int64_t>(sizeof(float)));
  std::copy_n(view.as<float>().begin(), logits_.size(), logits_.begin());
  return logits_;
}

std::vector<int32_t> TextGenerator::generate(std::span<const int32_t> prompt,
                                             const GenerationOptions& options, int64_t number,
                                             const std::function<void(int32_t token)>& on_token) {
  validate(options.sampling);
  if (prompt.empty()) throw user_error("[generate] expected a prompt of one token or more, got none");
  for (const int32_t token : prompt) {
    if (token < 0 || token >= model_->vocab_size())
      throw user_error("[generate] expected tokens below {}, the model's vocabulary, got {}",
                       model_->vocab_size(), token);
  }
  if (std::ssize(prompt) >= max_length_) {
    throw user_error("[generate] expected a prompt of fewer than {} tokens, got {}; nothing fits behind it",
                     max_length_, prompt.size());
  }
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  const int64_t most =
      std::min(max_length_, std::ssize(prompt) + std::min(max_length_, options.max_new_tokens));
  std::vector<TokenCandidate> candidates;
  while (std::ssize(tokens) < most) {
    const PhiloxKey key = philox_key(options.seed, static_cast<uint32_t>(number), 0);
    const double uniform = philox4x32_10(key, {static_cast<uint32_t>(tokens.size()), 0, 0, 0})[0] * 0x1p-32;
    const int32_t token = token_of_logits(logits_of(tokens), options.sampling, uniform, candidates);
    tokens.push_back(token);
    if (on_token) on_token(token);
    if (std::find(options.end_tokens.begin(), options.end_tokens.end(), token) != options.end_tokens.end())
      break;
  }
  return {tokens.begin() + std::ssize(prompt), tokens.end()};
}

}  // namespace shoehorn
