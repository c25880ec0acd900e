// Small encoders, shared by the tests of the passes.
#pragma once

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/bert.h"
#include "models/registry.h"
#include "passes/pipeline.h"

namespace shoehorn::test_support {

inline constexpr BatchCapacity kCapacity{64, 4, 16};

inline BertForSequenceClassification small_bert(int64_t layers = 3, float dropout = 0.1F) {
  BertConfig config;
  config.vocab_size = 50;
  config.hidden_size = 12;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 3;
  config.intermediate_size = 20;
  config.max_position_embeddings = 16;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout;
  return BertForSequenceClassification(config);
}

inline std::unique_ptr<Model> small_distilbert() {
  const nlohmann::json config = {{"model_type", "distilbert"},
                                 {"vocab_size", 50},
                                 {"dim", 12},
                                 {"n_heads", 3},
                                 {"n_layers", 2},
                                 {"hidden_dim", 20},
                                 {"max_position_embeddings", 16}};
  return model_from_json(config, "a small DistilBERT");
}

inline ProgramFamily build(const Model& model, const StepOptions& options = {},
                           RunKind kind = RunKind::kTrain) {
  return build_programs(model, kind, kCapacity, kCapacity, options);
}

// The programs of the small BERT.
inline ProgramFamily build(const StepOptions& options, float dropout = 0.1F) {
  return build(small_bert(3, dropout), options);
}

inline int64_t count(const Program& program, OpKind kind, std::optional<Phase> phase = {}) {
  return std::count_if(program.nodes().begin(), program.nodes().end(), [&](const Node& node) {
    return node.kind == kind && (!phase || node.region.phase == *phase);
  });
}

}  // namespace shoehorn::test_support
